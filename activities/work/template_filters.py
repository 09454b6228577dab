"""What templates can do with values beyond Jinja's own filters: Airflow's for dates, and one for shells."""

import shlex
from collections.abc import Callable
from datetime import datetime
from typing import Any


def _of_dates(write: Callable[[datetime], str]) -> Callable[[datetime | None], str | None]:
    """A filter of dates. A run without a logical date has none to write, as in Airflow."""

    def written(value: datetime | None) -> str | None:
        return None if value is None else write(value)

    return written


def _without_dashes(value: datetime) -> str:
    return value.isoformat().replace("-", "").replace(":", "")


FILTERS: dict[str, Callable[..., Any]] = {
    "ds": _of_dates(lambda value: value.strftime("%Y-%m-%d")),
    "ds_nodash": _of_dates(lambda value: value.strftime("%Y%m%d")),
    "ts": _of_dates(lambda value: value.isoformat()),
    "ts_nodash": _of_dates(lambda value: value.strftime("%Y%m%dT%H%M%S")),
    "ts_nodash_with_tz": _of_dates(_without_dashes),
    "quote": lambda value: shlex.quote(str(value)),
}
"""By the name that a template calls it. `quote` makes any value one word of a shell command."""
