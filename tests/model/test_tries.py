"""The tries of a task, as every view shows them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tidemill.model.run.task_instances import Attempt
from tidemill.model.run.views import TaskView
from tidemill.model.states import TaskState

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
FAILED = Attempt(
    try_number=1, state=TaskState.UP_FOR_RETRY, started_at=NOON, ended_at=NOON + timedelta(minutes=1)
)  # fmt: skip
LAST = Attempt(try_number=2, state=TaskState.FAILED, started_at=NOON + timedelta(minutes=3), ended_at=NOON)


def view(state: TaskState, try_number: int, *attempts: Attempt, **times: Any) -> TaskView:
    found: dict[str, Any] = {"queued_at": None, "started_at": None, "ended_at": None, **times}
    return TaskView(
        task_id="a", kind="bash", state=state, try_number=try_number, max_tries=1, upstream=(), retry_at=None, why="",
        error=None, attempts=attempts, **found,
    )  # fmt: skip


@pytest.mark.parametrize(("shown", "found"), [
    (view(TaskState.NONE, 0), []),
    (view(TaskState.UP_FOR_RETRY, 1, FAILED), [(1, "up_for_retry")]),
    (view(TaskState.RUNNING, 2, FAILED), [(1, "up_for_retry"), (2, "running")]),
    (view(TaskState.FAILED, 2, FAILED, LAST), [(1, "up_for_retry"), (2, "failed")]),
    (view(TaskState.SUCCESS, 2, FAILED, LAST), [(1, "up_for_retry"), (2, "success")]),
    (view(TaskState.NONE, 2, FAILED, LAST), [(1, "up_for_retry"), (2, "failed")]),
    (view(TaskState.SKIPPED, 2, FAILED), [(1, "up_for_retry"), (2, "skipped")]),
], ids=["none", "retry", "running", "failed", "marked", "cleared", "a wait was ended"])  # fmt: skip
def test_the_last_try_is_as_its_task(shown: TaskView, found: list[tuple[int, str]]) -> None:
    assert [(one.try_number, one.state) for one in shown.tries] == found


def test_of_the_last_try_it_is_known_since_when_it_was_queued() -> None:
    queued_at = NOON + timedelta(minutes=2)
    shown = view(TaskState.FAILED, 2, FAILED, LAST, queued_at=queued_at, started_at=LAST.started_at)
    assert [one.queued_at for one in shown.tries] == [NOON, queued_at]
    waits = view(TaskState.RUNNING, 1, queued_at=NOON + timedelta(hours=1), started_at=NOON)
    assert [one.queued_at for one in waits.tries] == [NOON], "it was queued again when it went on"
