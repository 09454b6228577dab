"""Whether any worker polls a task queue: asked of Temporal, which sees them all."""

from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from ...model.base import Instant, Model

SILENT = timedelta(seconds=90)
"""A worker polls about once a minute; Temporal remembers one that is gone for longer."""
ANSWER_TIMEOUT = timedelta(seconds=10)


class Poller(Model):
    """A worker that has polled a task queue."""

    identity: str
    last_seen: Instant

    def is_alive(self, now: datetime) -> bool:
        return now - self.last_seen < SILENT


async def pollers_of(
    client: Client, task_queue: str, kind: TaskQueueType.ValueType = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
) -> list[Poller]:
    """The workers that poll the queue for what is of *kind*, the one that was seen last first.

    Raises RPCError where Temporal does not answer.
    """
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue),
        task_queue_type=kind,
    )
    found = (await client.workflow_service.describe_task_queue(request, timeout=ANSWER_TIMEOUT)).pollers
    seen = [Poller(identity=one.identity, last_seen=one.last_access_time.ToDatetime(UTC)) for one in found]
    return sorted(seen, key=lambda poller: poller.last_seen, reverse=True)
