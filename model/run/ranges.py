"""Which runs of a DAG a range means: those of the logical dates in it. A run without one is in none (as in Airflow)."""

from collections.abc import Iterable
from datetime import datetime

from ..errors import InvalidInputError
from .views import RunView


def runs_between(runs: Iterable[RunView], since: datetime | None, until: datetime | None) -> list[RunView]:
    """Return those of *runs* from *since* to *until* (UTC; None: no end), both included, oldest first."""
    dated = [(run.logical_date, run.run_id, run) for run in runs if run.logical_date is not None]
    found = [one for one in dated if (since is None or one[0] >= since) and (until is None or one[0] <= until)]
    return [run for *_, run in sorted(found, key=lambda one: one[:2])]


def runs_around(run: RunView, runs: Iterable[RunView], *, past: bool, future: bool) -> list[RunView]:
    """Return *run*, and of *runs* those before and after it where they are meant.

    Airflow: include_past, include_future. Raises InvalidInputError where *run* has no logical date.
    """
    if not (past or future):
        return [run]
    date = run.logical_date
    if date is None:
        raise InvalidInputError(
            f"run {run.run_id!r} has no logical date, so none is before or after it. Leave past and future out"
        )
    return runs_between(runs, None if past else date, None if future else date)
