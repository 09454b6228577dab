"""What plays the parts of Airflow's services, and whether it does."""

from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.service import RPCError

from ..dependencies import Here

router = APIRouter()
SILENT = timedelta(seconds=90)
"""A worker polls about once a minute; Temporal remembers one that is gone for longer."""


@router.get("/api/v2/monitor/health")
async def get_health(source: Here) -> dict[str, Any]:
    """Temporal is asked: it is the database, its workers are scheduler, triggerer and DAG processor."""
    tidemill = source.tidemill
    request = DescribeTaskQueueRequest(
        namespace=tidemill.client.namespace,
        task_queue=TaskQueue(name=tidemill.task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    try:
        pollers = (await tidemill.client.workflow_service.describe_task_queue(request)).pollers
        stored = "healthy"
    except RPCError:
        pollers, stored = [], "unhealthy"  # type: ignore[assignment]
    seen = [poller.last_access_time.ToDatetime(UTC) for poller in pollers]
    status, beat = _status(max(seen, default=None))
    return {
        "metadatabase": {"status": stored},
        "scheduler": {"status": status, "latest_scheduler_heartbeat": beat},
        "triggerer": {"status": status, "latest_triggerer_heartbeat": beat},
        "dag_processor": {"status": status, "latest_dag_processor_heartbeat": beat},
    }


def _status(seen: datetime | None) -> tuple[str, str | None]:
    if seen is None:
        return "unhealthy", None
    return "healthy" if datetime.now(UTC) - seen < SILENT else "unhealthy", seen.isoformat()
