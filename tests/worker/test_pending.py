"""What is shown of tasks that wait for others, where a worker has taken those up."""

from collections import Counter
from datetime import UTC, datetime

import pytest
from tidemill.model.run.identity import RunIdentity, RunType, TriggeredBy
from tidemill.model.run.progress import progress
from tidemill.model.run.views import RunDetails, TaskView
from tidemill.model.states import RunState, TaskState
from tidemill.worker.client.pending import with_pending

NOW = datetime(2026, 1, 5, tzinfo=UTC)


def view(task_id: str, state: TaskState, why: str = "") -> TaskView:
    return TaskView(
        task_id=task_id, kind="bash", state=state, try_number=1, max_tries=0, upstream=(), queued_at=NOW,
        started_at=None, ended_at=None, retry_at=None, why=why, error=None, attempts=(),
    )  # fmt: skip


@pytest.mark.parametrize(("why", "shown"), [
    ("trigger_rule all_success: download is queued", "trigger_rule all_success: download is queued"),
    ("trigger_rule all_success: load is queued", "trigger_rule all_success: load is running"),
    ("rule: load, x[1], download are queued; a is failed",
     "rule: download is queued; load, x[1] are running; a is failed"),
    ("rule: load and 7 more are queued", "rule: load and 7 more are queued"),
    ("16 tasks of all DAGs are queued or running", "16 tasks of all DAGs are queued or running"),
])  # fmt: skip
def test_whom_a_task_waits_for_is_as_it_is(why: str, shown: str) -> None:
    run = RunIdentity(dag_id="d", run_id="r", run_type=RunType.MANUAL, run_after=NOW, triggered_by=TriggeredBy.CLI)
    tasks = (view("load", TaskState.QUEUED), view("download", TaskState.QUEUED), view("after", TaskState.NONE, why))
    details = RunDetails(run=run, state=RunState.RUNNING, started_at=NOW, progress=progress(Counter()), tasks=tasks)
    running = dict.fromkeys(("load", "x[1]"), (None, NOW, 1))
    found = with_pending(details, running, {}, set(), {})
    assert [task.state for task in found.tasks] == ["running", "queued", "none"]
    assert found.tasks[2].why == shown


def test_the_words_of_others_are_left_as_they_are_and_take_no_time() -> None:
    words = f"{', '.join(map(str, range(20_000)))} is queued"
    run = RunIdentity(dag_id="d", run_id="r", run_type=RunType.MANUAL, run_after=NOW, triggered_by=TriggeredBy.CLI)
    tasks = (view("a", TaskState.FAILED, words), view("b", TaskState.AWAITING_INPUT, words))
    details = RunDetails(run=run, state=RunState.RUNNING, started_at=NOW, progress=progress(Counter()), tasks=tasks)
    found = with_pending(details, {"7": (None, NOW, 1)}, {}, set(), {})
    assert [task.why for task in found.tasks] == [words, words]
