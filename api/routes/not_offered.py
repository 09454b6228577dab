"""Operations that Airflow has and tidemill has not: each says so, and what to use instead."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query

from ..dependencies import Limit, Offset, Source, UtcDateTime
from ..errors import NotOfferedError

router = APIRouter()
DAG = "/api/v2/dags/{dag_id}"
DAG_RUN = DAG + "/dagRuns/{dag_run_id}"
ALIASES = "aliases are not listed: an asset's events say by which they came"
RESULTS = "results are what tasks have returned and pushed, and are not changed from outside"
PARTITIONS = "partitions that are gathered are shown by `tidemill dags explain`"
NOT_OFFERED: dict[tuple[str, str], str] = {
    ("POST", DAG + "/clearPartitions"): "partitions are run again by a backfill with reprocess_behavior",
    ("GET", "/api/v2/assets/aliases"): ALIASES,
    ("GET", "/api/v2/assets/aliases/{asset_alias_id}"): ALIASES,
    ("POST", "/api/v2/connections/defaults"): "there are no connections that a new installation has",
    ("DELETE", DAG_RUN + "/taskInstances/{task_id}"): "a run keeps all its tasks: clear them, or delete the run",
    ("POST", "/ui/auth/token"): "a session is begun by logging in",
    ("GET", "/ui/partitioned_dag_runs"): PARTITIONS,
    ("GET", "/ui/pending_partitioned_dag_run/{dag_id}"): PARTITIONS,
}


TESTED = "connections are tested by `tidemill connections test`, where the worker is"
CONFIG = "settings are those of each worker, and are not shown: docs/operating.md lists them"
FORBIDDEN: dict[tuple[str, str], str] = {
    ("POST", "/api/v2/connections/test"): TESTED,
    ("GET", "/api/v2/connections/enqueue-test"): TESTED,
    ("POST", "/api/v2/connections/enqueue-test"): TESTED,
    ("GET", "/api/v2/config"): CONFIG,
    ("GET", "/api/v2/config/section/{section}/option/{option}"): CONFIG,
    ("POST", DAG_RUN + "/taskInstances/{task_id}/xcomEntries"): RESULTS,
    ("PATCH", DAG_RUN + "/taskInstances/{task_id}/xcomEntries/{xcom_key:path}"): RESULTS,
    ("DELETE", DAG_RUN + "/taskInstances/{task_id}/xcomEntries/{xcom_key:path}"): RESULTS,
    ("GET", "/ui/teams"): "there are no teams: a namespace of Temporal is a team's",
}
"""What is not allowed here: some of it Airflow forbids too, unless its operator has set that it is allowed. Pages of
Airflow's web ask again after 501, and show a refusal at once."""


def _refusing(reason: str) -> Any:
    async def refuse() -> None:
        raise NotOfferedError(reason)

    return refuse


def _forbidding(reason: str) -> Any:
    async def forbid() -> None:
        raise HTTPException(403, reason)

    return forbid


for (method, path), reason in FORBIDDEN.items():
    router.add_api_route(
        path,
        _forbidding(reason),
        methods=[method],
        status_code=403,
        summary="Forbidden",
        description=f"Forbidden (403): {reason}.",
    )


for (method, path), reason in NOT_OFFERED.items():
    router.add_api_route(
        path,
        _refusing(reason),
        methods=[method],
        status_code=501,
        summary="Not offered",
        description=f"Not offered (501): {reason}.",
    )


@router.get("/ui/dags/{dag_id}/dagRuns/{dag_run_id}/deadlines")
async def get_deadlines(
    client: Source,
    dag_id: str,
    limit: Limit = 50,  # noqa: ARG001 - there are none
    offset: Offset = 0,  # noqa: ARG001
    order_by: Annotated[list[str], Query()] = ["deadline_time"],  # noqa: ARG001, B006
    missed: bool | None = None,  # noqa: ARG001
    deadline_time_gte: UtcDateTime | None = None,  # noqa: ARG001
    deadline_time_gt: UtcDateTime | None = None,  # noqa: ARG001
    deadline_time_lte: UtcDateTime | None = None,  # noqa: ARG001
    deadline_time_lt: UtcDateTime | None = None,  # noqa: ARG001
    last_updated_at_gte: UtcDateTime | None = None,  # noqa: ARG001
    last_updated_at_gt: UtcDateTime | None = None,  # noqa: ARG001
    last_updated_at_lte: UtcDateTime | None = None,  # noqa: ARG001
    last_updated_at_lt: UtcDateTime | None = None,  # noqa: ARG001
) -> dict[str, Any]:
    """Deadlines are told to notifiers, and not kept."""
    if dag_id != "~":
        await client.view(dag_id)
    return {"deadlines": [], "total_entries": 0}


@router.get("/ui/dags/{dag_id}/deadlineAlerts")
async def get_alerts(
    client: Source,
    dag_id: str,
    limit: Limit = 50,  # noqa: ARG001
    offset: Offset = 0,  # noqa: ARG001
    version_number: int | None = None,  # noqa: ARG001
    order_by: Annotated[list[str], Query()] = ["reference_type"],  # noqa: ARG001, B006
) -> dict[str, Any]:
    """Deadlines that were missed, of one DAG: none is kept."""
    await client.view(dag_id)
    return {"deadline_alerts": [], "total_entries": 0}
