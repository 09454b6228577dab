"""Looks over a workflow's shoulder while it is replayed: how things are after each step."""

import asyncio
from dataclasses import dataclass, field
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
from ..model.replay.steps import WAITING_KEPT, Change, Picture, changes_between, newly_waiting
from ..model.run.task_instances import TaskInstance
from ..model.states import TaskState
from .dag.workflow import DagWorkflow
from .run.workflow import DagRunWorkflow


@dataclass
class Seen:
    """What a step has changed."""

    decided: tuple[Change, ...] = ()
    waiting: dict[str, str] = field(default_factory=dict)


class Recorder(Interceptor):
    """Keeps what each step of a workflow changes that is replayed, one execution after the other.

    *continues*: whether the first execution goes on from one that is not replayed, so that what it begins with was
    decided before.
    """

    def __init__(self, *, continues: bool) -> None:
        self.steps: dict[int, Seen] = {}
        """Of the present execution, by the number of the step's WorkflowTaskStarted event."""
        self._heard: dict[int, list[Change]] = {}
        self._before: Picture | None = None
        self._now = None if continues else Picture()
        self._step: int | None = None

    def begin(self) -> None:
        """The next execution: it begins with what the one before has ended with."""
        self.steps, self._heard, self._step = {}, {}, None

    def workflow_interceptor_class(self, _: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        recorder = self

        class Watch(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002
                instance = workflow.instance()
                if isinstance(instance, DagWorkflow):
                    instance.state.tell_decisions_to(recorder.hear)
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

    def hear(self, made: MadeDecision) -> None:
        """A DAG has decided something."""
        change = Change(about=made.about, before=None, after=str(made.kind), reason=made.reason)
        self._heard.setdefault(workflow.info().get_current_history_length(), []).append(change)

    def look(self, instance: Any) -> bool:
        """Compares with how things were before the step; of several looks within a step the last one counts."""
        number = workflow.info().get_current_history_length()
        picture = _of_run(instance) if isinstance(instance, DagRunWorkflow) else _of_dag(instance)
        if number != self._step:
            self._step, self._before = number, self._now
        self._now = picture
        before = self._before or picture
        decided = (*self._heard.get(number, ()), *changes_between(before, picture))
        self.steps[number] = Seen(decided, newly_waiting(before, picture))
        return False


def _of_dag(instance: DagWorkflow) -> Picture:
    state = instance.state
    runs = {tracked.run.run_id: (str(tracked.state), "") for tracked in state.runs.values()}
    return Picture(runs, {"next run": next_run(state, workflow.now())})


def _of_run(instance: DagRunWorkflow) -> Picture:
    instances = instance.state.instances.values()
    states = {i.key: (_state_of(i), i.reason or "") for i in instances}
    waiting = [i for i in instances if not i.state.finished and i.state is not TaskState.RUNNING]
    return Picture(states, {i.key: instance.tasks.why(i) for i in waiting[:WAITING_KEPT]})


def _state_of(instance: TaskInstance) -> str:
    return f"{instance.state} (try {instance.try_number})" if instance.try_number else str(instance.state)
