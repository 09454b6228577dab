"""A run for each partition of a calendar, by a cron expression (Airflow: CronPartitionTimetable)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal

from pydantic import Field

from .base import DataInterval
from .cron import zone
from .trigger import CronTrigger, RunImmediately

KEY_FORMAT = "%Y-%m-%dT%H:%M:%S"


class CronPartition(CronTrigger):
    """A run at each tick, about the partition of that tick, or of one so many ticks on or back.

    Its runs have a partition_key and a partition_date, and neither a logical date nor an interval.
    """

    kind: Literal["cron_partition"] = "cron_partition"  # type: ignore[assignment]
    run_offset: int = 0
    """How many ticks on from its own the partition of a run is; negative: back."""
    run_immediately: RunImmediately = False
    """Without catchup: true, the last tick before now gets the first run; a duration, if it is no longer ago than that;
    else, if it is no longer ago than a tenth of the time between two ticks, or five minutes."""
    key_format: str = Field(default=KEY_FORMAT, min_length=1)
    """How a key is written, as strftime does; in the time zone of the expression."""

    def partition_of(self, run_after: datetime) -> tuple[datetime, str]:
        """The date and the key of the run at that tick."""
        found, date = self._ticks, run_after
        for _ in range(abs(self.run_offset)):
            moved = found.next(date) if self.run_offset > 0 else found.prev(date)
            if moved is None:
                break
            date = moved
        return date, self.written(date)

    def written(self, date: datetime) -> str:
        """The key of the partition of that date."""
        return date.astimezone(zone(self.timezone)).strftime(self.key_format)

    def decoded(self, key: str) -> datetime:
        """The date of a key. Raises ValueError for a text that is none."""
        read = datetime.strptime(key, self.key_format)
        return (read if read.tzinfo is not None else read.replace(tzinfo=zone(self.timezone))).astimezone(UTC)

    def partitions_between(self, earliest: datetime, latest: datetime) -> Iterator[tuple[datetime, str]]:
        """Date and key of each partition from *earliest* to *latest*, read by the clock of the expression's zone."""
        first, last = self.backfill_bounds(earliest, latest)
        found = self._ticks
        tick = found.at_or_after(first)
        while tick is not None and tick <= last:
            yield tick, self.written(tick)
            tick = found.next(tick)

    def backfill_bounds(self, earliest: datetime, latest: datetime) -> tuple[datetime, datetime]:
        """Read by the clock of the expression's zone, as keys are (Airflow); an hour that is there twice is both."""
        tz = zone(self.timezone)
        return earliest.replace(tzinfo=tz).astimezone(UTC), latest.replace(tzinfo=tz, fold=1).astimezone(UTC)

    def manual_interval(self, run_after: datetime) -> DataInterval:
        return DataInterval.exact(run_after)
