"""Who changed what: a line of JSON for each change, each refusal and each way in, written after the answer.

The lines are in a file in the home of the web, which outlives the server; whoever may change things reads them there,
by `GET /api/v2/eventLogs` and by `tidemill audit`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..activities.audit import LONGEST, AuditLog, FloodLimit
from .auth.access import only_reads
from .guard import READING

NAMED = frozenset((
    "dag_id", "dag_run_id", "task_id", "task_ids", "map_index", "asset_id", "name", "pool",
    "slots", "include_deferred", "is_paused", "state", "new_state", "only_failed", "only_running",
    "include_downstream", "include_upstream", "include_future", "include_past", "run_on_latest_version",
    "prevent_running_task", "reset_dag_runs", "from_date", "to_date", "start_date", "end_date", "logical_date",
    "run_after", "data_interval_start", "data_interval_end", "partition_key", "run_backwards", "reprocess_behavior",
    "max_active_runs", "chosen_options", "connection_id", "conn_type", "key", "expires_at", "dry_run", "actions",
    "action", "action_on_existence", "action_on_non_existence", "entities", "dag_runs",
))  # fmt: skip
"""What of a body says what the change is about, on every level: confs, values and notes may hold anything."""
OF_MANY = frozenset(("actions", "entities", "dag_runs"))
"""Names of what is a list of objects: those of other names are left out."""
MAX_VALUES, MAX_LISTED = 500, 200
"""How much of a body is in a line: in all, and of a list."""
LARGEST_NUMBER = 10**15
LEFT_OUT = "..."
LOGIN_PATHS = ("/auth/", "/api/v2/auth/")
REFUSED = (401, 403, 429)


def filtered(
    lines: Iterable[Mapping[str, Any]],
    limit: int,
    *,
    after: datetime | None = None,
    who: str | None = None,
    dag_id: str | None = None,
    refused: bool = False,
) -> list[Mapping[str, Any]]:
    """The first *limit* of *lines* that came *after* a moment, are of one person, about one DAG, or *refused*."""
    found = (
        line
        for line in lines
        if (after is None or datetime.fromisoformat(line["at"]) > after)
        and who in (None, line["who"])
        and dag_id in (None, line["about"].get("dag_id"))
        and (not refused or line["status"] >= 400)
    )
    return list(islice(found, limit))


class Audited:
    """Middleware that keeps what has changed, and what was refused."""

    def __init__(self, app: ASGIApp, audit: AuditLog) -> None:
        self._app, self._audit = app, audit
        self._flood = FloodLimit()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, status = bytearray(), 500

        async def read() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                body.extend(message.get("body", b""))  # it has been let in: `guard` says how much that may be
            return message

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, read, send_and_note)
        finally:
            if _is_kept(scope, status) and not (status in REFUSED and self._flood.is_passed()):
                self._audit.add(_line(scope, status, bytes(body)))


def _is_kept(scope: Scope, status: int) -> bool:
    path, route = scope["path"], getattr(scope.get("route"), "path", "")
    looks = route.endswith("/dry_run") or scope.get("state", {}).get("only_looks", False)
    changes = scope["method"] not in READING and not only_reads(scope["method"], route) and not looks
    if path.startswith(LOGIN_PATHS):
        return changes or path.endswith(("/callback", "/logout"))
    shown = any(name in (b"authorization", b"cookie") for name, _ in scope["headers"])
    # A page that nobody has logged in to asks again and again: only who shows something is refused something.
    return (changes and (status != 401 or shown)) or (status in REFUSED and shown)


def _line(scope: Scope, status: int, body: bytes) -> dict[str, Any]:
    state = scope.get("state", {})
    person, route = state.get("person"), scope.get("route")
    return {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "who": person.known_as if person is not None else None,
        "role": person.role.name.lower() if person is not None else None,
        "address": scope["client"][0] if scope.get("client") else None,
        "operation": getattr(route, "name", None),
        "method": scope["method"],
        "path": scope["path"][:LONGEST],
        "status": status,
        "about": {**_path_names(scope), **_Named().of(_object(body))},
    }


def _path_names(scope: Scope) -> dict[str, str]:
    return {name: str(value)[:LONGEST] for name, value in scope.get("path_params", {}).items()}


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@dataclass
class _Named:
    """What of something given names what a change is about: short texts, and not many; what is left out says so."""

    left: int = MAX_VALUES

    def of(self, given: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in [name for name in given if name in NAMED]:
            if self.left <= 0:
                return {**found, "more": LEFT_OUT}
            found[name] = self._short(given[name], may_nest=name in OF_MANY)
        return found

    def _short(self, value: Any, *, may_nest: bool, depth: int = 2) -> Any:
        self.left -= 1
        match value:
            case dict() if may_nest:
                return self.of(value)
            case list() if depth > 0:
                return self._listed(value, may_nest=may_nest, depth=depth - 1)
            case dict() | list():
                return LEFT_OUT
            case bool() | None:
                return value
            case int() | float() if abs(value) < LARGEST_NUMBER:  # neither is NaN
                return value
        return str(value)[:LONGEST]

    def _listed(self, values: list[Any], *, may_nest: bool, depth: int) -> list[Any]:
        found: list[Any] = []
        for value in values[:MAX_LISTED]:
            if self.left <= 0:
                break
            found.append(self._short(value, may_nest=may_nest, depth=depth))
        cut = len(values) - len(found)
        return [*found, f"{LEFT_OUT} {cut} more"] if cut else found
