"""Connections that this server's host knows, without what is secret: those of the store can be changed."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import ConfigDict, Field

from ...activities.kept import LONGEST_NAME, Kept
from ...activities.secrets import STORED, Connection, names_of, place_of, store
from ...model.errors import InvalidInputError
from ...worker.service.connection import NotFoundError
from ...worker.service.shown_secrets import HIDDEN, fields_of, with_what_was_hidden
from ..dependencies import Limit, Offset, UpdateMask, Values
from ..read.filters import matches, ordered, page
from ..responses.common import Answer, Body
from ..responses.connection_types import forms
from .bulk import BulkAnswer, BulkBody
from .kept_secrets import KeptKind, in_thread

router = APIRouter()


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


class ConnectionBody(Body):
    """Airflow: ConnectionBody."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    connection_id: Annotated[str, Field(max_length=LONGEST_NAME, pattern=r"^[\w.-]+$")]
    conn_type: str
    description: str | None = None
    host: str | None = None
    login: str | None = None
    schema_: Annotated[str | None, Field(alias="schema")] = None
    port: Annotated[int | None, Field(ge=0, le=65535)] = None
    password: str | None = None
    extra: str | None = None
    team_name: None = None


FIELDS = ("conn_type", "host", "login", "schema", "port", "password", "extra")


def _to_keep(body: ConnectionBody, before: Kept | None, fields: list[str] | None) -> Kept:
    known = json.loads(before.text) if before is not None else {}
    shown = fields_of(Connection.read(body.connection_id, before.text)) if before is not None else {}
    given = body.model_dump(by_alias=True, exclude_unset=True)
    if fields is not None:
        given = {name: value for name, value in given.items() if name in fields}
    new = {**known}
    for name in FIELDS:
        if name not in given:
            continue
        value = given[name]
        if name == "extra" and isinstance(value, str) and value.strip():
            value = _object(value) if value != HIDDEN else shown.get("extra")
        new[name] = with_what_was_hidden(
            value, shown.get(name), _extra_of(known) if name == "extra" else known.get(name)
        )
    text = json.dumps({name: value for name, value in new.items() if value not in (None, "")})
    description = given.get("description", before.description if before is not None else None)
    return Kept(body.connection_id, text, description)


def _extra_of(known: dict[str, Any]) -> Any:
    extra = known.get("extra")
    return json.loads(extra) if isinstance(extra, str) and extra.strip() else extra


def _object(extra: str) -> dict[str, Any]:
    try:
        found = json.loads(extra)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidInputError('extra is no JSON object. Write one, such as {"region": "eu"}')
    return found


KEPT = KeptKind[ConnectionBody]("connection", lambda body: body.connection_id, _to_keep)


def _all() -> list[ConnectionAnswer]:
    return [_shown(conn_id, place) for conn_id, place in names_of("connection").items()]


def _shown(conn_id: str, place: str) -> ConnectionAnswer:
    description = f"of {place}"
    there = store()
    if there is not None and place == STORED and (kept := there.find("connection", conn_id)) is not None:
        description = kept.description or description
    try:
        fields = fields_of(Connection.get(conn_id))
    except InvalidInputError:  # its text may be secret, and so may what is wrong with it
        fields, description = {}, f"{description}: it cannot be read. `tidemill connections test {conn_id}` says why"
    extra = fields.get("extra")
    return ConnectionAnswer(
        connection_id=conn_id,
        conn_type=fields.get("conn_type") or "generic",
        description=description,
        host=fields.get("host"),
        login=fields.get("login"),
        schema_=fields.get("schema"),
        port=fields.get("port"),
        password=fields.get("password"),
        extra=(json.dumps(extra) if place == STORED else HIDDEN) if extra else None,
        team_name=None,
    )


def _one(conn_id: str) -> ConnectionAnswer:
    place = place_of("connection", conn_id)
    if place is None:
        raise NotFoundError(f"this server's host knows no connection {conn_id!r}")
    return _shown(conn_id, place)


@router.get("/api/v2/connections")
async def get_connections(
    limit: Limit = 50,
    offset: Offset = 0,
    order_by: Annotated[list[str], Query()] = ["id"],  # noqa: B006
    connection_id_pattern: str | None = None,
    connection_id_prefix_pattern: str | None = None,
) -> dict[str, Any]:
    """Connections of the store, of this host's environment and secrets file; a backend's are known to it alone."""
    keys: dict[str, Any] = {name: lambda one: one.connection_id for name in ("id", "conn_id", "connection_id")}
    keys |= {name: lambda one, name=name: getattr(one, name) for name in ("conn_type", "description", "host", "port")}
    wanted = {
        "connection_id_pattern": connection_id_pattern,
        "connection_id_prefix_pattern": connection_id_prefix_pattern,
    }
    known = await in_thread(_all)
    found = ordered([one for one in known if matches(one, wanted, keys)], order_by, keys)
    part = page(found, limit, offset)
    items = [one.model_dump(by_alias=True) for one in part.items]
    return {"connections": items, "total_entries": part.total}


@router.get("/ui/connections/hook_meta")
async def get_forms() -> list[dict[str, Any]]:
    """The kinds of connections that can be made, each with the common form."""
    return forms()


@router.get("/api/v2/connections/{connection_id}")
async def get_connection(connection_id: str) -> ConnectionAnswer:
    """A connection, without what is secret in it."""
    shown: ConnectionAnswer = await in_thread(_one, connection_id)
    return shown


@router.post("/api/v2/connections", status_code=201, name="post_connection")
async def make_connection(values: Values, body: ConnectionBody) -> ConnectionAnswer:
    """Keeps a connection, encrypted."""
    await in_thread(KEPT.create, values, body)
    return await get_connection(body.connection_id)


@router.patch("/api/v2/connections", name="bulk_connections")
async def change_connections(values: Values, body: BulkBody[ConnectionBody]) -> BulkAnswer:
    """Keeps, changes and removes several connections of the store."""
    answer: BulkAnswer = await in_thread(KEPT.change_many, values, body)
    return answer


@router.patch("/api/v2/connections/{connection_id}", name="patch_connection")
async def change_connection(
    values: Values, connection_id: str, body: ConnectionBody, update_mask: UpdateMask = None
) -> ConnectionAnswer:
    """Changes a connection of the store; what comes back as it was shown (`***`) stays."""
    if body.connection_id != connection_id:
        message = f"the body is about {body.connection_id!r}, and the path about {connection_id!r}: name one"
        raise HTTPException(400, message)
    await in_thread(KEPT.change, values, body, update_mask)
    return await get_connection(connection_id)


@router.delete("/api/v2/connections/{connection_id}", status_code=204, name="delete_connection")
async def remove_connection(values: Values, connection_id: str) -> Response:
    """Removes a connection from the store."""
    await in_thread(KEPT.remove, values, connection_id)
    return Response(status_code=204)
