"""How far a run is, or the runs of a backfill together."""

from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from ..base import Model
from ..states import TaskState


class Progress(Model):
    """Counted tasks. The field names are those of Airflow's old progress line."""

    total_dagruns: int = 1
    total_tasks: int
    finished: int
    succeeded: int
    skipped: int
    failed: int
    pct: float = 0.0
    """Finished tasks of all tasks, in percent; 100 where there are none."""

    @model_validator(mode="before")
    @classmethod
    def _of_an_earlier_release(cls, fields: Any) -> Any:
        """It tells of no percents."""
        if isinstance(fields, dict) and "pct" not in fields and {"finished", "total_tasks"} <= fields.keys():
            return {**fields, "pct": percent(fields["finished"], fields["total_tasks"])}
        return fields

    @property
    def line(self) -> str:
        return (
            f"[backfill progress: {self.pct:.1f}%] | total dagruns: {self.total_dagruns} | "
            f"total tasks: {self.total_tasks} | finished: {self.finished} | succeeded: {self.succeeded} | "
            f"skipped: {self.skipped} | failed: {self.failed}"
        )


def percent(finished: int, total: int) -> float:
    """*finished* of *total*; nothing to do is done."""
    return round(100.0 * finished / total, 1) if total else 100.0


def progress(counts: Mapping[TaskState, int]) -> Progress:
    """The progress of a run with so many instances in each state."""
    total = sum(counts.values())
    finished = sum(n for state, n in counts.items() if state.finished)
    return Progress(
        total_tasks=total,
        finished=finished,
        succeeded=counts[TaskState.SUCCESS],
        skipped=counts[TaskState.SKIPPED],
        failed=counts[TaskState.FAILED] + counts[TaskState.UPSTREAM_FAILED],
        pct=percent(finished, total),
    )


def together(one: Progress | None, other: Progress) -> Progress:
    """Both counted together."""
    if one is None:
        return other
    counts = ("total_dagruns", "total_tasks", "finished", "succeeded", "skipped", "failed")
    added = {name: getattr(one, name) + getattr(other, name) for name in counts}
    return Progress(**added, pct=percent(added["finished"], added["total_tasks"]))
