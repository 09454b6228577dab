"""The vocabulary of scheduling, as in Airflow: what a timetable is asked and what it answers."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Self

from pydantic import AfterValidator, SerializerFunctionWrapHandler, model_serializer, model_validator

from ...base import Instant, Model, OmitDefaults


class DataInterval(Model):
    """The stretch of data that one run is about. The end is not part of it."""

    start: Instant
    end: Instant

    @classmethod
    def exact(cls, at: datetime) -> Self:
        """The empty interval at *at*: for schedules that are about a moment, not a stretch."""
        return cls(start=at, end=at)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.end < self.start:
            raise ValueError(
                f"data interval ends ({self.end.isoformat()}) before it starts ({self.start.isoformat()}). Swap them"
            )
        return self


def _after_the_first_year(value: datetime) -> datetime:
    """*value*, but with room before it: timetables look at what was before the first date."""
    return max(value, datetime(2, 1, 1, tzinfo=UTC))


class TimeRestriction(Model):
    """Bounds on a DAG's runs.

    `earliest` is the least start_date of the DAG and its tasks, `latest` its end_date, both
    inclusive. With `catchup` every interval since `earliest` gets a run; without it, only the
    latest complete one.
    """

    earliest: Annotated[Instant, AfterValidator(_after_the_first_year)] | None = None
    latest: Instant | None = None
    catchup: bool = False


class DagRunInfo(OmitDefaults, Model):
    """One run that a timetable asks for: what it is about, and when it may be created."""

    run_after: Instant
    data_interval: DataInterval
    run_ids: dict[str, str] = {}
    """By type of run, what a timetable of one's own calls it (Airflow: Timetable.generate_run_id)."""

    @property
    def logical_date(self) -> datetime:
        return self.data_interval.start

    @classmethod
    def exact(cls, at: datetime) -> Self:
        return cls(run_after=at, data_interval=DataInterval.exact(at))

    @classmethod
    def interval(cls, start: datetime, end: datetime) -> Self:
        """A run over [start, end), due when the interval has ended."""
        return cls(run_after=end, data_interval=DataInterval(start=start, end=end))


class TimetableError(ValueError):
    """The schedule cannot be used as it is written."""


class BaseTimetable(Model):
    """When: answers from its arguments alone, reads no clock and keeps no state.

    Airflow's timetables read the clock when they skip to the latest interval; here *now* is an
    argument, so that the answer can be recorded and asked for again.
    """

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without a policy that nobody has named, so that no DAG changes its version with a release."""
        fields: dict[str, Any] = write(self)
        if "dst_policy" not in self.model_fields_set:
            fields.pop("dst_policy", None)
        return fields

    @property
    def periodic(self) -> bool:
        """Whether the runs follow a calendar, so that a backfill of a range means something."""
        return True

    @property
    def answers_by_moment(self) -> bool:
        """Whether each answer only holds for the moment of asking, so that none is worked out ahead."""
        return False

    def on_schedule(self, date: datetime, restriction: TimeRestriction) -> bool:
        """Whether a scheduled run has *date* as its logical date, within the bounds of *restriction*."""
        start = self.grid_start(date, restriction)
        bounds = restriction.model_copy(update={"earliest": start, "catchup": True})
        info = self.next_dagrun_info(None, bounds, date)
        while info is not None and info.logical_date < date:
            info = self.next_dagrun_info(info.data_interval, bounds, date)
        return info is not None and info.logical_date == date

    def grid_start(self, date: datetime, restriction: TimeRestriction) -> datetime:
        """From where the runs are walked to see whether one is about *date*."""
        return restriction.earliest or date

    def check(self) -> None:
        """Raises TimetableError or CronError for what only shows when the schedule is used."""

    def backfill_bounds(self, earliest: datetime, latest: datetime) -> tuple[datetime, datetime]:
        """The first and the last moment of a backfill that was asked for from *earliest* to *latest*."""
        return earliest, latest

    @property
    def names_runs_by_interval(self) -> bool:
        """Whether a scheduled run's id carries the start of its interval rather than its run_after."""
        return False

    @abstractmethod
    def next_dagrun_info(
        self, last: DataInterval | None, restriction: TimeRestriction, now: datetime
    ) -> DagRunInfo | None:
        """The run that follows the automated run over *last* (None: there was none yet).

        None when there is no further run. *now* is aware; it matters only without catchup, and
        for schedules that start when they are first seen.
        """

    @abstractmethod
    def manual_interval(self, run_after: datetime) -> DataInterval:
        """The interval of a manual run at *run_after* (Airflow: infer_manual_data_interval)."""


def first_on_clock(date: datetime, restriction: TimeRestriction) -> datetime:
    """*date* within *restriction*: an expression of a clock means the same wherever one begins to walk."""
    return date if restriction.earliest is None else max(date, restriction.earliest)


NextRun = Callable[[DataInterval | None, TimeRestriction, datetime], DagRunInfo | None]
"""What a timetable answers with, whosever it is."""


def infos_between(
    next_run: NextRun, earliest: datetime, latest: datetime, now: datetime, after: DataInterval | None = None
) -> Iterator[DagRunInfo]:
    """Every run with *earliest* <= logical date <= *latest* that *next_run* gives, in order; those after *after*.

    Airflow: iter_dagrun_infos_between.
    """
    restriction = TimeRestriction(earliest=earliest, latest=latest, catchup=True)
    info = next_run(after, restriction, now)
    while info is not None and info.logical_date <= latest:
        if info.logical_date >= earliest:
            yield info
        info = next_run(info.data_interval, restriction, now)


def is_before_end(info_start: datetime, restriction: TimeRestriction) -> bool:
    return restriction.latest is None or info_start <= restriction.latest


ZERO = timedelta()
