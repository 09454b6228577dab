"""Tasks that wait for a person's answer."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import Field

from ...model.errors import InvalidInputError
from ...model.run.instance_keys import instance_key
from ...model.run.messages import Answer as ApprovalAnswer
from ...worker.service.connection import NotFoundError
from ..auth.access import authorise
from ..auth.sessions import Access
from ..auth.tokens import Person
from ..dependencies import Limit, Offset, Source, TaskStateName, UtcDateTime
from ..errors import ConflictError
from ..read.concurrency import each
from ..read.filters import matches, ordered, page
from ..read.instances import instances_of, one_instance
from ..refusals import bad_requests
from ..responses.approvals import detail_of, details_of, user_named
from ..responses.common import Body
from .runs import RUN
from .task_instances import MAPPED

router = APIRouter()
MAX_RUNS = 50
"""Runs that a list over several looks at, the newest first."""


FIELDS: dict[str, Any] = {
    name: lambda one, name=name: one["task_instance"][name]
    for name in (
        "task_id",
        "map_index",
        "state",
        "dag_id",
        "run_after",
        "task_display_name",
        "try_number",
        "operator",
        "operator_name",
        "rendered_map_index",
        "logical_date",
        "start_date",
        "end_date",
    )
} | {name: lambda one, name=name: one[name] for name in ("response_received", "subject", "body", "created_at")}
FIELDS |= {
    "responded_at": lambda one: one["responded_at"],
    "responded_by_user_name": lambda one: (one["responded_by_user"] or {}).get("name"),
    "responded_by_user_id": lambda one: (one["responded_by_user"] or {}).get("id"),
    "created_at": lambda one: _moment(one["created_at"]),
}
FIELDS |= {"ti_id": lambda one: one["task_instance"]["id"], "run_id": lambda one: one["task_instance"]["dag_run_id"]}


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text is not None else None


class AnswerBody(Body):
    """Airflow: UpdateHITLDetailPayload."""

    chosen_options: Annotated[list[str], Field(min_length=1)]
    params_input: dict[str, Any] = {}


@router.get(RUN + "/hitlDetails")
async def get_approvals(
    client: Source,
    dag_id: str,
    dag_run_id: str,
    limit: Limit = 50,
    offset: Offset = 0,
    order_by: Annotated[list[str], Query()] = ["ti_id"],  # noqa: B006
    response_received: bool | None = None,
    task_id: str | None = None,
    map_index: int | None = None,
    state: Annotated[list[TaskStateName], Query()] = [],  # noqa: B006
    dag_id_pattern: str | None = None,
    dag_id_prefix_pattern: str | None = None,
    task_id_pattern: str | None = None,
    task_id_prefix_pattern: str | None = None,
    subject_search: str | None = None,
    body_search: str | None = None,
    responded_by_user_name: Annotated[list[str], Query()] = [],  # noqa: B006
    responded_by_user_id: Annotated[list[str], Query()] = [],  # noqa: B006
    created_at_gte: UtcDateTime | None = None,
    created_at_gt: UtcDateTime | None = None,
    created_at_lte: UtcDateTime | None = None,
    created_at_lt: UtcDateTime | None = None,
) -> dict[str, Any]:
    """Tasks of a run that wait for a person, or have; of a DAG (`~` as run), of its newest runs."""
    if dag_id == "~":
        waiting = response_received is False
        rows = [row for row in await client.all_runs() if row.dag_id and dag_run_id in ("~", row.run_id)]
        rows = [row for row in rows if row.counts.get("awaiting_input")] if waiting else rows[:MAX_RUNS]
        runs = [(row.dag_id, row.run_id) for row in reversed(rows)]
    elif dag_run_id == "~":
        newest = (await client.runs(dag_id))[:MAX_RUNS]
        runs = [(dag_id, view.run_id) for view in reversed(newest) if view.state != "queued"]
    else:
        await client.run(dag_id, dag_run_id)
        runs = [(dag_id, dag_run_id)]
    instances = await each(runs, lambda one: instances_of(client, *one))
    found = [one for part in instances for one in details_of(*part)]
    wanted = {
        "response_received": response_received,
        "task_id": task_id,
        "map_index": map_index,
        "state": state,
        "dag_id_pattern": dag_id_pattern,
        "dag_id_prefix_pattern": dag_id_prefix_pattern,
        "task_id_pattern": task_id_pattern,
        "task_id_prefix_pattern": task_id_prefix_pattern,
        "subject_pattern": subject_search,
        "body_pattern": body_search,
        "responded_by_user_name": responded_by_user_name,
        "responded_by_user_id": responded_by_user_id,
        "created_at_gte": created_at_gte,
        "created_at_gt": created_at_gt,
        "created_at_lte": created_at_lte,
        "created_at_lt": created_at_lt,
    }
    found = [one for one in found if matches(one, wanted, FIELDS)]
    part = page(ordered(found, order_by, FIELDS), limit, offset)
    return {"hitl_details": part.items, "total_entries": part.total}


@router.get(MAPPED + "/hitlDetails")
async def get_approval(client: Source, dag_id: str, dag_run_id: str, task_id: str, map_index: int) -> dict[str, Any]:
    """What a task asks a person, and the answer."""
    shown, view = await one_instance(client, dag_id, dag_run_id, task_id, map_index)
    found = detail_of(shown, view)
    if found is None:
        raise NotFoundError(f"task {task_id!r} of DAG {dag_id!r} waits for nobody's answer")
    return found


@router.get(MAPPED + "/hitlDetails/tries/{try_number}")
async def get_approval_of_try(
    client: Source, dag_id: str, dag_run_id: str, task_id: str, map_index: int, try_number: int
) -> dict[str, Any]:
    """What a task asked in one of its tries, and the answer."""
    found = await get_approval(client, dag_id, dag_run_id, task_id, map_index)
    if found["task_instance"]["try_number"] != try_number:
        raise NotFoundError(f"task {task_id!r} of run {dag_run_id!r} has no try {try_number} that waits")
    return found


@router.patch(MAPPED + "/hitlDetails", name="update_hitl_detail")
async def answer_approval(
    request: Request,
    client: Source,
    dag_id: str,
    dag_run_id: str,
    task_id: str,
    map_index: int,
    body: AnswerBody,
    person: Annotated[Person, Depends(authorise)],
) -> dict[str, Any]:
    """Answers for a person."""
    shown, view = await one_instance(client, dag_id, dag_run_id, task_id, map_index)
    detail = detail_of(shown, view)
    if detail is None:
        raise NotFoundError(f"task {task_id!r} of run {dag_run_id!r} waits for nobody's answer")
    if view.response is not None:
        by = f" by {view.response.by}" if view.response.by else ""
        raise ConflictError(f"task {task_id!r} of run {dag_run_id!r} has been answered{by}: {view.response.chosen}")
    if body.params_input and view.form is None:
        raise InvalidInputError("params_input: approvals have no params here. Leave it out")
    access: Access | None = request.app.state.access
    name = access.answers_as(person) if access is not None else person.name
    wanted = [one["name"] for one in detail["assigned_users"]]
    if wanted and name not in wanted:
        raise HTTPException(403, f"task {task_id!r} waits for {', '.join(wanted)}, and not for {name or 'somebody'}")
    answer = ApprovalAnswer(
        task=instance_key(task_id, map_index),
        chosen=tuple(body.chosen_options),
        params=body.params_input,
        by=name,
    )
    with bad_requests():
        await client.tidemill.tasks.respond(dag_id, dag_run_id, answer)
    await client.changed(dag_id, dag_run_id)
    return {
        "responded_by": user_named(name),
        "responded_at": datetime.now(UTC).isoformat(),
        "chosen_options": body.chosen_options,
        "params_input": body.params_input,
    }
