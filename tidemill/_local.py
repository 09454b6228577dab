"""Gives `DAG.test` its runner: the model may not know the layers above it."""

from datetime import UTC, datetime
from typing import Any

from .model.authoring.dags import DAG
from .model.authoring.decorators import dag
from .model.run.views import RunDetails

__all__ = ["DAG", "dag"]


def run_locally(dag: DAG, *, logical_date: datetime | None, conf: dict[str, Any] | None) -> RunDetails:
    from .worker.local.run import run_locally as run

    return run(dag, logical_date=logical_date or datetime.now(UTC), conf=conf)


DAG.local_runner = staticmethod(run_locally)
