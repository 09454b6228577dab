"""Who changed what: a line of JSON for each change, each refusal and each way in, written after the answer.

The lines are in a file in the home of the web, which outlives the server; whoever may change things reads them there,
by `GET /api/v2/eventLogs` and by `tidemill audit`.
"""

import json
import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .auth.access import only_reads
from .guard import READING

NAME = "audit.jsonl"
LARGEST = 32 * 2**20
FILES = 8
"""So many files there are at most: the one that is written to, and those before it."""
MOST_READ = 64 * 1024
"""Of a body; what is longer has its keys missing."""
LONGEST = 200
NAMED = frozenset((
    "dag_id", "dag_ids", "dag_run_id", "run_id", "task_id", "task_ids", "map_index", "asset_id", "name", "pool",
    "slots", "is_paused", "state", "new_state", "dry_run", "only_failed", "only_running", "include_downstream",
    "include_upstream", "include_future", "include_past", "reset_dag_runs", "from_date", "to_date", "logical_date",
    "partition_key", "run_backwards", "reprocess_behavior", "max_active_runs", "chosen_options", "backfill_id",
))  # fmt: skip
"""What of a body says what the change is about. Confs, values and notes may hold anything, and are left out."""
WAYS_IN = ("/auth/", "/api/v2/auth/")
REFUSED = (401, 403, 429)
MOST_REFUSALS = 600
"""So many refusals are kept of a minute."""

log = logging.getLogger("tidemill.audit")


class AuditLog:
    """The lines in files at *path*; None: nowhere but in the server's own log."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def add(self, line: Mapping[str, Any]) -> None:
        """Write *line*. One that cannot be written is said in the server's log, and hurts nobody's answer."""
        text = json.dumps(line, default=str)
        log.info("%s", text)
        if self._path is None:
            return
        try:
            self._turn_over()
            opened = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            try:
                os.write(opened, text.encode() + b"\n")  # whole: servers that share the file do not mix their lines
            finally:
                os.close(opened)
        except OSError as error:
            log.error("the audit log %s cannot be written: %s", self._path, error.strerror)

    def _turn_over(self) -> None:
        assert self._path is not None  # noqa: S101
        with suppress(FileNotFoundError):
            if self._path.stat().st_size < LARGEST:
                return
            for number in range(FILES - 1, 0, -1):
                with suppress(FileNotFoundError):
                    self._numbered(number - 1).replace(self._numbered(number))

    def _numbered(self, number: int) -> Path:
        assert self._path is not None  # noqa: S101
        return self._path if number == 0 else self._path.with_name(f"{self._path.name}.{number}")

    def newest(self, most: int) -> list[dict[str, Any]]:
        """The last *most* lines, the newest first."""
        found: list[dict[str, Any]] = []
        for number in range(FILES if self._path is not None else 0):
            if len(found) >= most:
                break
            with suppress(FileNotFoundError), self._numbered(number).open() as file:
                found += list(reversed([*_lines(deque(file, maxlen=most - len(found)))]))
        return found


def _lines(texts: deque[str]) -> Iterator[dict[str, Any]]:
    for text in texts:
        with suppress(ValueError):  # a server was ended while it wrote
            yield json.loads(text)


def asked_for(
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
        self._minute, self._refused = 0, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, status = bytearray(), 500

        async def read() -> Message:
            message = await receive()
            if message["type"] == "http.request" and len(body) < MOST_READ:
                body.extend(message.get("body", b""))
            return message

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, read, told)
        finally:
            if _is_kept(scope, status) and not self._is_flood(status):
                self._audit.add(_line(scope, status, bytes(body)))

    def _is_flood(self, status: int) -> bool:
        """Whether there have been so many refusals in this minute that further ones tell nothing new."""
        if status not in REFUSED:
            return False
        minute = int(time.monotonic() // 60)
        self._refused = self._refused + 1 if minute == self._minute else 1
        self._minute = minute
        return self._refused > MOST_REFUSALS


def _is_kept(scope: Scope, status: int) -> bool:
    path, route = scope["path"], getattr(scope.get("route"), "path", "")
    changes = scope["method"] not in READING and not only_reads(scope["method"], route)
    if path.startswith(WAYS_IN):
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
        "about": {**_about(scope.get("path_params", {})), **_about(_object(body))},
    }


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if isinstance(found, dict) and isinstance(found.get("actions"), list):  # of many at once
        return {"actions": len(found["actions"]), **found}
    return found if isinstance(found, dict) else {}


def _about(given: Mapping[str, Any]) -> dict[str, Any]:
    """What of *given* names what the change is about, each as a short text."""
    return {name: _short(value) for name, value in given.items() if name in NAMED or name == "actions"}


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(each) for each in value[:20]]
    return value if isinstance(value, bool | int | float | None) else str(value)[:LONGEST]
