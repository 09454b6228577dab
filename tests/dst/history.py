"""One execution of a workflow as the service keeps it: its history, and what of it is still pending."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob

QUESTIONS = (
    "tidemill.answer", "tidemill.backfill", "tidemill.coming", "tidemill.compare", "tidemill.conf", "tidemill.ended",
    "tidemill.holders", "tidemill.list", "tidemill.load", "tidemill.parse", "tidemill.register", "tidemill.revise",
    "tidemill.tell",
)  # fmt: skip
"""Activities that answer workflows: what they ask is on its way."""


class Status(StrEnum):
    """How an execution stands; the names are Temporal's."""

    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"
    TERMINATED = "Terminated"
    CONTINUED_AS_NEW = "ContinuedAsNew"


@dataclass(slots=True)
class Event:
    """One event of a history. *kind* is the name of its type, such as `TimerFired`."""

    event_id: int
    at: int
    kind: str
    data: dict[str, Any]


@dataclass(slots=True)
class Activity:
    """An activity that has not ended."""

    scheduled_id: int
    seq: int
    activity_id: str
    kind: str
    task_queue: str
    input: list[Payload]
    start_to_close: int
    heartbeat: int | None
    initial_interval: int
    coefficient: float
    maximum_interval: int
    maximum_attempts: int
    cancellation: int
    scheduled_at: int
    attempt: int = 1
    started_at: int | None = None
    worker: int | None = None
    cancel_requested: bool = False


@dataclass(slots=True)
class Child:
    """A child workflow whose end has not been recorded."""

    initiated_id: int
    seq: int
    workflow_id: str
    kind: str
    parent_close_policy: int
    run_id: str | None = None


@dataclass(slots=True)
class PendingUpdate:
    """An update that has not been answered."""

    update_id: str
    name: str
    arguments: list[Payload]
    accepted: bool = False
    delivered: bool = False


@dataclass(slots=True)
class Step:
    """One completed workflow task: what a replay gives the workflow, and the commands that it has to answer with."""

    jobs: list[WorkflowActivationJob]
    at: int
    length: int
    suggests_continue_as_new: bool
    started_id: int
    commands: tuple[bytes, ...] = ()
    outline: tuple[str, ...] = ()
    """The commands in short: what the SDK compares on a replay."""
    patches: tuple[str, ...] = ()
    has_new_patch: bool = False
    """Whether one of them is not deprecated: then the last release does not know it."""
    may_lack: frozenset[str] = frozenset()
    """Of the outline, the markers that are deprecated: code that knows nothing of them any more may replay it."""
    flags: tuple[int, ...] = ()
    strict: bool = True
    """Whether a replay has to give the same commands to the byte. Not after a reset: the run id has changed."""
    by_last_release: bool = False
    """Whether a worker of the last release has answered: another may write more, and asks for the same."""


@dataclass
class Execution:
    """One execution. Lists and dicts hold what a mutable state of Temporal's service holds."""

    workflow_id: str
    run_id: str
    kind: str
    task_queue: str
    started_at: int
    first_run_id: str
    original_run_id: str
    input: list[Payload]
    memo: dict[str, Payload]
    started_memo: dict[str, Payload]
    continued_from: str | None = None
    parent: tuple[str, str, int] | None = None
    """Workflow id, run id and the event that has initiated this child."""
    status: Status = Status.RUNNING
    closed_at: int | None = None
    events: list[Event] = field(default_factory=list)
    buffered: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    seen: int = 0
    """How many events the workflow has been told of."""
    timers: dict[int, int] = field(default_factory=dict)
    """By seq, the event that has started the timer."""
    activities: dict[int, Activity] = field(default_factory=dict)
    children: dict[int, Child] = field(default_factory=dict)
    signals: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By initiated event, seq and workflow id of signals to others."""
    updates: dict[str, PendingUpdate] = field(default_factory=dict)
    task: str | None = None
    """Whether a workflow task is "scheduled" or "started"."""
    task_token: int = 0
    task_attempt: int = 1
    task_scheduled_id: int = 0
    speculative: bool = False
    """Whether the workflow task only asks for an update: without an answer, no event tells of it."""
    cancel_requested: bool = False
    suggested_at: int | None = None
    """How many events there were when it was first suggested to continue as new."""
    sticky: int | None = None
    reset_from: str | None = None
    reset_to: str | None = None
    """The run id of the execution that a reset has put in its place."""
    view: dict[str, Any] | None = None
    """What the memo shows, where somebody has read it."""

    @property
    def running(self) -> bool:
        return self.status is Status.RUNNING

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is under way but timers and work that takes its time."""
        begun = all(child.run_id is not None for child in self.children.values())
        asked = any(activity.kind.startswith(QUESTIONS) for activity in self.activities.values())
        failed = any(activity.attempt > 1 and activity.started_at is None for activity in self.activities.values())
        waits = self.task is None and self.task_attempt == 1 and not (self.buffered or self.signals or self.updates)
        return waits and begun and not asked and not failed

    @property
    def next_id(self) -> int:
        return len(self.events) + 1
