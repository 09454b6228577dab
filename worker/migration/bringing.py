"""Brings over what an Airflow knows: where schedules stand, pause states, pools, variables and connections."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ...model.base import Instant, Model
from ...model.dag.hand_over import HandOver
from ...model.errors import InvalidInputError
from ...model.pool.state import PoolSettings
from ..client import Tidemill
from .facts import AirflowFacts, KnownDag


class BroughtDag(Model):
    """What came of one DAG."""

    dag_id: str
    is_paused: bool
    last_logical_date: Instant | None
    next_run_after: Instant | None = None
    problem: str | None = None
    """Why it was not brought over."""


async def bring_dags(tidemill: Tidemill, facts: AirflowFacts, *, dry_run: bool) -> list[BroughtDag]:
    """Has each DAG that is registered here go on where Airflow has left it, paused as there."""
    rows, _ = await tidemill.dags.list()
    known = {row.dag_id for row in rows}
    return [
        await _bring(tidemill, dag, dry_run=dry_run)
        if dag.dag_id in known
        else _brought(dag, "it is not registered here: have a worker read its file first")
        for dag in facts.dags
    ]


def _brought(dag: KnownDag, problem: str | None) -> BroughtDag:
    start = dag.last_interval.start if dag.last_interval is not None else None
    return BroughtDag(dag_id=dag.dag_id, is_paused=dag.is_paused, last_logical_date=start, problem=problem)


async def _bring(tidemill: Tidemill, dag: KnownDag, *, dry_run: bool) -> BroughtDag:
    if dry_run:
        return _brought(dag, None)
    try:
        if dag.last_interval is not None:
            await tidemill.dags.take_over(dag.dag_id, HandOver(last_interval=dag.last_interval))
        await tidemill.dags.pause(dag.dag_id, dag.is_paused)
    except InvalidInputError as error:
        return _brought(dag, str(error))
    infos = await tidemill.dags.upcoming(dag.dag_id, 1)
    return _brought(dag, None).model_copy(update={"next_run_after": infos[0].run_after if infos else None})


async def bring_pools(tidemill: Tidemill, facts: AirflowFacts) -> list[str]:
    """Makes Airflow's pools, or gives those there are its slots."""
    for pool in facts.pools:
        settings = PoolSettings(
            slots=pool.slots, description=pool.description or "", include_deferred=pool.include_deferred
        )
        await tidemill.pools.configure(pool.name, settings)
    return [pool.name for pool in facts.pools]


def write_secrets(path: Path, facts: AirflowFacts) -> int:
    """Puts variables and connections into the secrets file *path*, beside what is there; how many were new.

    What is there already stays. Only its owner may read the file.
    """
    known: dict[str, dict[str, object]] = {"variables": {}, "connections": {}}
    if path.exists():
        try:
            known |= json.loads(path.read_text())
        except ValueError as error:
            raise InvalidInputError(f"{path} is no secrets file: {error}. Give another path") from None
    before = sum(len(part) for part in known.values())
    hidden = {*facts.hidden}
    variables = {key: value for key, value in facts.variables.items() if f"variable {key}" not in hidden}
    connections = {key: value for key, value in facts.connections.items() if f"connection {key}" not in hidden}
    known["variables"] = {**variables, **known["variables"]}
    known["connections"] = {**connections, **known["connections"]}
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(opened, "w", encoding="utf-8") as file:
        json.dump(known, file, indent=1)
    temporary.replace(path)
    return sum(len(part) for part in known.values()) - before
