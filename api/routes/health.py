"""What plays the parts of Airflow's services, and whether it does."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from temporalio.service import RPCError

from ...worker.supervision.failing import count_failing
from ...worker.supervision.pollers import Poller, pollers_of
from ..dependencies import Source

router = APIRouter()


@router.get("/api/v2/monitor/health")
async def get_health(client: Source) -> dict[str, Any]:
    """Temporal is asked: it is the database, its workers are scheduler, triggerer and DAG processor."""
    tidemill = client.tidemill
    try:
        pollers, stored = await pollers_of(tidemill.client, tidemill.task_queue), "healthy"
        failing = await count_failing(tidemill.client)
    except RPCError:
        pollers, failing, stored = [], 0, "unhealthy"
    status, beat = _status(pollers)
    archive = {"archive": {"status": "unhealthy" if client.archive_problem else "healthy"}} if client.keeps_all else {}
    return {
        "metadatabase": {"status": stored},
        **archive,
        "workflows": {"status": "unhealthy" if failing else "healthy", "failing": failing},
        "scheduler": {"status": status, "latest_scheduler_heartbeat": beat},
        "triggerer": {"status": status, "latest_triggerer_heartbeat": beat},
        "dag_processor": {"status": status, "latest_dag_processor_heartbeat": beat},
    }


def _status(pollers: Sequence[Poller]) -> tuple[str, str | None]:
    if not pollers:
        return "unhealthy", None
    alive = pollers[0].is_alive(datetime.now(UTC))
    return "healthy" if alive else "unhealthy", pollers[0].last_seen.isoformat()
