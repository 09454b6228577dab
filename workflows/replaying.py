"""Looks over a workflow's shoulder while it is replayed: how things are after each step."""

import asyncio
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from ..model.dag.explaining import next_run
from ..model.dag.records import MadeDecision
from ..model.replay.steps import WAITING_SHOWN, Change, Picture
from ..model.run.task_instances import TaskInstance
from ..model.states import TaskState
from .dag.workflow import DagWorkflow
from .run.workflow import DagRunWorkflow


class Recorder(Interceptor):
    """Keeps a picture for each step of a workflow that is replayed, one execution after the other."""

    def __init__(self) -> None:
        self.pictures: dict[int, Picture] = {}
        """Of the present execution, by the number of the step's WorkflowTaskStarted event."""
        self._last_decision: MadeDecision | None = None

    def workflow_interceptor_class(self, _: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        recorder = self

        class Watch(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002
                instance = workflow.instance()
                # A condition is looked at after each step and asks Temporal for nothing: history does not know of it.
                watch = asyncio.create_task(workflow.wait_condition(partial(recorder.look, instance)))
                try:
                    result = await super().execute_workflow(input)
                except (Exception, workflow.ContinueAsNewError):  # nothing else: the end of the replay is none of its
                    recorder.look(instance)
                    raise
                recorder.look(instance)
                watch.cancel()
                return result

        return Watch

    def look(self, instance: Any) -> bool:
        """Takes the picture anew: of several within a step the last one stays."""
        number = workflow.info().get_current_history_length()
        news = self.pictures[number].news if number in self.pictures else ()
        if isinstance(instance, DagRunWorkflow):
            self.pictures[number] = _of_run(instance)
        elif isinstance(instance, DagWorkflow):
            self.pictures[number] = self._of_dag(instance, news)
        return False

    def _of_dag(self, instance: DagWorkflow, news: tuple[Change, ...]) -> Picture:
        state = instance.state
        runs = {tracked.run.run_id: (str(tracked.state), "") for tracked in state.runs.values()}
        made = [*state.decisions]
        if self._last_decision in made:
            made = made[made.index(self._last_decision) + 1 :]
        if made:
            self._last_decision = made[-1]
        told = tuple(Change(about=d.about, before=None, after=str(d.kind), reason=d.reason) for d in made)
        return Picture(runs, (*news, *told), {"next run": next_run(state, workflow.now())})


def _of_run(instance: DagRunWorkflow) -> Picture:
    instances = instance.state.instances.values()
    states = {i.key: (_state_of(i), i.reason or "") for i in instances}
    waiting = [i for i in instances if not i.state.finished and i.state is not TaskState.RUNNING]
    return Picture(states, (), {i.key: instance.tasks.why(i) for i in waiting[:WAITING_SHOWN]})


def _state_of(instance: TaskInstance) -> str:
    return f"{instance.state} (try {instance.try_number})" if instance.try_number else str(instance.state)
