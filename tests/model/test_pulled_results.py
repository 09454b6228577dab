"""`ti.xcom_pull`: of which runs a result is asked for, and what is made of the answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tidemill.model.run.attempts import TaskAttempt
from tidemill.model.run.context_views import DagRunView, TaskInstanceView
from tidemill.model.run.facts import Question, RunSummary
from tidemill.model.run.identity import RunIdentity, RunType, TriggeredBy
from tidemill.model.spec.tasks import EmptyTask
from tidemill.model.states import RunState

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Known:
    """Answers of a worker: runs of another DAG, and what its task `a` has left in them."""

    log_url = ""
    started_at = None

    def __init__(self, hours: dict[int, Any]) -> None:
        self._hours = hours

    def facts(self, question: Question) -> Any:
        if question.about == "runs":
            return [self._run(hour).model_dump(mode="json") for hour in self._hours]
        assert question.about == "xcom"
        hour = int((question.run_id or "").removeprefix("r"))
        found = self._hours.get(hour)
        return {} if found is None else found if isinstance(found, dict) else {"-1": found}

    def _run(self, hour: int) -> RunSummary:
        at = NOON + timedelta(hours=hour)
        return RunSummary(
            run_id=f"r{hour}", run_type="scheduled", state=RunState.SUCCESS, logical_date=at, run_after=at
        )


def pulled(hours: dict[int, Any], **options: Any) -> Any:
    run = RunIdentity(
        dag_id="mine", run_id="r99", run_type=RunType.MANUAL, triggered_by=TriggeredBy.CLI, run_after=NOON,
        logical_date=NOON,
    )  # fmt: skip
    attempt = TaskAttempt(run=run, task=EmptyTask(task_id="t"), try_number=1, execution="e")
    facts: Any = Known(hours)
    view = TaskInstanceView(attempt, facts, DagRunView("mine", RunSummary.of(run, state=RunState.RUNNING), facts))
    return view.xcom_pull(task_ids="a", default="none", **options)


@pytest.mark.parametrize(("hours", "options", "value"), [
    ({0: "same", -1: "before"}, {}, "same"),
    ({-1: "before"}, {}, "none"),
    ({-2: "earlier", -1: "before", 1: "later"}, {"include_prior_dates": True}, "before"),
    ({-2: "earlier", -1: None}, {"include_prior_dates": True}, "earlier"),
    ({1: "later"}, {"include_prior_dates": True}, "none"),
    ({99: "of that name", 0: "same"}, {}, "of that name"),
    ({-1: "before"}, {"run_id": "r-1"}, "before"),
    ({0: {"0": 1, "2": 3}}, {}, [1, 3]),
    ({0: {"0": 1, "2": 3}}, {"map_indexes": [2, 1]}, [3, "none"]),
    ({0: 0}, {}, 0),
    ({0: ""}, {}, ""),
])  # fmt: skip
def test_results_of_another_dag(hours: dict[int, Any], options: dict[str, Any], value: object) -> None:
    assert pulled(hours, dag_id="other", **options) == value
