"""Operations that Airflow has and tidemill has not: each says so, and what to use instead."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from ..dependencies import Here, Limit, Moment, Offset
from ..errors import NotOfferedError

router = APIRouter()
DAG = "/api/v2/dags/{dag_id}"
SECRETS = "come from the environment, a secrets file or a backend of the workers, and are not changed here"
NOT_OFFERED: dict[tuple[str, str], str] = {
    ("POST", "/api/v2/variables"): f"variables {SECRETS}",
    ("PATCH", "/api/v2/variables"): f"variables {SECRETS}",
    ("PATCH", "/api/v2/variables/{variable_key}"): f"variables {SECRETS}",
    ("DELETE", "/api/v2/variables/{variable_key}"): f"variables {SECRETS}",
    ("POST", "/api/v2/connections"): f"connections {SECRETS}",
    ("PATCH", "/api/v2/connections"): f"connections {SECRETS}",
    ("PATCH", "/api/v2/connections/{connection_id}"): f"connections {SECRETS}",
    ("DELETE", "/api/v2/connections/{connection_id}"): f"connections {SECRETS}",
    ("POST", "/api/v2/connections/test"): "connections are tested by `tidemill connections test`, where the worker is",
    ("GET", "/ui/connections/hook_meta"): f"connections {SECRETS}: there are no forms for them",
    ("GET", "/api/v2/config"): "settings are those of each worker: docs/operating.md lists them",
    ("GET", "/api/v2/jobs"): "there are no jobs: Temporal keeps what is to be done",
    ("GET", "/api/v2/providers"): "there are no providers: operators are tidemill's, or classes of your DAG files",
    ("PATCH", "/api/v2/dags"): "DAGs are paused one by one",
    ("POST", DAG + "/clearDagRuns"): "runs are cleared one by one, or by `tidemill runs clear --start --end`",
    ("POST", DAG + "/clearPartitions"): "partitions are run again by a backfill with reprocess_behavior",
    ("GET", "/api/v2/assets/aliases"): "aliases are not listed: an asset's events say by which they came",
}


def _refusing(told: str) -> Any:
    async def refuse() -> None:
        raise NotOfferedError(told)

    return refuse


for (method, path), told in NOT_OFFERED.items():
    router.add_api_route(path, _refusing(told), methods=[method], status_code=501, summary="Not offered")


@router.get("/ui/dags/{dag_id}/dagRuns/{dag_run_id}/deadlines")
async def get_deadlines(
    source: Here,
    dag_id: str,
    limit: Limit = 50,  # noqa: ARG001 - there are none
    offset: Offset = 0,  # noqa: ARG001
    order_by: Annotated[list[str], Query()] = ["deadline_time"],  # noqa: ARG001, B006
    missed: bool | None = None,  # noqa: ARG001
    deadline_time_gte: Moment | None = None,  # noqa: ARG001
    deadline_time_gt: Moment | None = None,  # noqa: ARG001
    deadline_time_lte: Moment | None = None,  # noqa: ARG001
    deadline_time_lt: Moment | None = None,  # noqa: ARG001
    last_updated_at_gte: Moment | None = None,  # noqa: ARG001
    last_updated_at_gt: Moment | None = None,  # noqa: ARG001
    last_updated_at_lte: Moment | None = None,  # noqa: ARG001
    last_updated_at_lt: Moment | None = None,  # noqa: ARG001
) -> dict[str, Any]:
    """Deadlines are told to notifiers, and not kept."""
    if dag_id != "~":
        await source.view(dag_id)
    return {"deadlines": [], "total_entries": 0}


@router.get("/ui/dags/{dag_id}/deadlineAlerts")
async def get_alerts(
    source: Here,
    dag_id: str,
    limit: Limit = 50,  # noqa: ARG001
    offset: Offset = 0,  # noqa: ARG001
    version_number: int | None = None,  # noqa: ARG001
) -> dict[str, Any]:
    """The same."""
    await source.view(dag_id)
    return {"deadline_alerts": [], "total_entries": 0}
