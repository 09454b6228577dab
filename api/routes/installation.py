"""What there is of the installation itself: providers that are installed, and that there are no jobs."""

from __future__ import annotations

from importlib.metadata import Distribution, distributions
from typing import Annotated, Any

from fastapi import APIRouter, Query

from ..dependencies import Limit, Offset, UtcDateTime
from ..read.filters import ordered, page

router = APIRouter()
PROVIDER = "apache-airflow-providers-"
JOB_ORDERS = (
    "id", "dag_id", "state", "job_type", "start_date", "end_date", "latest_heartbeat", "executor_class", "hostname",
    "unixname",
)  # fmt: skip


@router.get("/api/v2/providers")
async def get_providers(limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """The packages of Airflow's providers in this server's environment; workers have environments of their own."""
    found = [_provider(one) for one in distributions() if one.name.startswith(PROVIDER)]
    part = page(sorted(found, key=lambda one: str(one["package_name"])), limit, offset)
    return {"providers": part.items, "total_entries": part.total}


def _provider(package: Distribution) -> dict[str, str]:
    """Airflow: ProviderResponse."""
    return {
        "package_name": package.name,
        "description": package.metadata["Summary"] or "",
        "version": package.version,
        "documentation_url": f"https://airflow.apache.org/docs/{package.name}/{package.version}/",
    }


@router.get("/api/v2/jobs")
async def get_jobs(
    limit: Limit = 50,  # noqa: ARG001 - there are none
    offset: Offset = 0,  # noqa: ARG001
    order_by: Annotated[list[str], Query()] = ["id"],  # noqa: B006
    job_state: str | None = None,  # noqa: ARG001
    job_type: str | None = None,  # noqa: ARG001
    hostname: str | None = None,  # noqa: ARG001
    executor_class: str | None = None,  # noqa: ARG001
    is_alive: bool | None = None,  # noqa: ARG001
    start_date_gte: UtcDateTime | None = None,  # noqa: ARG001
    start_date_gt: UtcDateTime | None = None,  # noqa: ARG001
    start_date_lte: UtcDateTime | None = None,  # noqa: ARG001
    start_date_lt: UtcDateTime | None = None,  # noqa: ARG001
    end_date_gte: UtcDateTime | None = None,  # noqa: ARG001
    end_date_gt: UtcDateTime | None = None,  # noqa: ARG001
    end_date_lte: UtcDateTime | None = None,  # noqa: ARG001
    end_date_lt: UtcDateTime | None = None,  # noqa: ARG001
) -> dict[str, Any]:
    """None: there is no scheduler, no triggerer and no processor of DAG files. Temporal keeps what is to be done."""
    return {"jobs": ordered([], order_by, dict.fromkeys(JOB_ORDERS, str)), "total_entries": 0}
