"""Variables that this server's host knows: those of the store can be changed, and are shown unless they are secret."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from pydantic import Field

from ...activities.attempts.key_values import KeyValues
from ...activities.kept import LONGEST_NAME, Kept
from ...activities.secrets import STORED, names_of, place_of, store
from ...worker.service.connection import NotFoundError
from ...worker.service.shown_secrets import HIDDEN, text_without_secrets, with_what_was_hidden, without_secrets
from ..dependencies import Limit, Offset, UpdateMask, Values
from ..read.filters import matches, ordered, page
from ..responses.common import Answer, Body
from .bulk import BulkAnswer, BulkBody
from .kept_secrets import KeptKind, in_thread, may_see

router = APIRouter()


class VariableAnswer(Answer):
    """Airflow: VariableResponse."""

    key: str
    value: str | None
    description: str | None
    is_encrypted: bool
    team_name: str | None


class VariableBody(Body):
    """Airflow: VariableBody."""

    key: Annotated[str, Field(max_length=LONGEST_NAME)]
    value: Any
    description: str | None = None
    team_name: None = None


def _to_keep(body: VariableBody, before: Kept | None, fields: list[str] | None) -> Kept:
    text = body.value if isinstance(body.value, str) else json.dumps(body.value)
    if before is not None:
        text = _with_what_was_hidden(text, before)
    if before is None:
        return Kept(body.key, text, body.description)
    meant = body.model_fields_set if fields is None else fields
    return Kept(
        body.key,
        text if "value" in meant else before.text,
        body.description if "description" in meant else before.description,
    )


def _with_what_was_hidden(text: str, before: Kept) -> str:
    """Return *text*; what comes back as it was shown is not meant, nor is what is so within JSON."""
    shown = text_without_secrets(before.text, before.name)
    if text in (HIDDEN, shown):
        return before.text
    try:
        new, known = json.loads(text), json.loads(before.text)
    except ValueError:
        return text
    meant = with_what_was_hidden(new, without_secrets(known), known)
    return text if meant == new else json.dumps(meant, indent=2)


KEPT = KeptKind[VariableBody]("variable", lambda body: body.key, _to_keep)


def _all(key_values: KeyValues, *, seen: bool) -> list[VariableAnswer]:
    return [_shown(key_values, key, place, seen=seen) for key, place in names_of("variable", key_values).items()]


def _shown(key_values: KeyValues, key: str, place: str, *, seen: bool) -> VariableAnswer:
    there = store(key_values)
    kept = there.find("variable", key) if there is not None and place == STORED else None
    value, description, encrypted = HIDDEN, f"of {place}", False
    if there is not None and kept is not None:
        value = text_without_secrets(kept.text, key) if seen else HIDDEN
        description = kept.description or description
        encrypted = there.is_encrypted("variable", key)
    return VariableAnswer(key=key, value=value, description=description, is_encrypted=encrypted, team_name=None)


def _one(key_values: KeyValues, key: str, *, seen: bool) -> VariableAnswer:
    place = place_of("variable", key, key_values)
    if place is None:
        raise NotFoundError(f"this server's host knows no variable {key!r}")
    return _shown(key_values, key, place, seen=seen)


@router.get("/api/v2/variables")
async def get_variables(
    request: Request,
    values: Values,
    limit: Limit = 50,
    offset: Offset = 0,
    order_by: Annotated[list[str], Query()] = ["id"],  # noqa: B006
    variable_key_pattern: str | None = None,
    variable_key_prefix_pattern: str | None = None,
) -> dict[str, Any]:
    """Variables of the store, of this host's environment and secrets file; those of a backend are known to it alone."""
    keys: dict[str, Any] = {name: lambda one: one.key for name in ("id", "key", "_key", "variable_key")}
    keys |= {"_val": lambda one: one.value, "value": lambda one: one.value}
    keys |= {"description": lambda one: one.description, "is_encrypted": lambda one: one.is_encrypted}
    wanted = {"variable_key_pattern": variable_key_pattern, "variable_key_prefix_pattern": variable_key_prefix_pattern}
    known = await in_thread(lambda: _all(values, seen=may_see(request)))
    found = ordered([one for one in known if matches(one, wanted, keys)], order_by, keys)
    part = page(found, limit, offset)
    return {"variables": part.items, "total_entries": part.total}


@router.get("/api/v2/variables/{variable_key:path}")
async def get_variable(request: Request, values: Values, variable_key: str) -> VariableAnswer:
    """A variable; its value where it is of the store, no secret, and an operator asks."""
    shown: VariableAnswer = await in_thread(lambda: _one(values, variable_key, seen=may_see(request)))
    return shown


@router.post("/api/v2/variables", status_code=201, name="post_variable")
async def make_variable(request: Request, values: Values, body: VariableBody) -> VariableAnswer:
    """Keeps a variable, encrypted."""
    await in_thread(KEPT.create, values, body)
    return await get_variable(request, values, body.key)


@router.patch("/api/v2/variables", name="bulk_variables")
async def change_variables(values: Values, body: BulkBody[VariableBody]) -> BulkAnswer:
    """Keeps, changes and removes several variables of the store."""
    answer: BulkAnswer = await in_thread(KEPT.change_many, values, body)
    return answer


@router.patch("/api/v2/variables/{variable_key:path}", name="patch_variable")
async def change_variable(
    request: Request, values: Values, variable_key: str, body: VariableBody, update_mask: UpdateMask = None
) -> VariableAnswer:
    """Changes a variable of the store."""
    if body.key != variable_key:
        raise HTTPException(400, f"the body is about {body.key!r}, and the path about {variable_key!r}: name one")
    await in_thread(KEPT.change, values, body, update_mask)
    return await get_variable(request, values, variable_key)


@router.delete("/api/v2/variables/{variable_key:path}", status_code=204, name="delete_variable")
async def remove_variable(values: Values, variable_key: str) -> Response:
    """Removes a variable from the store."""
    await in_thread(KEPT.remove, values, variable_key)
    return Response(status_code=204)
