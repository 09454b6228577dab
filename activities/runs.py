"""Looks up how runs ended that could not tell it themselves, such as terminated ones."""

from collections.abc import Sequence
from datetime import UTC, datetime

from temporalio import activity
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from ..model.base import Model
from ..model.dag_state import RunReport
from ..model.states import RunState


class RunsQuestion(Model):
    """Workflow ids of runs by their keys."""

    workflow_ids: dict[str, str]


@activity.defn(name="tidemill.ended_runs")
async def find_ended_runs(question: RunsQuestion) -> Sequence[RunReport]:
    """Reports of those runs that have ended. Asks the server for each one; visibility lags, this does not."""
    client = activity.client()
    reports = []
    for key, workflow_id in question.workflow_ids.items():
        try:
            found = await client.get_workflow_handle(workflow_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            reports.append(_report(key, RunState.FAILED, None, "its workflow is gone from Temporal"))
            continue
        if found.status is WorkflowExecutionStatus.RUNNING:
            continue
        state = RunState.SUCCESS if found.status is WorkflowExecutionStatus.COMPLETED else RunState.FAILED
        status = found.status.name.lower() if found.status is not None else "unknown"
        reports.append(_report(key, state, found.close_time, f"its workflow is {status}"))
    return reports


def _report(key: str, state: RunState, ended_at: datetime | None, reason: str) -> RunReport:
    return RunReport(key=key, state=state, ended_at=ended_at or datetime.now(UTC), reason=reason)
