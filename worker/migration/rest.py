"""Reads what an Airflow knows by its REST API. Passwords are not told there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx

from ...model.errors import InvalidInputError
from ...model.spec.tasks.base import DEFAULT_POOL
from ...model.spec.timetables import DataInterval
from .facts import AirflowFacts, KnownDag, KnownPool

PAGE = 100
HIDDEN = "***"
TIMEOUT = 30.0


def read_api(url: str, token: str | None) -> AirflowFacts:
    """Everything at once. Raises InvalidInputError where the API cannot be used."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    base = f"{url.rstrip('/').removesuffix('/api/v2')}/api/v2"
    try:
        with httpx.Client(base_url=base, headers=headers, timeout=TIMEOUT) as client:
            dags = [_dag(client, one) for one in _all(client, "/dags", "dags", exclude_stale=True)]
            pools = [_pool(one) for one in _all(client, "/pools", "pools") if one["name"] != DEFAULT_POOL]
            variables = {one["key"]: one["value"] for one in _all(client, "/variables", "variables")}
            connections = {
                one["connection_id"]: _connection(one) for one in _all(client, "/connections", "connections")
            }
    except (httpx.HTTPError, ValueError, KeyError) as error:
        raise InvalidInputError(
            f"--airflow-api: {base} cannot be read: {type(error).__name__}: {error}. Give the URL of Airflow 3's API "
            "server, and a token of a user who may read everything"
        ) from None
    hidden = [f"variable {key}" for key, value in variables.items() if value == HIDDEN]
    hidden += [f"connection {key}" for key, known in connections.items() if HIDDEN in json.dumps(known)]
    return AirflowFacts(
        dags=tuple(dags), pools=tuple(pools), variables=variables, connections=connections, hidden=tuple(hidden)
    )


def _all(client: httpx.Client, path: str, key: str, **params: Any) -> Iterator[dict[str, Any]]:
    offset = 0
    while True:
        answer = client.get(path, params={"limit": PAGE, "offset": offset, **params})
        answer.raise_for_status()
        found = answer.json()
        yield from found[key]
        offset += len(found[key])
        if not found[key] or offset >= found["total_entries"]:
            return


def _dag(client: httpx.Client, dag: dict[str, Any]) -> KnownDag:
    newest = [_last_run(client, dag["dag_id"], run_type) for run_type in ("scheduled", "backfill")]
    last = max((run for run in newest if run is not None), key=lambda run: run["logical_date"], default=None)
    interval = None
    if last is not None and last["data_interval_start"] is not None:
        interval = DataInterval(start=last["data_interval_start"], end=last["data_interval_end"])
    return KnownDag(dag_id=dag["dag_id"], is_paused=dag["is_paused"], last_interval=interval)


def _last_run(client: httpx.Client, dag_id: str, run_type: str) -> dict[str, Any] | None:
    params: dict[str, str | int] = {"limit": 1, "order_by": "-logical_date", "run_type": run_type}
    answer = client.get(f"/dags/{dag_id}/dagRuns", params=params)
    answer.raise_for_status()
    runs: list[dict[str, Any]] = answer.json()["dag_runs"]
    return next((run for run in runs if run["logical_date"] is not None), None)


def _pool(pool: dict[str, Any]) -> KnownPool:
    return KnownPool(
        name=pool["name"],
        slots=pool["slots"],
        description=pool["description"],
        include_deferred=pool["include_deferred"],
    )


def _connection(connection: dict[str, Any]) -> dict[str, Any]:
    names = ("conn_type", "host", "schema", "login", "password", "port", "extra")
    return {name: connection[name] for name in names if connection.get(name) is not None}
