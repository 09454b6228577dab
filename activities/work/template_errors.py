"""What to write instead of a template's name that is not there."""

from __future__ import annotations

import re
from collections.abc import Collection

UNDEFINED = re.compile(r"^'(\w+)' is undefined$")
OF_A_DATE = frozenset(
    {
        "ds",
        "ds_nodash",
        "ts",
        "ts_nodash",
        "ts_nodash_with_tz",
        "logical_date",
        "data_interval_start",
        "data_interval_end",
    }
)
"""Names that a run has only if it is about a date."""
DROPPED = {
    "execution_date": "logical_date",
    "next_execution_date": "data_interval_end",
    "prev_execution_date": "prev_data_interval_start_success",
    "next_ds": "data_interval_end | ds",
    "next_ds_nodash": "data_interval_end | ds_nodash",
    "prev_ds": "macros.ds_add(ds, -1)",
    "prev_ds_nodash": "macros.ds_add(ds, -1)",
    "yesterday_ds": "macros.ds_add(ds, -1)",
    "yesterday_ds_nodash": "macros.ds_add(ds, -1)",
    "tomorrow_ds": "macros.ds_add(ds, 1)",
    "tomorrow_ds_nodash": "macros.ds_add(ds, 1)",
    "END_DATE": "ds",
    "latest_date": "ds",
}
"""Names that Airflow 3 has dropped."""


def advice(reason: str, known: Collection[str]) -> str:
    """What to do about a template that failed for *reason*; *known* are the names that it could use."""
    found = UNDEFINED.match(reason)
    if found is None:
        return "Correct the template"
    name = found[1]
    if name in OF_A_DATE and name not in known:
        return (
            f"The run has no logical date, and so no {name}: give it one when it is triggered, or use run_id or "
            "dag_run.run_after"
        )
    if name in DROPPED:
        return f"Airflow 3 has dropped {name}: write {{{{ {DROPPED[name]} }}}}"
    return "Use a name that Airflow's templates have (docs/authoring.md), such as ds, params.x or run_id"
