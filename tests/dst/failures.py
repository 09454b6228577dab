"""Failures as the service and Core write them."""

from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import RetryState, TimeoutType
from temporalio.api.failure.v1 import Failure

from .history import Activity, Child

TIMEOUTS = {
    "StartToClose": TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE,
    "Heartbeat": TimeoutType.TIMEOUT_TYPE_HEARTBEAT,
}


def timed_out(kind: str) -> Failure:
    """What an activity has failed of that was not answered in time."""
    failure = Failure(message="Activity task timed out", source="Server")
    failure.timeout_failure_info.timeout_type = TIMEOUTS[kind]
    return failure


def canceled(details: Payloads | None = None) -> Failure:
    failure = Failure(message="Canceled", source="Server")
    failure.canceled_failure_info.details.CopyFrom(details or Payloads())
    return failure


def terminated() -> Failure:
    failure = Failure(message="Terminated", source="Server")
    failure.terminated_failure_info.SetInParent()
    return failure


def application(message: str, kind: str, *, non_retryable: bool = False) -> Failure:
    failure = Failure(message=message, source="dst")
    failure.application_failure_info.type = kind
    failure.application_failure_info.non_retryable = non_retryable
    return failure


def of_activity(activity: Activity, cause: Failure) -> Failure:
    """*cause* as the workflow hears of it."""
    failure = Failure(message="Activity task failed", cause=cause)
    info = failure.activity_failure_info
    info.scheduled_event_id = activity.scheduled_id
    info.activity_id = activity.activity_id
    info.activity_type.name = activity.kind
    info.retry_state = RetryState.RETRY_STATE_UNSPECIFIED
    return failure


def of_child(child: Child, cause: Failure) -> Failure:
    failure = Failure(message="Child Workflow execution failed", cause=cause)
    info = failure.child_workflow_execution_failure_info
    info.workflow_execution.workflow_id = child.workflow_id
    info.workflow_type.name = child.kind
    return failure


def unsignaled() -> Failure:
    """What a workflow hears whose signal has found nobody."""
    failure = Failure(message="Unable to signal external workflow because it was not found")
    failure.application_failure_info.SetInParent()
    return failure
