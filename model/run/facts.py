"""What a task may ask about its DAG and about runs, beyond what it was sent: answered when it is asked."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Protocol, Self

from ..base import Instant, Model
from .identity import ListedRun, RunIdentity


class Question(Model):
    """What a task asks its worker."""

    about: Literal["dag", "runs", "states", "events", "consumed", "xcom", "asset"]
    dag_id: str
    run_id: str | None = None
    task_ids: tuple[str, ...] = ()
    key: str = ""
    of_workflow: str | None = None
    """The workflow of the run that is meant, where that is known: its DAG need not be asked for it."""
    include_prior_dates: bool = False
    """Whether the latest earlier run is meant that has what is asked for."""
    until: Instant | None = None
    """With that: the latest logical date, where the DAG has no run of the id that is named."""


class RunSummary(ListedRun):
    """A run as its DAG knows it."""

    data_interval_start: Instant | None = None
    data_interval_end: Instant | None = None
    partition_date: Instant | None = None
    """With the interval and `conf`, only of a run that is asked for alone."""
    conf: dict[str, Any] = {}

    @classmethod
    def of(cls, run: RunIdentity, **more: Any) -> Self:
        """Return what is known of *run* by itself, with *more* of how it stands."""
        return cls(**{**run.shown, **cls.details_of(run), **more})

    @staticmethod
    def details_of(run: RunIdentity) -> dict[str, Any]:
        """Return what a list of runs does not say of *run*."""
        interval = run.data_interval
        return {
            "data_interval_start": interval.start if interval is not None else None,
            "data_interval_end": interval.end if interval is not None else None,
            "partition_date": run.partition_date,
            "conf": run.conf,
        }


class RunSource(Protocol):
    """Who knows of runs."""

    def facts(self, question: Question) -> Any:
        """The answer as JSON. Raises InvalidInputError where nobody can be asked."""


class Facts(RunSource, Protocol):
    """Where a task asks."""

    @property
    def log_url(self) -> str:
        """Where the log of the attempt is."""

    @property
    def started_at(self) -> datetime | None:
        """When its process began to work on the attempt."""


class NoFacts:
    """For a task that has nobody to ask: one that runs without a worker, such as in a driver on a cluster."""

    log_url = ""
    started_at = None

    def facts(self, question: Question) -> Any:
        """Nothing is known."""
        return [] if question.about == "runs" else {}


def runs_of(facts: RunSource, dag_id: str, run_id: str | None = None) -> list[RunSummary]:
    """The runs of a DAG, newest first; or one of them, with its interval and its conf."""
    return [RunSummary.model_validate(run) for run in facts.facts(Question(about="runs", dag_id=dag_id, run_id=run_id))]


def runs_before(runs: Sequence[RunSummary], date: Instant | None, state: str | None = None) -> list[RunSummary]:
    """The runs of a logical date before *date*, the latest first; with *state* those in it alone (as in Airflow)."""
    found = [
        (run.logical_date, run)
        for run in runs
        if date is not None and run.logical_date is not None and run.logical_date < date and state in (None, run.state)
    ]
    return [run for _, run in sorted(found, key=lambda one: one[0], reverse=True)]
