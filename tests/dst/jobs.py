"""What Core tells a workflow of an event."""

from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.child_workflow import StartChildWorkflowExecutionFailedCause
from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob

from . import failures
from .clock import instant
from .history import Event, Execution, PendingUpdate

TERMINAL = frozenset(
    {
        "complete_workflow_execution",
        "fail_workflow_execution",
        "cancel_workflow_execution",
        "continue_as_new_workflow_execution",
    }
)
"""Commands that close an execution."""


def done_update(update: PendingUpdate) -> WorkflowActivationJob:
    """The job of an update that has come."""
    job = WorkflowActivationJob()
    job.do_update.id = job.do_update.protocol_instance_id = update.update_id
    job.do_update.name = update.name
    job.do_update.input.extend(update.arguments)
    job.do_update.meta.update_id = update.update_id
    job.do_update.run_validator = True
    return job


def job_of(execution: Execution, event: Event) -> WorkflowActivationJob | None:
    """The job of *event*; None where the workflow is not told."""
    job, data = WorkflowActivationJob(), event.data
    match event.kind:
        case "WorkflowExecutionStarted":
            _initialize(job, execution)
        case "WorkflowExecutionSignaled":
            job.signal_workflow.signal_name = data["name"]
            job.signal_workflow.input.extend(data["input"])
            job.signal_workflow.originating_event_id = event.event_id
        case "WorkflowTaskFailed" if data.get("cause") == "ResetWorkflow":
            job.update_random_seed.randomness_seed = int(execution.run_id[:8], 16)
        case "WorkflowExecutionCancelRequested":
            job.cancel_workflow.SetInParent()
        case "TimerFired":
            job.fire_timer.seq = data["seq"]
        case "ActivityTaskCompleted":
            job.resolve_activity.seq = data["seq"]
            job.resolve_activity.result.completed.SetInParent()
            if data["result"] is not None:
                job.resolve_activity.result.completed.result.CopyFrom(data["result"])
        case "ActivityTaskFailed" | "ActivityTaskTimedOut":
            job.resolve_activity.seq = data["seq"]
            failure = failures.of_activity(data["activity"], data["failure"])
            job.resolve_activity.result.failed.failure.CopyFrom(failure)
        case "ActivityTaskCanceled":
            job.resolve_activity.seq = data["seq"]
            failure = failures.of_activity(data["activity"], data["failure"])
            job.resolve_activity.result.cancelled.failure.CopyFrom(failure)
        case "ChildWorkflowExecutionStarted":
            job.resolve_child_workflow_execution_start.seq = data["seq"]
            job.resolve_child_workflow_execution_start.succeeded.run_id = data["run_id"]
        case "StartChildWorkflowExecutionFailed":
            _child_not_started(job, event)
        case "ExternalWorkflowExecutionSignaled":
            job.resolve_signal_external_workflow.seq = data["seq"]
        case "SignalExternalWorkflowExecutionFailed":
            job.resolve_signal_external_workflow.seq = data["seq"]
            job.resolve_signal_external_workflow.failure.CopyFrom(failures.unsignaled())
        case kind if kind.startswith("ChildWorkflowExecution"):
            _child_ended(job, event)
        case _:
            return None
    return job


def _child_not_started(job: WorkflowActivationJob, event: Event) -> None:
    child = event.data["child"]
    failed = job.resolve_child_workflow_execution_start.failed
    job.resolve_child_workflow_execution_start.seq = event.data["seq"]
    failed.workflow_id, failed.workflow_type = child.workflow_id, child.kind
    failed.cause = (
        StartChildWorkflowExecutionFailedCause.START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_WORKFLOW_ALREADY_EXISTS
    )


def _child_ended(job: WorkflowActivationJob, event: Event) -> None:
    job.resolve_child_workflow_execution.seq = event.data["seq"]
    result = job.resolve_child_workflow_execution.result
    if event.kind == "ChildWorkflowExecutionCompleted":
        result.completed.SetInParent()
        if event.data["result"] is not None:
            result.completed.result.CopyFrom(event.data["result"])
        return
    failure = failures.of_child(event.data["child"], event.data["failure"])
    if event.kind == "ChildWorkflowExecutionCanceled":
        result.cancelled.failure.CopyFrom(failure)
    else:
        result.failed.failure.CopyFrom(failure)


def _initialize(job: WorkflowActivationJob, execution: Execution) -> None:
    start = job.initialize_workflow
    start.workflow_type, start.workflow_id = execution.kind, execution.workflow_id
    start.arguments.extend(execution.input)
    start.first_execution_run_id = execution.first_run_id
    start.original_execution_run_id = execution.original_run_id
    start.continued_from_execution_run_id = execution.continued_from or ""
    start.attempt = 1
    start.randomness_seed = int(execution.run_id[:8], 16)
    start.start_time.FromDatetime(instant(execution.started_at))
    start.workflow_task_timeout.FromSeconds(10)
    if execution.parent is not None:
        start.parent_workflow_info.workflow_id, start.parent_workflow_info.run_id, _ = execution.parent
        start.parent_workflow_info.namespace = "default"
    memo: dict[str, Payload] = execution.started_memo
    for name, value in memo.items():
        start.memo.fields[name].CopyFrom(value)
