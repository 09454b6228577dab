"""A worker that kills itself (SIGKILL) once: before a task's work begins, when it is done and not yet reported,
or when a Spark cluster has taken an application and nobody has noted its id.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Worker
from tidemill.activities.spark.kubernetes import Kubernetes
from tidemill.activities.spark.spark_operator import SparkOperator
from tidemill.activities.spark.standalone import Standalone
from tidemill.activities.spark.yarn import Yarn
from tidemill.worker.plugin import TidemillPlugin


class KillOnce(Interceptor):
    """Ends the process at the boundary *when*, unless the file *mark* says that it did so before."""

    def __init__(self, when: str, mark: Path) -> None:
        self.when = when
        self.mark = mark

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        return _Inbound(next, self)

    def reach(self, boundary: str) -> None:
        if boundary == self.when and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class _Inbound(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, kill: KillOnce) -> None:  # noqa: A002
        super().__init__(next)
        self._kill = kill

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        self._kill.reach("before the work")
        result = await super().execute_activity(input)
        self._kill.reach("after the work")
        self._kill.reach(f"after {activity.info().activity_type}")
        return result


def kill_after_the_request(kill: KillOnce) -> None:
    """Reaches the boundary where the cluster has answered, in the same place as the real thing."""
    for cluster in (Standalone, Kubernetes, SparkOperator, Yarn):
        _kill_after(cluster, kill)


def _kill_after(cluster: Any, kill: KillOnce) -> None:
    submit = cluster.submit

    def submit_and_die(self: Any) -> str:
        application_id: str = submit(self)
        kill.reach("after the request")
        return application_id

    cluster.submit = submit_and_die


async def main(address: str, home: str, queue: str, when: str, mark: str) -> None:
    client = await Client.connect(address, plugins=[TidemillPlugin(home)])
    kill = KillOnce(when, Path(mark))
    kill_after_the_request(kill)
    async with Worker(client, task_queue=queue, interceptors=[kill], max_concurrent_activities=4):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
