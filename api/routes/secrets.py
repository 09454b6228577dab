"""Variables and connections that this server's host knows, without their values: they are not changed here."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from ...activities.secrets import Connection, names_of
from ...model.errors import InvalidInputError
from ...worker.connection import NotFoundError
from ...worker.shown_secrets import HIDDEN, fields_of
from ..dependencies import Limit, Offset
from ..read.filters import matches, ordered, page
from ..responses.common import Answer

router = APIRouter()


class VariableAnswer(Answer):
    """Airflow: VariableResponse."""

    key: str
    value: str | None
    description: str | None
    is_encrypted: bool
    team_name: str | None


class ConnectionAnswer(Answer):
    """Airflow: ConnectionResponse."""

    connection_id: str
    conn_type: str
    description: str | None
    host: str | None
    login: str | None
    schema_: Annotated[str | None, Field(serialization_alias="schema")]
    port: int | None
    password: str | None
    extra: str | None
    team_name: str | None


def _variables() -> list[VariableAnswer]:
    return [
        VariableAnswer(key=key, value=HIDDEN, description=f"of {place}", is_encrypted=False, team_name=None)
        for key, place in names_of("variable").items()
    ]


def _connections() -> list[ConnectionAnswer]:
    return [_connection(conn_id, place) for conn_id, place in names_of("connection").items()]


def _connection(conn_id: str, place: str) -> ConnectionAnswer:
    try:
        fields = fields_of(Connection.get(conn_id))
    except InvalidInputError:  # its text may be secret, and so may what is wrong with it
        fields, place = {}, f"{place}: it cannot be read. `tidemill connections test {conn_id}` says why"
    return ConnectionAnswer(
        connection_id=conn_id,
        conn_type=fields.get("conn_type") or "generic",
        description=f"of {place}",
        host=fields.get("host"),
        login=fields.get("login"),
        schema_=fields.get("schema"),
        port=fields.get("port"),
        password=fields.get("password"),
        extra=HIDDEN if fields.get("extra") else None,
        team_name=None,
    )


@router.get("/api/v2/variables")
async def get_variables(
    limit: Limit = 50,
    offset: Offset = 0,
    order_by: Annotated[list[str], Query()] = ["id"],  # noqa: B006
    variable_key_pattern: str | None = None,
    variable_key_prefix_pattern: str | None = None,
) -> dict[str, Any]:
    """Variables of this host's environment and secrets file; those of a backend are known to it alone."""
    keys: dict[str, Any] = {name: lambda one: one.key for name in ("id", "key", "_key", "variable_key")}
    wanted = {"variable_key_pattern": variable_key_pattern, "variable_key_prefix_pattern": variable_key_prefix_pattern}
    known = await asyncio.to_thread(_variables)
    found = ordered([one for one in known if matches(one, wanted, keys)], order_by, keys)
    part = page(found, limit, offset)
    return {"variables": part.items, "total_entries": part.total}


@router.get("/api/v2/variables/{variable_key}")
async def get_variable(variable_key: str) -> VariableAnswer:
    """A variable, without its value."""
    for one in await asyncio.to_thread(_variables):
        if one.key == variable_key:
            return one
    raise NotFoundError(f"this server's host knows no variable {variable_key!r}")


@router.get("/api/v2/connections")
async def get_connections(
    limit: Limit = 50,
    offset: Offset = 0,
    order_by: Annotated[list[str], Query()] = ["id"],  # noqa: B006
    connection_id_pattern: str | None = None,
    connection_id_prefix_pattern: str | None = None,
) -> dict[str, Any]:
    """Connections of this host's environment and secrets file; those of a backend are known to it alone."""
    keys: dict[str, Any] = {name: lambda one: one.connection_id for name in ("id", "conn_id", "connection_id")}
    keys |= {name: lambda one, name=name: getattr(one, name) for name in ("conn_type", "description", "host", "port")}
    wanted = {
        "connection_id_pattern": connection_id_pattern,
        "connection_id_prefix_pattern": connection_id_prefix_pattern,
    }
    known = await asyncio.to_thread(_connections)
    found = ordered([one for one in known if matches(one, wanted, keys)], order_by, keys)
    part = page(found, limit, offset)
    items = [one.model_dump(by_alias=True) for one in part.items]
    return {"connections": items, "total_entries": part.total}


@router.get("/ui/connections/hook_meta")
async def get_forms() -> list[dict[str, Any]]:
    """Forms for kinds of connections: there are none, since they are not changed here."""
    return []


@router.get("/api/v2/connections/{connection_id}")
async def get_connection(connection_id: str) -> ConnectionAnswer:
    """A connection, without its password and extra."""
    for one in await asyncio.to_thread(_connections):
        if one.connection_id == connection_id:
            return one
    raise NotFoundError(f"this server's host knows no connection {connection_id!r}")
