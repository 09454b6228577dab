"""`tidemill replay`: decisions told from history, of runs and DAGs that go on or have ended."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from support import Stack, bash, dag, empty, eventually, stack, told
from tidemill.api.read.replays import Replays
from tidemill.model.errors import InvalidInputError
from tidemill.model.replay.steps import Change, Step
from tidemill.worker.pictures.replay import replayed
from tidemill.worker.service.connection import NotFoundError

TASKS = [bash("a", "true"), bash("b", "false", "a", retries=1, retry_delay=1), bash("c", "true", "b")]


async def test_the_decisions_of_a_run_with_what_was_known(here: Stack) -> None:
    await here.tidemill.dags.register(dag("decided", TASKS))
    run = await here.tidemill.runs.trigger("decided")
    await here.finished("decided", run.run_id)
    steps = await told(here, "replay", "decided", run.run_id, "--json")
    first = steps[0]
    assert first["learned"] == ["begins"]
    assert {c["about"]: c["after"] for c in first["decided"]} == {"a": "queued (try 1)", "b": "none", "c": "none"}
    assert first["waiting"]["b"] == "trigger_rule all_success: a is queued"
    assert first["ordered"] == [f"activity tidemill.bash a/1 on {here.task_queue}"]
    b = [(c["before"], c["after"], c["reason"]) for step in steps for c in step["decided"] if c["about"] == "b"]
    assert b == [
        (None, "none", ""),
        ("none", "queued (try 1)", "a slot is free"),
        ("queued (try 1)", "up_for_retry (try 1)", "BashFailed"),
        ("up_for_retry (try 1)", "queued (try 2)", "a slot is free"),
        ("queued (try 2)", "failed (try 2)", "BashFailed"),
    ]
    retry = next(step for step in steps if any("has fired" in word for word in step["learned"]))
    assert retry["learned"] == ["a timer of 1 s has fired"]
    assert steps[-1]["ordered"] == ["the end"]
    text = await told(here, "replay", "decided", "latest", "--about", "c")
    assert "c none to upstream_failed: trigger_rule all_success: b is failed" in text
    assert "begins" in text


async def test_each_task_that_waits_is_told_of_and_those_that_wait_alike_together(here: Stack) -> None:
    """Tasks whose names begin alike are told apart, and none is left out."""
    tasks = [bash("t", "true"), *(bash(f"t{i}", "true", "t") for i in range(60))]
    await here.tidemill.dags.register(dag("many_wait", tasks, max_active_tasks=3))
    run = await here.tidemill.runs.trigger("many_wait")
    await here.finished("many_wait", run.run_id)
    steps = await replayed(here.tidemill.client, run.workflow_id)
    waited = {about for step in steps for about, why in step.waiting.items() if "max_active_tasks" in why}
    assert len(waited) == 57
    assert steps[0].waiting_by_reason()["trigger_rule all_success: t is queued"] == [f"t{i}" for i in range(60)]
    assert not steps[0].concerns("t6") or "t6" in steps[0].waiting
    text = await told(here, "replay", "many_wait", "latest")
    assert "t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 50 more waits: trigger_rule all_success: t is queued" in text
    only = await told(here, "replay", "many_wait", "latest", "--about", "t59", "--json")
    ordered = [order for step in only for order in step["ordered"] if "activity" in order]
    assert any("t59/1" in order for order in ordered)
    assert len(only) < len(steps)


async def test_the_decisions_of_a_dag(here: Stack) -> None:
    await here.tidemill.dags.register(dag("dag_decided", [empty("a")]))
    run = await here.tidemill.runs.trigger("dag_decided")
    await here.finished("dag_decided", run.run_id)
    await here.tidemill.dags.pause("dag_decided")
    await here.tidemill.dags.describe("dag_decided")
    steps = await replayed(here.tidemill.client, "dag:dag_decided")
    decided = [(c.after, c.reason) for step in steps for c in step.decided if c.about == run.run_id and c.reason]
    assert decided[:2] == [("created", "triggered by client"), ("started", "a slot is free")]
    assert decided[2][0] == "finished"
    assert ["signal pause"] in [list(step.learned) for step in steps]
    trigger = next(step for step in steps if "update trigger_run" in step.learned)
    assert trigger.ordered == (f"activity tidemill.answer_trigger on {here.task_queue}-control",)
    assert any("paused" in step.waiting.get("next run", "") for step in steps)
    with pytest.raises(NotFoundError, match="is past the namespace's retention"):
        await replayed(here.tidemill.client, "run:dag_decided:never")


async def test_a_dag_that_decides_much_at_once_is_told_of_all_of_it(here: Stack) -> None:
    """Its state keeps the last ten decisions; more are made in one step."""
    dates = {"start_date": "2026-01-01T00:00:00Z", "end_date": "2026-01-16T00:00:00Z"}
    await here.tidemill.dags.register(
        dag("much", [empty("a")], schedule="@daily", catchup=True, max_active_runs=16, **dates)
    )
    await here.all_finished("much", 16)
    steps = await replayed(here.tidemill.client, "dag:much")
    kinds = [change.after for step in steps for change in step.decided if change.reason]
    assert [kinds.count(kind) for kind in ("created", "started", "finished")] == [16, 16, 16]


async def test_of_a_run_that_goes_on_the_last_step_is_as_things_are(here: Stack) -> None:
    gate = here.home.parent / "gate"
    tasks = [bash("a", f"while [ ! -e {gate} ]; do sleep 0.1; done"), bash("b", "true", "a"), empty("c")]
    await here.tidemill.dags.register(dag("goes_on", tasks))
    run = await here.tidemill.runs.trigger("goes_on")
    await eventually(
        lambda: here.tidemill.runs.describe("goes_on", run.run_id),
        lambda found: found.progress.succeeded and found.tasks[0].state == "running",
    )
    steps = await replayed(here.tidemill.client, run.workflow_id)
    last = {change.about: change.after for step in steps for change in step.decided}
    assert last == {"a": "queued (try 1)", "b": "none", "c": "success (try 1)"}
    gate.touch()
    await here.finished("goes_on", run.run_id)


async def test_a_run_of_several_executions_is_told_as_one(impatient_server: str, tmp_path: Path) -> None:
    async with stack(impatient_server, tmp_path / "home") as here:
        details = await here.run_once(dag("long", [bash(f"t{i}", "true") for i in range(25)], max_active_tasks=4))
        steps = await replayed(here.tidemill.client, details.run.workflow_id)
        last = await replayed(here.tidemill.client, details.run.workflow_id, max_executions=1)
    executions = list(dict.fromkeys(step.execution for step in steps))
    assert len(executions) > 1
    assert {step.execution for step in last} == {executions[-1]}
    assert last[0].decided == (), "what it begins with was decided before"
    assert all(step.at <= later.at for step, later in pairwise(steps))
    changes = [change for step in steps for change in step.decided]
    for task in details.tasks:
        mine = [change for change in changes if change.about == task.key]
        assert_continuous(mine)
        assert mine[-1].after == "success (try 1)"
    assert any("new execution, since" in word for step in steps for word in step.ordered)
    assert any(word == "goes on in a new execution" for step in steps for word in step.learned)


def assert_continuous(changes: list[Change]) -> None:
    """Each state is left from where the one before had got to."""
    assert changes[0].before is None
    assert [change.before for change in changes[1:]] == [change.after for change in changes[:-1]]


async def test_a_page_tells_the_last_executions_that_are_not_too_long(impatient_server: str, tmp_path: Path) -> None:
    dates = {"start_date": "2026-01-01T00:00:00Z", "end_date": "2026-01-30T00:00:00Z"}
    async with stack(impatient_server, tmp_path / "home") as here:
        await here.tidemill.dags.register(dag("long_ago", [empty("a")], schedule="@daily", catchup=True, **dates))
        await here.all_finished("long_ago", 30)
        assert len({step.execution for step in await replayed(here.tidemill.client, "dag:long_ago")}) > 1

        async def last_and_told() -> tuple[str, set[str]]:
            last = await here.tidemill.client.get_workflow_handle("dag:long_ago").describe()
            # It may write more meanwhile; those before it have more than 40 events each.
            told = await replayed(here.tidemill.client, "dag:long_ago", max_events=last.history_length + 30)
            return str(last.run_id), {step.execution for step in told}

        await eventually(last_and_told, lambda found: found[1] == {found[0]})  # unless it goes on as new in between


async def test_an_execution_whose_code_has_not_begun_has_decided_nothing(here: Stack) -> None:
    """It is there, without a workflow task, for as long as its start is put off, and for an instant without that."""
    await here.tidemill.client.start_workflow(
        "Dag", id="dag:put_off", task_queue=here.task_queue, start_delay=timedelta(hours=1)
    )
    steps = await asyncio.wait_for(replayed(here.tidemill.client, "dag:put_off"), 60)
    assert [step.decided for step in steps] == []
    await here.tidemill.client.get_workflow_handle("dag:put_off").terminate()


def test_a_step_is_about_a_task_and_its_instances() -> None:
    learned = ("activity tidemill.bash load/1 has ended", "a timer of 1 s has fired")
    step = Step(
        at=datetime(2026, 1, 1, tzinfo=UTC), execution="x", event_id=3, learned=learned, waiting={"each[3]": "why"}
    )
    assert [
        about
        for about in ("load", "each", "each[3]", "a", "bash", "tidemill", "loa", "each[4]")
        if step.concerns(about)
    ] == [
        "load",
        "each",
        "each[3]",
    ]


async def test_a_page_waits_for_no_replay_that_takes_long(here: Stack) -> None:
    await here.tidemill.dags.register(dag("for_page", [empty("a")]))
    client, workflow_id, replays = here.tidemill.client, "dag:for_page", Replays()
    assert await replays.of(client, workflow_id)
    with pytest.raises(InvalidInputError, match=r"events or more, too many for a page: use `tidemill replay`"):
        await replayed(client, workflow_id, max_events=2)
    replays.answer_timeout = 0
    with pytest.raises(InvalidInputError, match="takes long to replay"):
        await replays.of(client, workflow_id)
    replays.turn_timeout = 0
    with pytest.raises(InvalidInputError, match="other pages have decisions replayed"):
        await replays.of(client, workflow_id)
    replays.turn_timeout, replays.answer_timeout = 60, 60
    assert await replays.of(client, workflow_id)  # the one that nobody waited for has had its turn to its end
