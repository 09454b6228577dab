"""The fixture `run_dag` for tests of DAGs: pytest finds it where tidemill is installed.

It imports next to nothing: every run of pytest in that environment loads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from ...model.authoring.dags import DAG
    from ...model.run.views import RunDetails


class RunDag(Protocol):
    """What `run_dag` is: see `run_dag`."""

    def __call__(
        self,
        dag: DAG,
        *,
        logical_date: datetime | None = None,
        run_conf: dict[str, Any] | None = None,
        outcomes: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        connections: Mapping[str, Any] | None = None,
    ) -> RunDetails:
        """Run *dag* here and now, and return the run with its tasks (Airflow: dag.test)."""
        ...


@pytest.fixture
def run_dag(monkeypatch: pytest.MonkeyPatch) -> RunDag:
    """Runs a DAG without a server, by the rules of one: trigger rules, branches, retries, mapped tasks, results.

    *logical_date* is now by default. *outcomes*: by task_id, or `task_id[map_index]`, what stands in for its work: a
    result, an exception, or a function of the number of the try that returns the one or raises the other; all other
    tasks work. *variables* and *connections* are there for this test alone, and go before all others; what is no text
    is written as JSON. Raises InvalidInputError for a DAG that cannot be registered, and for what names no task.
    """

    def run(
        dag: DAG,
        *,
        logical_date: datetime | None = None,
        run_conf: dict[str, Any] | None = None,
        outcomes: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        connections: Mapping[str, Any] | None = None,
    ) -> RunDetails:
        from datetime import UTC

        from .run import run_locally

        for kind, given in (("VAR", variables), ("CONN", connections)):
            for name, value in (given or {}).items():
                text = value if isinstance(value, str) else json.dumps(value)
                monkeypatch.setenv(f"TIDEMILL_{kind}_{name.upper()}", text)
        date = logical_date or datetime.now(UTC)
        return run_locally(dag, logical_date=date, conf=run_conf, outcomes=outcomes or {})

    return run
