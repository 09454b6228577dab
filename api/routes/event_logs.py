"""What goes wrong and what was decided: import errors, warnings, the audit log."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from operator import itemgetter
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request

from ...model.dag.records import MadeDecision
from ...model.dag.row import DagRow
from ...model.dag.views import DagView
from ...worker.service.connection import NotFoundError
from ...worker.supervision.failing import failing_workflows
from ..auth.tokens import Role
from ..dependencies import Limit, Offset, Source, UtcDateTime
from ..read.cached_client import CachedClient
from ..read.concurrency import each
from ..read.filters import matches, ordered, page
from ..responses.common import number_of

router = APIRouter()
MAX_LINES = 10_000
"""Changes by people that a list looks at, the newest first."""
MAX_DAGS = 50
"""DAGs whose decisions a list without a dag_id looks at."""


OF_DAG: dict[str, Any] = {"dag_id": lambda one: one["dag_id"]}


@router.get("/api/v2/importErrors")
async def get_import_errors(
    client: Source,
    limit: Limit = 50,
    offset: Offset = 0,
    order_by: Annotated[list[str], Query()] = ["id"],  # noqa: B006
    filename_pattern: str | None = None,
    filename_prefix_pattern: str | None = None,
    filename: str | None = None,
    bundle_name: str | None = None,
) -> dict[str, Any]:
    """DAG files that cannot be read, and why."""
    wanted = {
        "filename_pattern": filename_pattern,
        "filename_prefix_pattern": filename_prefix_pattern,
        "filename": filename,
        "bundle_name": bundle_name,
    }
    keys: dict[str, Any] = {
        name: lambda one, name=name: one[name]
        for name in ("import_error_id", "timestamp", "filename", "bundle_name", "stack_trace")
    }
    keys["id"] = keys["import_error_id"]
    part = page(
        ordered([one for one in await _errors(client) if matches(one, wanted, keys)], order_by, keys), limit, offset
    )
    return {"import_errors": part.items, "total_entries": part.total}


async def _errors(client: CachedClient) -> list[dict[str, Any]]:
    files = [
        file
        for bundle in await client.tidemill.bundles.list()
        for file in await client.tidemill.bundles.files(bundle.settings.name)
    ]
    return [
        {
            "import_error_id": number_of("error", file.bundle, file.path),
            "timestamp": file.parsed_at.isoformat(),
            "filename": file.path,
            "bundle_name": file.bundle,
            "stack_trace": file.error,
        }
        for file in files
        if file.error is not None and file.parsed_at is not None
    ]


@router.get("/api/v2/importErrors/{import_error_id}")
async def get_import_error(client: Source, import_error_id: int) -> dict[str, Any]:
    """An import error."""
    for one in await _errors(client):
        if one["import_error_id"] == import_error_id:
            return one
    raise NotFoundError(f"there is no import error {import_error_id}")


WarningType = Literal["asset conflict", "non-existent pool", "runtime varying value", "workflow", "archive"]
"""Airflow's, and those that are told here."""
WARNING_ORDERS: dict[str, Any] = {name: itemgetter(name) for name in ("dag_id", "warning_type", "message", "timestamp")}


@router.get("/api/v2/dagWarnings")
async def get_warnings(
    client: Source,
    dag_id: str | None = None,
    warning_type: WarningType | None = None,
    limit: Limit = 50,
    offset: Offset = 0,
    order_by: Annotated[list[str], Query()] = ["dag_id"],  # noqa: B006
) -> dict[str, Any]:
    """That the archive does not answer, and workflows of DAGs and runs whose code fails.

    What is wrong with a DAG is said when it is registered, and kept nowhere.
    """
    failing = await failing_workflows(client.tidemill.client)
    about = [each for each in failing if dag_id in (None, each.dag_id)]
    found = [_warning(each.dag_id, "workflow", f"workflow {each.workflow_id!r}: {each.problem}") for each in about]
    if client.archive_problem is not None:
        message = f"the archive does not answer: {client.archive_problem}. Runs that Temporal has forgotten are missing"
        found.append(_warning(dag_id, "archive", message))
    found = [one for one in found if warning_type in (None, one["warning_type"])]
    part = page(ordered(found, order_by, WARNING_ORDERS), limit, offset)
    return {"dag_warnings": part.items, "total_entries": part.total}


def _warning(dag_id: str | None, kind: str, message: str) -> dict[str, Any]:
    return {
        "dag_id": dag_id,
        "warning_type": kind,
        "message": message,
        "timestamp": datetime.now(UTC).isoformat(),
        "dag_display_name": dag_id,
    }


@router.get("/api/v2/eventLogs")
async def get_decisions(
    client: Source,
    request: Request,
    dag_id: str | None = None,
    limit: Limit = 50,
    offset: Offset = 0,
    order_by: Annotated[list[str], Query()] = ["id"],  # noqa: B006
    event: str | None = None,
    run_id: str | None = None,
    task_id: str | None = None,
    map_index: int | None = None,
    try_number: int | None = None,
    owner: str | None = None,
    excluded_events: Annotated[list[str], Query()] = [],  # noqa: B006
    included_events: Annotated[list[str], Query()] = [],  # noqa: B006
    before: UtcDateTime | None = None,
    after: UtcDateTime | None = None,
    dag_id_pattern: str | None = None,
    dag_id_prefix_pattern: str | None = None,
    task_id_pattern: str | None = None,
    task_id_prefix_pattern: str | None = None,
    run_id_pattern: str | None = None,
    run_id_prefix_pattern: str | None = None,
    owner_pattern: str | None = None,
    owner_prefix_pattern: str | None = None,
    event_pattern: str | None = None,
    event_prefix_pattern: str | None = None,
) -> dict[str, Any]:
    """What a DAG has decided last, and why; of all DAGs, what those of the newest decisions have.

    Whoever may change things sees here who has changed what, too.
    """
    named = {"dag_id_pattern": dag_id_pattern, "dag_id_prefix_pattern": dag_id_prefix_pattern}
    rows = [row for row in await client.rows() if matches(row, named, {})] if dag_id is None else []
    views = await each(rows[:MAX_DAGS], _view_of(client))
    if dag_id is not None:
        with suppress(NotFoundError):  # of one that is gone there is what people did to it
            views = [await client.view(dag_id)]
    found = [_decision(view.dag_id, made) for view in views for made in view.decisions]
    changes = await _changes(request)
    found += [one for one in changes if dag_id in (None, one["dag_id"]) and (dag_id or matches(one, named, OF_DAG))]
    keys: dict[str, Any] = {"id": lambda one: one["when"], "when": lambda one: one["when"]}
    keys |= {
        name: lambda one, name=name: one[name]
        for name in ("event", "dag_id", "run_id", "task_id", "owner", "logical_date")
    }
    filters = {
        "event": event,
        "run_id": run_id,
        "task_id": task_id,
        "map_index": map_index,
        "try_number": try_number,
        "owner": owner,
        "included_event": included_events,
        "when_lt": before,
        "when_gt": after,
        "dag_id_pattern": dag_id_pattern,
        "dag_id_prefix_pattern": dag_id_prefix_pattern,
        "task_id_pattern": task_id_pattern,
        "task_id_prefix_pattern": task_id_prefix_pattern,
        "run_id_pattern": run_id_pattern,
        "run_id_prefix_pattern": run_id_prefix_pattern,
        "owner_pattern": owner_pattern,
        "owner_prefix_pattern": owner_prefix_pattern,
        "event_pattern": event_pattern,
        "event_prefix_pattern": event_prefix_pattern,
    }
    fields: dict[str, Any] = {name: lambda one, name=name: one[name] for name in ("map_index", "try_number")}
    fields |= {**keys, "included_event": keys["event"], "when": lambda one: datetime.fromisoformat(one["when"])}
    wanted = [one for one in found if matches(one, filters, fields) and one["event"] not in excluded_events]
    part = page(ordered(wanted, order_by, keys), limit, offset)
    return {"event_logs": part.items, "total_entries": part.total}


@router.get("/api/v2/eventLogs/{event_log_id}")
async def get_decision(client: Source, request: Request, event_log_id: int) -> dict[str, Any]:
    """One of the decisions and changes that are listed over all DAGs."""
    views = await each((await client.rows())[:MAX_DAGS], _view_of(client))
    found = [_decision(view.dag_id, made) for view in views for made in view.decisions]
    for one in [*found, *await _changes(request)]:
        if one["event_log_id"] == event_log_id:
            return one
    raise NotFoundError(f"there is no event log {event_log_id}")


async def _changes(request: Request) -> list[dict[str, Any]]:
    """What people have changed, for those who may change things."""
    if request.state.person.role < Role.OPERATOR:
        return []
    lines = await asyncio.to_thread(request.app.state.audit.newest, MAX_LINES)
    return [_change(line) for line in lines]


def _view_of(client: CachedClient) -> Callable[[DagRow], Awaitable[DagView]]:
    return lambda row: client.view(row.dag_id)


def _number(text: Any) -> int | None:
    """What a path or a body gives as a number; None where it is none."""
    try:
        return int(text)
    except (TypeError, ValueError, OverflowError):
        return None


def _text(value: Any) -> str | None:
    """What a body gives as a text; None where it is none."""
    return value if isinstance(value, str) else None


def _change(line: dict[str, Any]) -> dict[str, Any]:
    """What a person has changed, or was refused, as Airflow has it."""
    about = line["about"]
    dag_id, task_id = _text(about.get("dag_id")), _text(about.get("task_id"))
    extra = {name: line[name] for name in ("status", "address", "method", "path", "about", "reason") if name in line}
    return {
        "event_log_id": number_of("change", line["at"], line["path"], str(line["who"])),
        "when": line["at"],
        "dag_id": dag_id,
        "task_id": task_id,
        "run_id": _text(about.get("dag_run_id")) or _text(about.get("run_id")),
        "map_index": _number(about.get("map_index")),
        "try_number": None,
        "event": line["operation"] or "refused",
        "logical_date": _text(about.get("logical_date")),
        "owner": line["who"],
        "extra": json.dumps(extra),
        "dag_display_name": dag_id,
        "task_display_name": task_id,
    }


def _decision(dag_id: str, made: MadeDecision) -> dict[str, Any]:
    return {
        "event_log_id": number_of("decision", dag_id, made.at, made.kind, made.about),
        "when": made.at.isoformat(),
        "dag_id": dag_id,
        "task_id": None,
        "run_id": made.about,
        "map_index": None,
        "try_number": None,
        "event": made.kind,
        "logical_date": None,
        "owner": "tidemill",
        "extra": made.reason,
        "dag_display_name": dag_id,
        "task_display_name": None,
    }
