"""A backfill as its author asks for it."""

from enum import StrEnum
from typing import Self

from pydantic import PositiveInt, model_validator

from ..base import Instant, Request, iso
from ..json_values import Conf
from ..states import RunState


class ReprocessBehavior(StrEnum):
    """What to do about a date that has a finished run already (Airflow's names).

    A run that is run again keeps its run_id and becomes one of the backfill.
    """

    NONE = "none"
    FAILED = "failed"
    COMPLETED = "completed"

    def again(self, state: RunState) -> bool:
        if self is ReprocessBehavior.COMPLETED:
            return state.finished
        return self is ReprocessBehavior.FAILED and state is RunState.FAILED


class BackfillRequest(Request):
    """A backfill as its author asks for it: runs with from_date <= logical date <= to_date."""

    from_date: Instant
    to_date: Instant
    run_backwards: bool = False
    reprocess_behavior: ReprocessBehavior = ReprocessBehavior.NONE
    max_active_runs: PositiveInt = 10
    conf: Conf = {}
    dry_run: bool = False

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.to_date < self.from_date:
            raise ValueError(
                f"to_date {iso(self.to_date)} is before from_date {iso(self.from_date)}. "
                "Swap them; for the newest first set run_backwards"
            )
        return self
