"""A task in a run: what moving and clearing it changes, and whether it is tried again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support import bash, dag
from tidemill.model.run.deferrals import Deferral
from tidemill.model.run.task_instances import Attempt, Failure, TaskInstance, may_retry, poke_delay, retry_delay
from tidemill.model.states import FINISHED, TRANSITIONS, IllegalTransitionError, TaskState

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("state", [*TaskState])
def test_a_state_is_taken_with_its_reason_where_it_may_follow(state: TaskState) -> None:
    for new in TaskState:
        instance = TaskInstance(task_id="t", state=state, reason="before", retry_at=NOW, wake_at=NOW)
        if new in TRANSITIONS[state]:
            instance.move(new, "because")
            assert (instance.state, instance.reason) == (new, "because")
            waits = None if new in FINISHED else NOW
            assert (instance.retry_at, instance.wake_at) == (waits, waits)
        else:
            with pytest.raises(IllegalTransitionError, match=f"task 't' cannot go from {state} to {new}"):
                instance.move(new)
            assert (instance.state, instance.reason) == (state, "before")


def test_a_reason_does_not_outlive_its_state() -> None:
    instance = TaskInstance(task_id="t", reason="before")
    instance.move(TaskState.SCHEDULED)
    assert instance.reason is None


def test_clearing_forgets_the_result_and_keeps_the_tries() -> None:
    tries = [Attempt(try_number=3, state=TaskState.FAILED, ended_at=NOW)]
    instance = TaskInstance(
        task_id="t",
        map_index=2,
        state=TaskState.FAILED,
        try_number=3,
        queued_at=NOW,
        started_at=NOW,
        ended_at=NOW,
        retry_at=NOW,
        wake_at=NOW,
        waiting_since=NOW,
        pokes=4,
        skips=("x",),
        xcom={"return_value": 1},
        mapped_length=3,
        map_label="two",
        deferral=Deferral.model_construct(),
        attempts=tries,
    )
    instance.clear()
    assert instance == TaskInstance(
        task_id="t", map_index=2, state=TaskState.FAILED, try_number=3, tries_cleared=3, attempts=tries
    )
    assert instance.key == "t[2]"


def test_the_failure_is_that_of_the_last_try() -> None:
    failures = [Failure(error_type="E", message=str(n)) for n in range(2)]
    tries = [Attempt(try_number=n, state=TaskState.FAILED, ended_at=NOW, failure=failures[n]) for n in range(2)]
    assert TaskInstance(task_id="t", attempts=tries).failure == failures[1]
    assert TaskInstance(task_id="t").failure is None


# Another try


def retried(try_number: int, kinds: tuple[str, ...] = (), *, retryable: bool = True, **fields: object) -> bool:
    task = dag("d", [bash("a", "x", retries=2, **fields)]).by_id["a"]
    return may_retry(task, try_number, Failure(error_type="Own", message="m", kinds=kinds, retryable=retryable))


def test_a_task_is_tried_once_more_than_it_has_retries() -> None:
    assert [retried(n) for n in range(1, 5)] == [True, True, False, False]


def test_a_failure_that_says_so_is_final() -> None:
    assert not retried(1, retryable=False)


def test_kinds_of_failures_that_are_final_or_alone_are_tried_again() -> None:
    assert not retried(1, no_retry_on=["Own"])
    assert not retried(1, ("Base",), no_retry_on=["Other", "Base"])
    assert retried(1, ("Base",), no_retry_on=["Other"])
    assert retried(1, retry_only_on=["Own"])
    assert retried(1, ("Base",), retry_only_on=["Base"])
    assert not retried(1, ("Base",), retry_only_on=["Other"])
    assert not retried(3, retry_only_on=["Own"])
    assert not retried(1, ("Base",), retry_only_on=["Own"], no_retry_on=["Base"])


def test_a_delay_of_nothing_does_not_grow() -> None:
    task = dag("d", [bash("a", "x", retries=9, retry_delay=0, retry_exponential_backoff=True)]).by_id["a"]
    assert retry_delay(task, 5, "s") == timedelta()


def test_the_jitter_covers_all_of_its_range() -> None:
    task = dag("d", [bash("a", "x", retries=9, retry_delay=60, retry_exponential_backoff=True)]).by_id["a"]
    fractions = [retry_delay(task, 1, str(n)).total_seconds() / 60 - 1 for n in range(300)]
    assert min(fractions) < 0.05
    assert max(fractions) > 0.95


def test_pokes_do_not_grow_without_bound() -> None:
    sensor = {"kind": "bash_sensor", "task_id": "a", "command": "x", "poke_interval": 0.01}
    task = dag("d", [{**sensor, "exponential_backoff": True}]).by_id["a"]
    assert poke_delay(task, 21) == poke_delay(task, 500) == timedelta(milliseconds=10) * 2**20  # type: ignore[arg-type]
