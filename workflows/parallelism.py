"""Gives each new run the limit of the installation: how many tasks may run at once, over all DAGs and workers.

The limit is a setting of workers. A workflow may not read settings; so the worker that starts a run writes the limit
into the run's input, from where it is part of history.
"""

from dataclasses import replace
from typing import Any

from temporalio.worker import (
    Interceptor,
    StartChildWorkflowInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)
from temporalio.workflow import ChildWorkflowHandle

from ..model.run.state import DagRunState


class ParallelismInterceptor(Interceptor):
    """For workers whose setting *parallelism* is the limit (Airflow: `[core] parallelism`)."""

    def __init__(self, parallelism: int) -> None:
        self._parallelism = parallelism

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002, ARG002 - the SDK's names
    ) -> type[WorkflowInboundInterceptor]:
        parallelism = self._parallelism

        class Outbound(WorkflowOutboundInterceptor):
            async def start_child_workflow(
                self,
                input: StartChildWorkflowInput,  # noqa: A002
            ) -> ChildWorkflowHandle[Any, Any]:
                limited = [_limited(argument, parallelism) for argument in input.args]
                return await super().start_child_workflow(replace(input, args=limited))

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(Outbound(outbound))

        return Inbound


def _limited(argument: Any, parallelism: int) -> Any:
    if isinstance(argument, DagRunState):
        return argument.model_copy(update={"parallelism": parallelism})
    return argument
