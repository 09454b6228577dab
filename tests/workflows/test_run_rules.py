"""Rules of a run's tasks, by the workflow that ships, in milliseconds: results, clears of branches, ends of waits."""

from __future__ import annotations

from dst.clock import SECOND
from dst.one_run import OneRun
from support import bash, dag, empty
from tidemill.model.run.messages import Answer
from tidemill.model.run.revisions import ClearRequest
from tidemill.model.run.task_instances import Failure, Outcome

START = {"start_date": "2026-01-01T00:00:00Z"}


def returns(value: object) -> Outcome:
    return Outcome(xcom={"return_value": value, "other": 1})


def test_do_xcom_push_false_keeps_only_what_was_pushed() -> None:
    tasks = [bash("silent", "x", do_xcom_push=False), bash("loud", "x")]
    run = OneRun(dag("d", tasks, **START), {"silent": [returns(7)], "loud": [returns(7)]})
    run.go_on()
    assert run.instances["silent"].xcom == {"other": 1}
    assert run.instances["loud"].xcom == {"return_value": 7, "other": 1}


def test_a_cleared_branch_decides_anew() -> None:
    """What it skipped the first time runs, if it is followed the second time."""
    branch = {"kind": "branch", "task_id": "choose"}
    slow = bash("slow", "x", retries=1, retry_delay=3600)
    tasks = [branch, bash("left", "x", "choose"), bash("right", "x", "choose"), slow]
    long = [Failure(error_type="E", message="", retryable=True), Outcome()]
    spec = dag("d", tasks, **START)
    run = OneRun(spec, {"choose": [returns("left"), returns("right")], "slow": long})
    run.go_on(60 * SECOND)
    assert (run.states["left"], run.states["right"]) == ("success", "skipped")
    assert run.update("clear_tasks", ClearRequest(tasks=("choose",), downstream=True)) is None
    run.go_on(60 * SECOND)
    assert (run.states["left"], run.states["right"]) == ("skipped", "success")


def test_the_end_of_a_wait_tells_the_assets_that_the_task_writes() -> None:
    approval = {"kind": "approval", "task_id": "ask", "outlets": [{"kind": "asset", "name": "lake"}]}
    run = OneRun(dag("d", [approval], **START))
    run.go_on(SECOND)
    assert run.states["ask"] == "awaiting_input"
    assert run.update("respond", Answer(task="ask", chosen=("Approve",), by="ada")) is None
    run.go_on(60 * SECOND)
    [told] = run.signals("asset:lake", "tell")[:1]
    assert (told["source_dag_id"], told["source_task_id"]) == ("d", "ask")


def test_an_empty_task_that_writes_an_asset_tells_it() -> None:
    run = OneRun(dag("d", [empty("a", outlets=[{"kind": "asset", "name": "lake"}])], **START))
    run.go_on(60 * SECOND)
    assert run.signals("asset:lake", "tell")


def test_a_task_has_its_retries_and_no_more() -> None:
    failing = [Failure(error_type="E", message="no")] * 5
    run = OneRun(dag("d", [bash("a", "x", retries=2, retry_delay=10)], **START), {"a": failing})
    run.go_on()
    assert [str(attempt.state) for attempt in run.instances["a"].attempts] == ["up_for_retry", "up_for_retry", "failed"]
