"""Backfills, on a real server: every date once, in order, under a limit of their own, beside the schedule."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support import EVERY_DAY, LAST_TICK, Stack, bash, dag, empty, eventually, stack
from tidemill.model.dag.backfill_request import BackfillRequest, ReprocessBehavior
from tidemill.model.dag.backfills import BackfillProgress
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.identity import RunType, TriggerRequest

ONE_TASK = [empty("only")]


def ago(n: int) -> datetime:
    return LAST_TICK - timedelta(days=n)


def request(start: int, end: int, **fields: Any) -> BackfillRequest:
    return BackfillRequest(from_date=ago(start), to_date=ago(end), **fields)


async def done(here: Stack, dag_id: str, backfill_id: str | None, within: float = 120) -> BackfillProgress:
    async def look() -> BackfillProgress:
        return next(p for p in await here.tidemill.backfills.list(dag_id) if p.backfill_id == backfill_id)

    return await eventually(look, lambda progress: progress.completed_at is not None, within)


async def test_a_range_is_run_once_each_in_order(here: Stack) -> None:
    await here.tidemill.dags.register(dag("filled", ONE_TASK, schedule=EVERY_DAY, start_date=ago(1).isoformat()))
    plan = await here.tidemill.backfills.create("filled", request(9, 5, max_active_runs=1))
    assert (plan.total, plan.infos[0].logical_date) == (5, ago(9))
    progress = await done(here, "filled", plan.backfill_id)
    assert (progress.succeeded, progress.skipped, progress.failed) == (5, 0, 0)
    runs = sorted(await here.tidemill.runs.list("filled"), key=lambda run: run.queued_at)
    filled = [run for run in runs if run.run_type is RunType.BACKFILL]
    assert [run.logical_date for run in filled] == [ago(n) for n in (9, 8, 7, 6, 5)]
    assert filled[0].run_id == f"backfill__{ago(8).isoformat()}"
    assert progress.tasks is not None
    assert progress.tasks.line == (
        "[backfill progress: 100.0%] | total dagruns: 5 | total tasks: 5 | "
        "finished: 5 | succeeded: 5 | skipped: 0 | failed: 0"
    )


async def test_backwards_is_newest_first_and_a_dry_run_runs_nothing(here: Stack) -> None:
    await here.tidemill.dags.register(dag("backwards", ONE_TASK, schedule=EVERY_DAY, start_date=ago(1).isoformat()))
    asked = request(9, 6, run_backwards=True, max_active_runs=1)
    dry = await here.tidemill.backfills.create("backwards", asked.model_copy(update={"dry_run": True}))
    assert (dry.backfill_id, [info.logical_date for info in dry.infos]) == (None, [ago(n) for n in (6, 7, 8, 9)])
    assert await here.tidemill.backfills.list("backwards") == []
    plan = await here.tidemill.backfills.create("backwards", asked)
    await done(here, "backwards", plan.backfill_id)
    runs = sorted(await here.tidemill.runs.list("backwards"), key=lambda run: run.queued_at)
    assert [r.logical_date for r in runs if r.run_type is RunType.BACKFILL] == [ago(n) for n in (6, 7, 8, 9)]


@pytest.mark.parametrize(("behavior", "again"), [("none", set()), ("failed", {2}), ("completed", {1, 2, 3})])
async def test_dates_that_have_a_run_are_treated_as_asked(here: Stack, behavior: str, again: set[int]) -> None:
    dag_id = f"again_{behavior}"
    fails = bash("maybe", f"test {{{{ ds }}}} != {ago(2).date()}")
    spec = dag(dag_id, [fails], schedule=EVERY_DAY, start_date=ago(3).isoformat(), catchup=True)
    await here.tidemill.dags.register(spec)
    before = {run.logical_date: run for run in await here.all_finished(dag_id, 3)}
    asked = request(4, 1, reprocess_behavior=ReprocessBehavior(behavior))
    plan = await here.tidemill.backfills.create(dag_id, asked)
    progress = await done(here, dag_id, plan.backfill_id)
    assert (progress.created, progress.skipped) == (1 + len(again), 3 - len(again))
    after = {run.logical_date: run for run in await here.tidemill.runs.list(dag_id)}
    assert len(after) == 4
    for n in (1, 2, 3):
        assert after[ago(n)].run_id == before[ago(n)].run_id
        assert (after[ago(n)].run_type is RunType.BACKFILL) == (n in again)
        assert (after[ago(n)].queued_at > before[ago(n)].queued_at) == (n in again)


async def test_running_again_does_the_work_again(here: Stack, tmp_path: Path) -> None:
    """The second execution of a run takes nothing from what the first one left in its folders."""
    count = tmp_path / "count"
    tasks = [bash("work", f"echo x >> {count}; cat {count}")]
    await here.tidemill.dags.register(dag("worked", tasks, schedule=EVERY_DAY, start_date=ago(1).isoformat()))
    await here.all_finished("worked", 1)
    asked = request(1, 1, reprocess_behavior=ReprocessBehavior.COMPLETED)
    plan = await here.tidemill.backfills.create("worked", asked)
    await done(here, "worked", plan.backfill_id)
    assert count.read_text().split() == ["x", "x"]
    [run] = await here.tidemill.runs.list("worked")
    [work] = (await here.tidemill.runs.describe("worked", run.run_id)).tasks
    assert (work.try_number, [each.try_number for each in work.attempts]) == (2, [1, 2])
    assert here.log_of("worked", run.run_id, "work", 2) != here.log_of("worked", run.run_id, "work", 1)


async def test_a_run_that_runs_again_keeps_its_conf_unless_the_backfill_has_one(here: Stack, tmp_path: Path) -> None:
    """As in Airflow: a load that was asked for with a cursor does not begin at nothing when its date is run again."""
    told = tmp_path / "told"
    echo = bash("work", f"echo '{{{{ dag_run.conf.get('cursor') }}}} {{{{ params.size }}}}' >> {told}")
    daily = dag("keeps_conf", [echo], schedule=EVERY_DAY, start_date=ago(0).isoformat(), params={"size": 1})
    await here.tidemill.dags.register(daily)
    await here.tidemill.runs.trigger("keeps_conf", TriggerRequest(logical_date=ago(1), conf={"cursor": 5, "size": 7}))
    await here.all_finished("keeps_conf", 1)
    for conf in ({}, {}, {"size": 8}, {}):
        asked = request(1, 1, reprocess_behavior=ReprocessBehavior.COMPLETED, conf=conf)
        plan = await here.tidemill.backfills.create("keeps_conf", asked)
        assert (await done(here, "keeps_conf", plan.backfill_id)).succeeded == 1
    assert told.read_text().splitlines() == ["5 7", "5 7", "5 7", "None 8", "None 8"]


async def test_its_limit_is_its_own(here: Stack) -> None:
    """A full DAG does not hold a backfill up, nor a full backfill the DAG."""
    await here.tidemill.dags.register(
        dag("apart", [bash("wait", "sleep 3")], schedule=EVERY_DAY, start_date=ago(1).isoformat(), max_active_runs=1)
    )
    await eventually(lambda: here.tidemill.dags.describe("apart"), lambda view: view.active_runs == 1)
    plan = await here.tidemill.backfills.create("apart", request(9, 5, max_active_runs=2))
    view = await eventually(lambda: here.tidemill.dags.describe("apart"), lambda view: view.active_runs == 3)
    assert view.next_dagrun_note.startswith("limit reached: max_active_runs = 1")
    most = 0
    while (progress := (await here.tidemill.backfills.list("apart"))[0]).completed_at is None:
        most = max(most, progress.running)
        await asyncio.sleep(0.1)
    assert most == 2
    assert plan.total == progress.succeeded == 5


async def test_pausing_resuming_and_cancelling(here: Stack) -> None:
    await here.tidemill.dags.register(
        dag("held", [bash("wait", "sleep 1")], schedule=EVERY_DAY, start_date=ago(1).isoformat())
    )
    plan = await here.tidemill.backfills.create("held", request(30, 10, max_active_runs=2))
    assert plan.backfill_id is not None
    paused = await here.tidemill.backfills.change("held", plan.backfill_id, "pause")
    [progress] = await eventually(lambda: here.tidemill.backfills.list("held"), lambda found: found[0].running == 0)
    await asyncio.sleep(1)
    assert (progress.state, progress.created) == ("paused", paused.created)
    assert (await here.tidemill.backfills.list("held"))[0].created == paused.created
    await here.tidemill.backfills.change("held", plan.backfill_id, "unpause")
    await eventually(lambda: here.tidemill.backfills.list("held"), lambda found: found[0].created > paused.created)
    await here.tidemill.backfills.change("held", plan.backfill_id, "cancel")
    cancelled = await done(here, "held", plan.backfill_id)
    assert cancelled.state == "cancelled"
    assert cancelled.created < plan.total
    with pytest.raises(InvalidInputError, match=r"no such unfinished backfill\. Unfinished are: none"):
        await here.tidemill.backfills.change("held", plan.backfill_id, "pause")


@pytest.mark.parametrize(
    ("schedule", "start", "end", "told"),
    [
        ("@daily", -3, -5, "has no complete interval from"),
        ("@once", 5, 1, "has no periodic schedule"),
        (None, 5, 1, "has no periodic schedule"),
    ],
)
async def test_what_makes_no_sense_is_refused(here: Stack, schedule: str, start: int, end: int, told: str) -> None:
    await here.tidemill.dags.register(dag("refused", ONE_TASK, schedule=schedule, start_date=ago(1).isoformat()))
    with pytest.raises(InvalidInputError, match=told):
        await here.tidemill.backfills.create("refused", request(start, end))


async def test_a_task_that_depends_on_its_past_is_run_forwards_from_the_first_date_on(here: Stack) -> None:
    """Also before the start_date; and the schedule goes on from where it was."""
    spec = dag("dependent", [empty("only", depends_on_past=True)], schedule=EVERY_DAY, start_date=ago(2).isoformat())
    await here.tidemill.dags.register(spec)
    for fields, told in (({"run_backwards": True}, "run_backwards"), ({}, "reprocess_behavior = none")):
        for dry_run in (False, True):
            with pytest.raises(InvalidInputError, match=told):
                await here.tidemill.backfills.create("dependent", request(9, 7, dry_run=dry_run, **fields))
    plan = await here.tidemill.backfills.create("dependent", request(9, 7, reprocess_behavior="failed"))
    assert (await done(here, "dependent", plan.backfill_id)).succeeded == 3
    scheduled = [run for run in await here.tidemill.runs.list("dependent") if run.run_type is RunType.SCHEDULED]
    assert all(run.logical_date is not None and run.logical_date >= ago(2) for run in scheduled)


async def test_of_a_range_that_reaches_into_the_future_what_is_over_is_run(here: Stack) -> None:
    await here.tidemill.dags.register(dag("ahead", ONE_TASK, schedule=EVERY_DAY, start_date=ago(9).isoformat()))
    for run_backwards in (False, True):
        wanted = request(4, -6, run_backwards=run_backwards, dry_run=True)
        plan = await here.tidemill.backfills.create("ahead", wanted)
        ends = [info.data_interval.end for info in plan.infos if info.data_interval is not None]
        assert ends == sorted(ends, reverse=run_backwards)
        assert max(ends) <= LAST_TICK
        assert len(ends) == plan.total


@pytest.mark.parametrize("dry_run", [False, True])
async def test_its_conf_fits_the_params_or_it_is_refused(dry_run: bool, here: Stack) -> None:
    params = {"n": {"value": 5, "schema": {"type": "integer", "minimum": 3}}}
    spec = dag("fitting", ONE_TASK, schedule=EVERY_DAY, start_date=ago(9).isoformat(), params=params)
    await here.tidemill.dags.register(spec)
    with pytest.raises(InvalidInputError, match=r"conf\.n = 1 does not fit its param"):
        await here.tidemill.backfills.create("fitting", request(4, 3, conf={"n": 1}, dry_run=dry_run))
    assert await here.tidemill.backfills.list("fitting") == []
    plan = await here.tidemill.backfills.create("fitting", request(4, 3, conf={"n": 4}, dry_run=dry_run))
    assert plan.total == 2


def test_a_reversed_range_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ValueError, match="is before from_date"):
        request(1, 5)


async def test_backfills_and_the_schedule_make_every_date_once(impatient_server: str, tmp_path: Path) -> None:
    """Two overlapping backfills and a catching-up schedule, through many executions of the DAG's workflow."""
    async with stack(impatient_server, tmp_path / "home") as made:
        spec = dag(
            "busy", ONE_TASK, schedule=EVERY_DAY, start_date=ago(20).isoformat(), catchup=True, max_active_runs=2
        )
        await made.tidemill.dags.register(spec)
        first = await made.tidemill.backfills.create("busy", request(40, 5, max_active_runs=3))
        second = await made.tidemill.backfills.create("busy", request(30, 1, run_backwards=True, max_active_runs=3))
        progress = [await done(made, "busy", plan.backfill_id) for plan in (first, second)]
        await eventually(
            lambda: made.tidemill.dags.describe("busy"), lambda v: v.next_dagrun == LAST_TICK and v.active_runs == 0
        )
        runs = await made.tidemill.runs.list("busy")
        client = made.tidemill.client
        executions = [
            e async for e in client.list_workflows("WorkflowType = 'DagRun' AND WorkflowId STARTS_WITH 'run:busy:'")
        ]
    assert sorted(run.logical_date for run in runs if run.logical_date) == [ago(n) for n in range(40, 0, -1)]
    assert len(executions) == len({execution.id for execution in executions}) == 40
    assert all(p.succeeded + p.skipped == p.total_dagruns for p in progress)


@pytest.mark.thorough
async def test_half_a_million_dates_are_answered_at_once_while_the_dag_goes_on(here: Stack) -> None:
    every_minute = {"kind": "delta_interval", "delta": "PT1M"}
    await here.tidemill.dags.register(
        dag("minutes", [bash("a", "sleep 600")], schedule=every_minute, start_date="2100-01-01T00:00:00Z")
    )
    asked = BackfillRequest(from_date=LAST_TICK - timedelta(minutes=499_999), to_date=LAST_TICK, max_active_runs=2)
    plan = await here.tidemill.backfills.create("minutes", asked)
    assert (plan.counted, len(plan.infos)) == (False, 100)
    await eventually(lambda: here.tidemill.runs.list("minutes"), lambda runs: len(runs) == 2)
    assert await here.tidemill.runs.trigger("minutes", TriggerRequest(run_id="meanwhile"))
    [progress] = await eventually(lambda: here.tidemill.backfills.list("minutes"), lambda found: found[0].counted)
    assert progress.total_dagruns == 500_000
    await here.tidemill.backfills.change("minutes", progress.backfill_id, "cancel")
    for run in await here.tidemill.runs.list("minutes"):
        await here.tidemill.runs.cancel("minutes", run.run_id)
