"""What is shown of a run is the run's own, in whatever list, record or answer it is shown."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support import dag
from tidemill.model.dag.records import TrackedRun
from tidemill.model.dag.state import DagState, RunReport
from tidemill.model.dag.views import run_views
from tidemill.model.run.facts import RunSummary
from tidemill.model.run.identity import RunIdentity, RunType, TriggeredBy, run_workflow_id
from tidemill.model.run.row import RunRow
from tidemill.model.run.state import DagRunState
from tidemill.model.run.views import RunView, run_row
from tidemill.model.states import RunState

NOW = datetime(2026, 1, 2, 3, tzinfo=UTC)
RUN = RunIdentity(
    dag_id="d",
    run_id="r",
    run_type=RunType.ASSET_TRIGGERED,
    triggered_by=TriggeredBy.ASSET,
    run_after=NOW,
    partition_key="eu",
    partition_date=NOW,
    triggering_user_name="ada",
)
SPEC = dag("d", [{"kind": "empty", "task_id": "a"}])


def known_to_its_dag(*, has_ended: bool) -> RunView:
    state = DagState(spec=SPEC, registered_at=NOW)
    tracked = TrackedRun(run=RUN, state=RunState.RUNNING, queued_at=NOW, started_at=NOW)
    state.runs[RUN.key] = tracked
    if has_ended:
        report = RunReport(
            key=RUN.key, state=RunState.SUCCESS, ended_at=NOW + timedelta(hours=1), reason="all are done"
        )
        assert state.finish(report)
    [view] = run_views(state, lambda _, run_id: run_workflow_id("d", run_id))
    return view


def line() -> RunRow:
    row = run_row(DagRunState(run=RUN, spec=SPEC, started_at=NOW), {}, None, NOW)
    return RunRow.model_validate_json(row.model_dump_json())


@pytest.mark.parametrize("shown", [
    known_to_its_dag(has_ended=False), known_to_its_dag(has_ended=True), line(), RunView.of_row(line(), NOW),
    RunView.of(RUN, state=RunState.QUEUED, queued_at=NOW),
])  # fmt: skip
def test_lists_and_records_tell_the_same_facts(shown: Any) -> None:
    assert {name: getattr(shown, name) for name in RUN.shown} == RUN.shown
    assert shown.workflow_id == RUN.workflow_id


def test_a_task_is_told_the_same_of_its_run() -> None:
    told = RunSummary.of(RUN, state=RunState.RUNNING)
    assert {name: getattr(told, name) for name in RUN.shown.keys() - {"triggered_by"}} == {
        name: value for name, value in RUN.shown.items() if name != "triggered_by"
    }


def test_what_a_line_does_not_know_is_not_shown() -> None:
    shown = RunView.of_row(RunRow(dag_id="d", run_id="r"), NOW)
    assert (shown.queued_at, shown.run_after, shown.triggered_by, shown.run_type) == (None, NOW, None, "manual")
