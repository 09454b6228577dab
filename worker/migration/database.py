"""Reads what an Airflow knows from its metadata database, without writing to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ...model.errors import InvalidInputError
from ...model.spec.timetables import DataInterval
from .facts import AirflowFacts, KnownDag, KnownPool

KEY = "AIRFLOW__CORE__FERNET_KEY"
DAGS = "SELECT dag_id, is_paused FROM dag WHERE is_stale = false ORDER BY dag_id"
LAST_RUNS = """
SELECT dag_id, data_interval_start, data_interval_end FROM dag_run AS run
WHERE run_type IN ('scheduled', 'backfill') AND data_interval_start IS NOT NULL AND logical_date = (
    SELECT MAX(logical_date) FROM dag_run WHERE dag_id = run.dag_id AND run_type IN ('scheduled', 'backfill')
)
"""
"""As Airflow's scheduler finds the run that the next one follows."""
POOLS = "SELECT pool, slots, description, include_deferred FROM slot_pool WHERE pool <> 'default_pool' ORDER BY pool"
VARIABLES = ("variable", "key", "val", "is_encrypted")
CONNECTIONS = (
    "connection", "conn_id", "conn_type", "host", "schema", "login", "password", "port", "extra", "is_encrypted",
    "is_extra_encrypted",
)  # fmt: skip
"""Tables and columns, some of whose names are words of some databases' own."""


def read_database(url: str) -> AirflowFacts:
    """Everything at once. Raises InvalidInputError where the database, or the key of its secrets, cannot be used."""
    try:
        from sqlalchemy import column, create_engine, select, table, text
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError:
        raise InvalidInputError("--airflow-db needs SQLAlchemy. Install it: pip install 'tidemill[api]'") from None

    def rows(connection: Any, query: str | tuple[str, ...]) -> Iterator[Any]:
        if isinstance(query, str):
            yield from connection.execute(text(query)).mappings()
            return
        columns: list[Any] = [column(name) for name in query[1:]]
        yield from connection.execute(select(*columns).select_from(table(query[0], *columns))).mappings()

    try:
        with create_engine(url).connect() as connection:
            last = {row["dag_id"]: _interval(row) for row in rows(connection, LAST_RUNS)}
            dags = [
                KnownDag(dag_id=row["dag_id"], is_paused=bool(row["is_paused"]), last_interval=last.get(row["dag_id"]))
                for row in rows(connection, DAGS)
            ]
            pools = [
                KnownPool(
                    name=row["pool"],
                    slots=row["slots"],
                    description=row["description"],
                    include_deferred=bool(row["include_deferred"]),
                )
                for row in rows(connection, POOLS)
            ]
            variables = {row["key"]: _plain(row["val"], row["is_encrypted"]) for row in rows(connection, VARIABLES)}
            connections = {row["conn_id"]: _connection(row) for row in rows(connection, CONNECTIONS)}
    except ImportError as error:
        message = f"--airflow-db: a driver is missing: {error}. Install it, or use --airflow-api"
        raise InvalidInputError(message) from None
    except SQLAlchemyError as error:
        message = str(error).split("\n")[0]
        raise InvalidInputError(
            f"--airflow-db: Airflow's database cannot be read: {message}. Give its URL as "
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN has it, of Airflow 3"
        ) from None
    return AirflowFacts(dags=tuple(dags), pools=tuple(pools), variables=variables, connections=connections)


def _interval(row: Any) -> DataInterval:
    return DataInterval(start=_instant(row["data_interval_start"]), end=_instant(row["data_interval_end"]))


def _instant(value: Any) -> datetime:
    date = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _connection(row: Any) -> dict[str, Any]:
    names = ("conn_type", "host", "schema", "login", "port")
    found = {name: row[name] for name in names if row[name] is not None}
    if row["password"]:
        found["password"] = _plain(row["password"], row["is_encrypted"])
    if row["extra"]:
        found["extra"] = _as_json(_plain(row["extra"], row["is_extra_encrypted"]))
    return found


def _as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _plain(value: str, is_encrypted: Any) -> str:
    """*value* as it was before Airflow encrypted it."""
    if not is_encrypted:
        return value
    from cryptography.fernet import Fernet, InvalidToken, MultiFernet

    keys = [key.strip() for key in os.environ.get(KEY, "").split(",") if key.strip()]
    try:
        return MultiFernet([Fernet(key) for key in keys]).decrypt(value.encode()).decode()
    except (InvalidToken, ValueError):
        raise InvalidInputError(
            f"{KEY} does not open what Airflow has encrypted. Set it to the key that Airflow has in [core] fernet_key"
        ) from None
