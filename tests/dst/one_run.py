"""One run of a DAG by the workflow that ships, on the model of the service: its tasks end as a test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure as ProtoFailure
from temporalio.exceptions import ApplicationError
from tidemill.activities.names import TASK_FAILED
from tidemill.model.run.attempts import TaskAttempt
from tidemill.model.run.identity import TriggerRequest, manual_run
from tidemill.model.run.state import DagRunState
from tidemill.model.run.task_instances import Failure, Outcome, TaskInstance
from tidemill.model.spec.dag import DagSpec
from tidemill.worker.service.converter import with_models

from .clock import SECOND, instant, microseconds
from .history import Activity, Execution
from .releases import this_release
from .world import SimulatedWorker, World

DAY = 86_400 * SECOND


class OneRun:
    """A manual run of *spec*. *outcomes*: by instance, how its tries end, in order; success where nothing is said."""

    def __init__(self, spec: DagSpec, outcomes: Mapping[str, Sequence[Outcome | Failure]] | None = None) -> None:
        start = spec.start_date
        assert start is not None
        self._outcomes = {key: [*ends] for key, ends in (outcomes or {}).items()}
        self._converter = with_models(None)
        self.world = World(1, microseconds(start), releases=[this_release(None)], perform=self._perform, workers=1)
        run = manual_run(spec.dag_id, spec.schedule, TriggerRequest(), start)
        state = DagRunState(run=run, spec=spec)
        execution = self.world.service.start("DagRun", run.workflow_id, self.world.to_payloads(state))
        assert execution is not None
        self.execution: Execution = execution
        self.workflow_id = run.workflow_id

    def go_on(self, microseconds_: int = DAY) -> None:
        """Lets time pass; fails where a workflow task does."""
        self.world.run_until(self.world.now + microseconds_)
        assert not self.world.violations, self.world.violations

    def update(self, name: str, argument: Any) -> str | None:
        """Sends an update and lets the run go on. Why it was refused; None: it was not."""
        answers: list[str | None] = []

        def answered(_: Payload | None, failure: ProtoFailure | None) -> None:
            answers.append(None if failure is None else failure.message)

        assert self.world.update(self.workflow_id, name, argument, answered=answered)
        self.go_on(SECOND)
        return answers[0]

    @property
    def instances(self) -> dict[str, TaskInstance]:
        state: DagRunState = self.world.query(self.execution, "whole_state", result_type=DagRunState)
        return state.instances

    @property
    def states(self) -> dict[str, str]:
        return {key: str(instance.state) for key, instance in self.instances.items()}

    def signals(self, workflow_id: str, name: str) -> list[Any]:
        """The first argument of each signal that the run has sent to *workflow_id*."""
        kind = "SignalExternalWorkflowExecutionInitiated"
        sent = [event.data for event in self.execution.events if event.kind == kind]
        mine = [data for data in sent if (data["workflow_id"], data["name"]) == (workflow_id, name)]
        return [self.world.value(data["input"][0]) for data in mine]

    def _perform(self, world: World, worker: SimulatedWorker, execution: Execution, activity: Activity) -> None:
        key = (execution.run_id, activity.scheduled_id, activity.attempt)
        attempt: TaskAttempt = world.value(activity.input[0], TaskAttempt)
        ends = self._outcomes.get(attempt.key, [])
        end = ends.pop(0) if ends else Outcome(started_at=instant(world.now))
        worker.cancels[key] = lambda: world.service.acknowledge_cancel(*key) and None
        if isinstance(end, Outcome):
            [payload] = world.to_payloads(end)
            world.later(SECOND, lambda: world.service.complete_activity(*key, payload) and None)
            return
        failure = ProtoFailure()
        error = ApplicationError(end.message, end, type=TASK_FAILED, non_retryable=True)
        self._converter.failure_converter_class().to_failure(error, self._converter.payload_converter, failure)
        world.later(SECOND, lambda: world.service.fail_activity(*key, failure) and None)
