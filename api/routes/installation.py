"""What there is of the installation itself: providers that are installed, and that there are no jobs."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
from functools import cache
from importlib.metadata import Distribution, distributions
from typing import Annotated, Any

from fastapi import APIRouter, Query

from ..dependencies import Limit, Offset, Source, UtcDateTime
from ..read.cached_client import CachedClient
from ..read.filters import ordered, page

router = APIRouter()
log = logging.getLogger(__name__)
PROVIDER = "apache-airflow-providers-"
JOB_ORDERS = (
    "id", "dag_id", "state", "job_type", "start_date", "end_date", "latest_heartbeat", "executor_class", "hostname",
    "unixname",
)  # fmt: skip


@router.get("/api/v2/providers")
async def get_providers(client: Source, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """The packages of Airflow's providers, where DAG files for Airflow run: in this server's environment if nowhere."""
    part = page(await providers_of(client), limit, offset)
    return {"providers": part.items, "total_entries": part.total}


async def providers_of(client: CachedClient) -> list[dict[str, str]]:
    """The providers where DAG files for Airflow run."""
    return await asyncio.to_thread(_providers_of, client.settings.airflow_python)


@cache
def _providers_of(python: str | None) -> list[dict[str, str]]:
    """The providers that *python* has, looked up once; None: this one."""
    there = distributions() if python is None else distributions(path=_places_of(python))
    found = {one.name: _provider(one) for one in there if one.name.startswith(PROVIDER)}
    return [found[name] for name in sorted(found)]


def _places_of(python: str) -> list[str]:
    """The folders of packages of another Python; none where it cannot be started."""
    command = [python, "-I", "-c", "import json, sys; print(json.dumps(sys.path))"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        log.warning("the providers of %s are not known: it cannot be started", python, exc_info=True)
        return []
    places: list[str] = json.loads(done.stdout)
    return places


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
