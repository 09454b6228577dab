"""Logs of tries: by lines of JSON that go on where the last answer ended."""

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

from ...activities.attempts.log import INDENT, from_text
from ...model.run.attempts import attempt_path
from ...model.run.instance_keys import UNMAPPED
from ...worker.service.connection import NotFoundError
from ...worker.service.task_logs import TaskLog
from ..dependencies import Source
from ..read.instances import one_instance
from ..read.stores import in_time
from ..refusals import BadRequestError
from ..responses.tasks import shown_try
from .task_instances import INSTANCE

router = APIRouter()
NDJSON = "application/x-ndjson"
TOKEN = "Airflow-Continuation-Token"  # noqa: S105 - the name of a header
READ_TIMEOUT = 60.0
MAX_BYTES = 4 * 2**20
"""The most of a log that one answer has; the next goes on from there."""


@router.get(INSTANCE + "/logs/{try_number}", response_model=None)
async def get_log(
    client: Source,
    dag_id: str,
    dag_run_id: str,
    task_id: str,
    try_number: int,
    map_index: int = UNMAPPED,
    full_content: bool = False,
    token: str | None = None,
    accept: Annotated[str, Header()] = "*/*",
) -> Response:
    """The log of a try from *token* on; a token comes with it as long as the log may grow."""
    _, view = await one_instance(client, dag_id, dag_run_id, task_id, map_index)
    # The user interface asks for the next try as soon as a task is cleared, and a run that begins again does not know
    # its tries for a moment.
    last = shown_try(view)
    over = view.state.finished and (await client.run(dag_id, dag_run_id)).state.finished
    if try_number <= 0 or (try_number > last + (not over) and view.state.finished):
        raise NotFoundError(f"task {task_id!r} of run {dag_run_id!r} has no try {try_number}")
    name = f"{attempt_path(dag_id, dag_run_id, task_id, try_number, map_index)}.log"
    log, offset = TaskLog(client.settings, name), offset_of(token)
    goes_on = try_number > last or (try_number == view.try_number and not view.state.finished)
    if NDJSON in accept and not goes_on and token is None:  # all of it, however long: who asks so asks once
        return StreamingResponse(_lines(log), media_type=NDJSON)
    data = await in_time(partial(log.read, offset, -1 if full_content else MAX_BYTES + 1), READ_TIMEOUT)
    part = data if full_content else data[:MAX_BYTES]
    if len(part) < len(data) or goes_on:  # what is not whole yet waits for its end
        part = part[: end_of_entries(part, to_come=len(part) < len(data))] or part
    events = entries_of(part)
    if not events and not offset and not goes_on and not log.is_there:
        events = [{"event": f"There is no log of this try on this server's host: looked for at {log.places}"}]
    more = str(offset + len(part)) if goes_on or len(part) < len(data) else None
    if NDJSON in accept:
        return PlainTextResponse(
            _ndjson(events), media_type=NDJSON, headers={TOKEN: more} if more is not None else None
        )
    return JSONResponse({"content": events, "continuation_token": more})


async def _lines(log: TaskLog) -> AsyncIterator[str]:
    """The entries of a log that is complete, as JSON."""
    offset, rest = 0, b""
    while data := await in_time(partial(log.read, offset, MAX_BYTES), READ_TIMEOUT):
        offset += len(data)
        rest += data
        end = end_of_entries(rest, to_come=True)
        yield _ndjson(entries_of(rest[:end]))
        rest = rest[end:]
    yield _ndjson(entries_of(rest))
    if not offset and not log.is_there:
        yield _ndjson([{"event": f"There is no log of this try on this server's host: looked for at {log.places}"}])


def _ndjson(events: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def end_of_entries(data: bytes, *, to_come: bool) -> int:
    """Where in *data* the last entry ends that is whole: with its line, or, if more is *to_come*, where another begins.

    0 where there is none. An entry goes on in the lines below it that are indented.
    """
    end = data.rfind(b"\n") + 1
    if not to_come:
        return end
    begins = data.rfind(b"\n", 0, max(end - 1, 0)) + 1
    while begins and data.startswith(INDENT.encode(), begins):
        begins = data.rfind(b"\n", 0, begins - 1) + 1
    return begins or end


def entries_of(data: bytes) -> list[dict[str, Any]]:
    """The entries of a log, each with the indented lines that follow it, as Airflow's structured logs have them."""
    found: list[dict[str, Any]] = []
    for line in data.decode(errors="replace").removesuffix("\n").split("\n") if data else ():
        if found and "level" in found[-1] and line.startswith(INDENT):
            found[-1]["event"] += "\n" + line.removeprefix(INDENT)
        else:
            found.append(event_of(line))
    return found


@router.get(INSTANCE + "/externalLogUrl/{try_number}")
async def get_external_log(
    client: Source, dag_id: str, dag_run_id: str, task_id: str, try_number: int, map_index: int = UNMAPPED
) -> dict[str, str]:
    """Where the log is kept beside the host's own disk."""
    await one_instance(client, dag_id, dag_run_id, task_id, map_index)
    if client.settings.log_url is None:
        raise BadRequestError("logs are kept nowhere but on the hosts: TIDEMILL_LOG_URL is not set")
    path = attempt_path(dag_id, dag_run_id, task_id, try_number, map_index)
    return {"url": f"{client.settings.log_url.rstrip('/')}/{path}.log"}


def offset_of(token: Annotated[str | None, Query()]) -> int:
    """The byte to go on from. Raises BadRequestError for a token that is none."""
    if token is None or token == "":
        return 0
    if not token.isdecimal() or len(token) > 18:
        raise BadRequestError(f"token = {token[:40]!r} is none that was given here. Leave it out to begin anew")
    return int(token)


def event_of(line: str) -> dict[str, Any]:
    """A line of a log as Airflow's structured logs have it."""
    if line.startswith("{"):
        try:
            fields = json.loads(line)
        except ValueError:
            fields = None
        if isinstance(fields, dict):
            return {**fields, "event": str(fields.get("event", fields.get("message", "")))}
    return from_text(line) or {"event": line}
