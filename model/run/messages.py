"""What a DAG and its runs tell each other."""

from typing import Any, ClassVar

from pydantic import Field

from ..base import Instant, Model, OmitDefaults, OmitNewDefaults, Request
from ..states import RunState, TaskState
from .identity import RunColumns
from .past import Past
from .progress import Progress


class RunReport(OmitNewDefaults, Model):
    """What a run tells its DAG when it ends, or who has looked at it."""

    later_fields: ClassVar[tuple[str, ...]] = ("run",)

    key: str
    state: RunState
    ended_at: Instant
    reported_at: Instant | None = Field(None, alias="told_at")
    """When it tells; later than `ended_at` where a person has said otherwise how it has ended. None: `ended_at`."""
    reason: str
    past: dict[str, TaskState] = {}
    """How those tasks ended that the next run looks back at."""
    progress: Progress | None = None
    """How its tasks ended, counted. None: it has not begun, or an earlier release tells of it."""
    run: RunColumns | None = None
    """Which run it is, where it was found and not made by who is told: another may have the date."""


class TasksEnded(OmitDefaults, Model):
    """What a run tells its DAG while it goes on, where the next run looks back at some of its tasks."""

    key: str
    states: dict[str, TaskState]
    is_delta: bool = False
    """Whether only the tasks are named whose state is another than was told before."""


class DagUpdate(OmitDefaults, Model):
    """What a DAG tells a run that goes on. Of two, the one with the higher number holds."""

    number: int
    is_paused: bool
    past: Past | None = None
    is_delta: bool = False
    """Whether `past` names only the tasks whose state is another than was told before."""


class XComQuestion(Model):
    """What one task has left in a run, by its instances."""

    task_id: str
    key: str


class Answer(Request):
    """A person's answer to an approval task."""

    task: str
    chosen: tuple[str, ...]
    params: dict[str, Any] = {}
    by: str | None = None
