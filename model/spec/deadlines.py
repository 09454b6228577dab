"""Deadlines of runs as Airflow's files write them: by what, how long after, and which callback (DeadlineAlert)."""

from datetime import datetime, timedelta
from typing import Literal, Self

from pydantic import NonNegativeInt, model_validator

from ..base import LONGEST_DURATION, Instant, Model, OmitDefaults


class DeadlineAlert(OmitDefaults, Model):
    """When a run should have ended at the latest. Told once, if it has not."""

    number: NonNegativeInt
    """Which of the DAG's alerts it is: its callback is the file's."""
    reference: Literal["logical_date", "queued_at", "fixed"]
    """What it counts from."""
    interval: timedelta = timedelta()
    """How long after that, in seconds; negative: before."""
    at: Instant | None = None
    """What is fixed; None for other references."""

    @model_validator(mode="after")
    def _has_its_moment(self) -> Self:
        if (self.reference == "fixed") != (self.at is not None):
            raise ValueError("a fixed deadline has its moment, and others have none. Give `at` with reference fixed")
        return self

    def due(self, logical_date: datetime | None, queued_at: datetime) -> datetime | None:
        """Return the moment, in UTC; None for a run without the date that it counts from, or for one too far ahead."""
        start = {"logical_date": logical_date, "queued_at": queued_at, "fixed": self.at}[self.reference]
        try:
            moment = None if start is None else start + self.interval
        except OverflowError:
            return None
        return moment if moment is not None and moment - queued_at <= LONGEST_DURATION else None
