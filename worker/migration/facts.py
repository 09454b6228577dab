"""What an Airflow knows that its DAG files do not say."""

from typing import Any

from ...model.base import Model
from ...model.spec.timetables import DataInterval


class KnownDag(Model):
    """A DAG of an Airflow."""

    dag_id: str
    is_paused: bool
    last_interval: DataInterval | None = None
    """That of the last run of its schedule, or of a backfill; None: there was none."""


class KnownPool(Model):
    """A pool of an Airflow."""

    name: str
    slots: int
    description: str | None = None
    include_deferred: bool = False


class AirflowFacts(Model):
    """All that is brought over."""

    dags: tuple[KnownDag, ...] = ()
    pools: tuple[KnownPool, ...] = ()
    variables: dict[str, Any] = {}
    connections: dict[str, dict[str, Any]] = {}
    hidden: tuple[str, ...] = ()
    """Variables and connections whose secret is not told, by their names."""
