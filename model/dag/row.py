"""One line of a list of DAGs: small enough for the memo of the DAG's workflow, so that no workflow has to be asked.

Imports next to nothing, since the command that lists DAGs imports it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from pydantic import ConfigDict

from ..base import Instant, Model
from ..states import RunState

TEXT = 200
"""The longest text that a line keeps; together its fields stay below 3 KB."""
SOURCE = 300
NAMES = 300
LONG_TEXT, MANY_NAMES = 2000, 20_000
"""The same of what is asked for where a line has less."""


class LastRun(Model):
    """The run that has ended last: what release 0.2 shows."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    run_id: str
    state: RunState
    run_after: Instant
    ended_at: Instant


class NewestRun(Model):
    """The newest run by run_after, whatever its state: what "the last run" means in every list (as in Airflow)."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    run_id: str
    state: RunState
    run_after: Instant
    started_at: Instant | None = None


class Interval(Model):
    """The data interval of the next run."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    start: Instant
    end: Instant


class DagRow(Model):
    """What a list shows of a DAG; names that `DagView` has are its. Fields that it does not know are passed over."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    dag_id: str
    dag_display_name: str | None = None
    description: str | None = None
    timetable_summary: str = ""
    is_paused: bool = False
    is_stale: bool = False
    has_import_errors: bool = False
    is_broken: bool = False
    next_dagrun: Instant | None = None
    """The logical date of the next run."""
    next_dagrun_create_after: Instant | None = None
    next_dagrun_data_interval: Interval | None = None
    due_at: Instant | None = None
    """When its jitter and its limits have it make the next run; None: nothing does, or it is not known."""
    knows_due: bool = False
    """Whether `due_at` says it: a line of release 0.2 does not."""
    max_active_runs: int = 0
    active_runs: int = 0
    queued_runs: int = 0
    last_run: LastRun | None = None
    """Read by release 0.2 alone, and where a DAG's line is of that release."""
    newest_run: NewestRun | None = None
    version: str = ""
    source: str | None = None
    bundle: str | None = None
    owners: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    written_for: str = "tidemill"
    """Whose classes its file is written with: tidemill's, or Airflow's."""
    is_cut: bool = False
    """Whether it lacks owners, tags or the rest of a text; see `whole_row`."""
    problem: str | None = None
    """Why its workflow cannot go on, where its workflow tasks fail. Known to lists alone."""

    @property
    def lacks_texts(self) -> bool:
        """Whether its DAG has to be asked for owners, tags or the rest of a text, and can be."""
        return self.is_cut and self.problem is None

    @property
    def makes_run_at(self) -> datetime | None:
        """When it makes the next run (UTC), as far as its line tells; None: nothing has it make one."""
        if self.knows_due:
            return self.due_at
        has_room = self.active_runs + self.queued_runs < self.max_active_runs
        return self.next_dagrun_create_after if has_room else None

    @property
    def last_state(self) -> RunState | None:
        """The state of the newest run."""
        if self.newest_run is not None:
            return self.newest_run.state
        if self.active_runs or self.queued_runs:  # a line of release 0.2 knows no more
            return RunState.RUNNING if self.active_runs else RunState.QUEUED
        return self.last_run.state if self.last_run is not None else None

    @property
    def display_name(self) -> str:
        return self.dag_display_name or self.dag_id

    @property
    def status(self) -> str:
        """The one word that stands for it: what keeps it from making runs goes first."""
        if self.problem is not None:
            return "failing"
        if self.is_broken:
            return "broken"
        if self.has_import_errors:
            return "import error"
        if self.is_stale:
            return "stale"
        return "paused" if self.is_paused else "active"


def row_of_view(view: dict[str, Any]) -> DagRow:
    """What the line of a DAG has of what it answers to `describe`: neither its owners nor its tags."""
    known = {**view, "is_broken": view.get("broken") is not None}
    return DagRow.model_validate({**known, "timetable_summary": timetable_summary(view["schedule"])})


def timetable_summary(schedule: dict[str, Any]) -> str:
    """A schedule in a few words."""
    match schedule["kind"]:
        case "cron_interval" | "cron_trigger":
            zone = "" if schedule["timezone"] == "UTC" else f" {schedule['timezone']}"
            text = f"{schedule['expression']}{zone}"
        case "delta_interval" | "delta_trigger":
            text = f"every {schedule['delta']}"
        case "multi_cron_trigger":
            text = ", ".join(schedule["expressions"])
        case "null":
            text = "none"
        case kind:
            text = str(kind)
    return text[:TEXT]


def names_that_fit(names: tuple[str, ...], limit: int = NAMES) -> tuple[str, ...]:
    """As many of *names* as have *limit* characters together."""
    kept: list[str] = []
    for name in names:
        limit -= len(name)
        if limit < 0:
            break
        kept.append(name)
    return tuple(kept)
