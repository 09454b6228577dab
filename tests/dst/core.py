"""What the SDK's Core does between the service and a workflow: keeps the order of commands, and answers some itself."""

from collections.abc import Iterable

from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import ActivityCancellationType, WorkflowCommand

from . import failures
from .history import Activity, Child
from .jobs import TERMINAL

WAITS = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
ABANDONS = ActivityCancellationType.ABANDON
RESOLVING = {
    "resolve_activity": "activity",
    "resolve_child_workflow_execution": "child",
    "resolve_signal_external_workflow": "signal",
}


class Machines:
    """What one workflow has under way, as its worker knows it."""

    def __init__(self) -> None:
        self._sent: set[tuple[str, int]] = set()
        """What the service knows of."""
        self._over: set[tuple[str, int]] = set()
        """What the workflow has been told the end of."""
        self._started: dict[tuple[str, int], WorkflowCommand] = {}

    def wanted(self, jobs: Iterable[WorkflowActivationJob]) -> list[WorkflowActivationJob]:
        """*jobs* without those that the workflow has had an answer to already: it did not wait for a cancellation."""
        kept = []
        for job in jobs:
            kind = job.WhichOneof("variant") or ""
            what = RESOLVING.get(kind)
            if what is not None:
                key = (what, getattr(job, kind).seq)
                if key in self._over:
                    continue
                self._over.add(key)
            elif kind == "fire_timer":
                self._over.add(("timer", job.fire_timer.seq))
            kept.append(job)
        return kept

    def take(self, commands: Iterable[WorkflowCommand], out: list[WorkflowCommand]) -> list[WorkflowActivationJob]:
        """Adds to *out* what the service is to be asked; what the workflow is told at once, without it."""
        told: list[WorkflowActivationJob] = []
        for command in commands:
            match command.WhichOneof("variant"):
                case "start_timer":
                    self._begin("timer", command.start_timer.seq, command, out)
                case "cancel_timer":
                    key = ("timer", command.cancel_timer.seq)
                    if not self._take_back(key, out) and key not in self._over:
                        out.append(command)
                    self._over.add(key)
                case "schedule_activity":
                    self._begin("activity", command.schedule_activity.seq, command, out)
                case "request_cancel_activity":
                    told += self._cancel_activity(command, out)
                case "start_child_workflow_execution":
                    self._begin("child", command.start_child_workflow_execution.seq, command, out)
                case "cancel_child_workflow_execution":
                    told += self._cancel_child(command, out)
                case "signal_external_workflow_execution":
                    self._begin("signal", command.signal_external_workflow_execution.seq, command, out)
                case "cancel_signal_workflow":
                    told += self._cancel_signal(command.cancel_signal_workflow.seq, out)
                case _:
                    out.append(command)
        return told

    def sent(self, out: list[WorkflowCommand]) -> list[WorkflowCommand]:
        """The commands of a whole workflow task: what closes the execution comes last."""
        self._sent.update(self._started)
        closing = [command for command in out if command.WhichOneof("variant") in TERMINAL]
        return [command for command in out if command.WhichOneof("variant") not in TERMINAL] + closing[:1]

    def _begin(self, what: str, seq: int, command: WorkflowCommand, out: list[WorkflowCommand]) -> None:
        self._started[what, seq] = command
        out.append(command)

    def _take_back(self, key: tuple[str, int], out: list[WorkflowCommand]) -> bool:
        """Whether it was asked for in this very workflow task, and so is not asked for at all."""
        if key in self._sent or key not in self._started:
            return False
        out[:] = [command for command in out if command is not self._started[key]]
        return True

    def _cancel_activity(self, command: WorkflowCommand, out: list[WorkflowCommand]) -> list[WorkflowActivationJob]:
        key = ("activity", command.request_cancel_activity.seq)
        if key in self._over:
            return []
        started = self._started[key].schedule_activity
        at_once = self._take_back(key, out)
        if not at_once and started.cancellation_type != ABANDONS:
            out.append(command)
        if not at_once and started.cancellation_type == WAITS:
            return []
        self._over.add(key)
        activity = Activity(0, key[1], started.activity_id, started.activity_type, "", [], 0, None, 0, 0, 0, 0, 0, 0)
        job = WorkflowActivationJob()
        job.resolve_activity.seq = key[1]
        job.resolve_activity.result.cancelled.failure.CopyFrom(failures.of_activity(activity, failures.canceled()))
        return [job]

    def _cancel_child(self, command: WorkflowCommand, out: list[WorkflowCommand]) -> list[WorkflowActivationJob]:
        key = ("child", command.cancel_child_workflow_execution.child_workflow_seq)
        if key in self._over:
            return []
        if not self._take_back(key, out):
            out.append(command)
            return []
        self._over.add(key)
        started = self._started[key].start_child_workflow_execution
        child = Child(0, key[1], started.workflow_id, started.workflow_type, 0)
        job = WorkflowActivationJob()
        job.resolve_child_workflow_execution_start.seq = key[1]
        failure = failures.of_child(child, failures.canceled())
        job.resolve_child_workflow_execution_start.cancelled.failure.CopyFrom(failure)
        return [job]

    def _cancel_signal(self, seq: int, out: list[WorkflowCommand]) -> list[WorkflowActivationJob]:
        key = ("signal", seq)
        if key in self._over or not self._take_back(key, out):
            return []
        self._over.add(key)
        job = WorkflowActivationJob()
        job.resolve_signal_external_workflow.seq = seq
        job.resolve_signal_external_workflow.failure.CopyFrom(failures.canceled())
        return [job]
