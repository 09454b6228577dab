"""Runs that people and programs ask for: several at once, with another conf, by whom; and by workflows of their own."""

from datetime import UTC, datetime, timedelta

import pytest
from support import Stack, bash, dag, empty, eventually, told
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.dag.manual_runs import read_request
from tidemill.model.dag.records import DateTakenError
from tidemill.model.errors import InvalidInputError, does_not_know
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.states import RunState

DAYS = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]


async def test_a_kind_of_run_that_a_dag_refuses_is_not_made_as_another(here: Stack) -> None:
    await here.tidemill.dags.register(dag("by_hand_alone", [empty("a")], allowed_run_types=["manual"]))
    with pytest.raises(InvalidInputError, match="allowed_run_types"):
        await here.tidemill.runs.trigger("by_hand_alone", TriggerRequest(run_type="asset_materialization"))
    assert await here.tidemill.runs.list("by_hand_alone") == []


def test_only_the_refusal_of_a_field_says_that_a_release_does_not_know_it() -> None:
    for given in ({"dated_later": True}, {"dated_later": True, "confs": {"dated_now": 1}}):
        with pytest.raises(InvalidInputError) as refused:
            read_request(given, "d")
        assert does_not_know(refused.value, "dated_later")
        assert not does_not_know(refused.value, "dated_now")
    assert not does_not_know(InvalidInputError("allowed_run_types = 'manual': run_type is refused"), "run_type")


async def test_several_runs_are_asked_for_in_one_step(here: Stack) -> None:
    await here.tidemill.dags.register(dag("several", [empty("a")], max_active_runs=2))
    made = await here.tidemill.runs.trigger_batch("several", [TriggerRequest(logical_date=day) for day in DAYS])
    assert [run.logical_date for run in made] == DAYS
    also = await here.tidemill.runs.trigger_batch("several", [TriggerRequest(), TriggerRequest()])
    assert len({run.run_id for run in also}) == 2
    for run in [*made, *also]:
        assert (await here.finished("several", run.run_id)).state is RunState.SUCCESS


async def test_of_several_runs_none_is_made_if_one_is_refused(here: Stack) -> None:
    params = {"n": {"value": 1, "schema": {"type": "integer"}}}
    await here.tidemill.dags.register(dag("none", [empty("a")], params=params))
    good, bad = TriggerRequest(logical_date=DAYS[0]), TriggerRequest(logical_date=DAYS[1], conf={"n": "many"})
    with pytest.raises(InvalidInputError, match=r"conf\.n = 'many'"):
        await here.tidemill.runs.trigger_batch("none", [good, bad])
    with pytest.raises(DateTakenError, match=r"twice in this request\. None of the 2 runs was created"):
        await here.tidemill.runs.trigger_batch("none", [good, good])
    assert await here.tidemill.runs.list("none") == []
    await here.tidemill.runs.trigger("none", good)
    other = TriggerRequest(logical_date=DAYS[2])
    with pytest.raises(DateTakenError, match="is taken by run 'manual__"):
        await here.tidemill.runs.trigger_batch("none", [other, good])
    assert len(await here.tidemill.runs.list("none")) == 1


async def test_the_conf_of_a_run_can_be_changed_until_it_begins(here: Stack) -> None:
    params = {"n": {"value": 1, "schema": {"type": "integer"}}}
    await here.tidemill.dags.register(
        dag("changing", [bash("a", "echo {{ params.n }} {{ dag_run.conf }}")], params=params)
    )
    later = TriggerRequest(run_id="mine", run_after=datetime.now(UTC) + timedelta(days=1), conf={"n": 1})
    await here.tidemill.runs.trigger("changing", later)
    changed = await told(here, "runs", "set-conf", "changing", "mine", '{"n": 7}', "--json")
    assert changed["conf"] == {"n": 7}
    with pytest.raises(InvalidInputError, match=r"conf\.n = 'x' does not fit"):
        await here.tidemill.runs.set_conf("changing", "mine", {"n": "x"})
    with pytest.raises(InvalidInputError, match="has no queued run 'yours'"):
        await here.tidemill.runs.set_conf("changing", "yours", {})
    await here.tidemill.dags.pause("changing")
    await here.tidemill.runs.delete("changing", "mine")
    held = await here.tidemill.runs.trigger("changing", TriggerRequest(run_id="held", conf={"n": 2}))
    await here.tidemill.runs.set_conf("changing", held.run_id, {"n": 9})
    await here.tidemill.dags.pause("changing", False)
    details = await here.finished("changing", "held")
    assert details.run.conf == {"n": 9}
    assert here.log_of("changing", "held", "a").strip() == "9 {n: 9}"
    with pytest.raises(InvalidInputError, match="fixed once it has begun"):
        await here.tidemill.runs.set_conf("changing", "held", {"n": 3})


async def test_a_scheduled_run_that_is_queued_gets_another_conf(here: Stack) -> None:
    dates = {"start_date": "2026-01-01T00:00:00Z", "end_date": "2026-01-02T00:00:00Z"}
    gate = here.home.parent / "gate"
    wait = bash("a", f"while [ ! -e {gate} ]; do sleep 0.1; done; echo {{{{ dag_run.conf }}}}")
    spec = dag("by_time", [wait], schedule="@daily", catchup=True, max_active_runs=1, **dates)
    await here.tidemill.dags.register(spec)
    first = "scheduled__2026-01-01T00:00:00+00:00"
    await eventually(
        lambda: here.tidemill.runs.describe("by_time", first), lambda found: found.tasks[0].state == "running"
    )
    await here.tidemill.dags.pause("by_time")  # which would hold a task that has not begun
    gate.touch()
    await here.all_finished("by_time", 1)
    await here.tidemill.runs.clear("by_time", first)  # it is queued, and has begun before
    with pytest.raises(InvalidInputError, match="has no queued run"):
        await here.tidemill.runs.set_conf("by_time", first, {"n": 1})


async def test_too_much_is_refused_before_anything_is_made(here: Stack) -> None:
    await here.tidemill.dags.register(dag("too_much", [empty("a")], is_paused_upon_creation=True))
    with pytest.raises(InvalidInputError, match="Ask for 100 at a time"):
        await here.tidemill.runs.trigger_batch("too_much", [TriggerRequest()] * 101)
    large = [TriggerRequest(run_id=f"r{n}", conf={"text": f"{n}" * 15_000}) for n in range(10, 70)]
    with pytest.raises(InvalidInputError, match=r"may have 200,000\. Ask for fewer runs at a time"):
        await here.tidemill.runs.trigger_batch("too_much", large[:7])
    assert await here.tidemill.runs.list("too_much") == []
    for n in range(0, 30, 6):
        await here.tidemill.runs.trigger_batch("too_much", large[n : n + 6])
    with pytest.raises(InvalidInputError, match="bytes of conf, and may have"):
        await here.tidemill.runs.trigger_batch("too_much", large[30:36])
    assert len(await here.tidemill.runs.list("too_much")) == 30


async def test_a_run_says_who_asked_for_it(here: Stack) -> None:
    await here.tidemill.dags.register(dag("asked", [bash("a", "echo {{ dag_run.triggering_user_name }}")]))
    run = await here.tidemill.runs.trigger("asked", TriggerRequest(triggering_user_name="ada"))
    details = await here.finished("asked", run.run_id)
    assert details.run.triggering_user_name == "ada"
    assert here.log_of("asked", run.run_id, "a").strip() == "ada"
    by_cli = (await told(here, "dags", "trigger", "asked", "--json"))["run_id"]
    assert (await here.finished("asked", by_cli)).run.triggering_user_name
    assert '"triggering_user_name"' not in (await here.tidemill.runs.trigger("asked")).model_dump_json()


@pytest.mark.faults
async def test_now_is_the_services_where_a_clock_is_ahead(here: Stack) -> None:
    """Else the run would wait until the time of that clock."""
    await here.tidemill.dags.register(dag("hasty", [empty("a")]))
    of_the_laptop = datetime.now(UTC) + timedelta(minutes=10)
    run = await here.tidemill.runs.trigger("hasty", TriggerRequest(logical_date=of_the_laptop, dated_now=True))
    assert run.logical_date is not None
    assert run.logical_date < of_the_laptop
    assert (await here.finished("hasty", run.run_id)).state is RunState.SUCCESS


async def test_runs_are_shown_with_their_three_dates(here: Stack) -> None:
    day = DAYS[0]
    await here.tidemill.dags.register(dag("dated", [empty("a")], schedule="@yearly", start_date=day.isoformat()))
    run = await here.tidemill.runs.trigger("dated", TriggerRequest(logical_date=day))
    details = await here.finished("dated", run.run_id)
    assert details.run.data_interval is not None
    shown = await told(here, "runs", "show", "dated", run.run_id)
    text = " ".join(shown.split())
    assert "logical date 2026-01-01 00:00:00Z, data interval 2025-01-01 00:00:00Z to 2026-01-01 00:00:00Z" in text
    assert f"run after {details.run.run_after:%Y-%m-%d %H:%M:%S}Z" in text
    listed = await told(here, "runs", "list", "dated")
    assert "RUN AFTER" in listed


async def test_a_backfill_waits_for_a_run_of_its_range_that_is_under_way(here: Stack) -> None:
    gate = here.home.parent / "gate"
    spec = dag(
        "awaited",
        [bash("a", f"[ {{{{ run_id }}}} != mine ] || while [ ! -e {gate} ]; do sleep 0.2; done")],
        schedule="@daily",
        start_date="2026-01-01T00:00:00Z",
        is_paused_upon_creation=False,
        end_date="2026-01-01T00:00:00Z",
    )
    await here.tidemill.dags.register(spec)
    await here.tidemill.runs.trigger("awaited", TriggerRequest(run_id="mine", logical_date=DAYS[1]))
    await eventually(lambda: here.tidemill.runs.find("awaited", "mine"), lambda found: found.state is RunState.RUNNING)
    asked = BackfillRequest(from_date=DAYS[0], to_date=DAYS[2])
    await here.tidemill.backfills.create("awaited", asked)
    [waiting] = await eventually(
        lambda: here.tidemill.backfills.list("awaited"), lambda found: found[0].finished == found[0].total_dagruns
    )
    assert (waiting.state, waiting.completed_at, waiting.skipped) == ("running", None, 1)
    explained = (await here.tidemill.dags.explain("awaited")).backfills
    assert "waits for mine, which others had made in its range" in explained[0]
    gate.touch()
    [done] = await eventually(lambda: here.tidemill.backfills.list("awaited"), lambda found: found[0].completed_at)
    assert done.state == "completed"
    mine = await here.finished("awaited", "mine")
    assert mine.state is RunState.SUCCESS


async def test_the_progress_of_a_backfill_counts_tasks(here: Stack) -> None:
    tasks = [
        bash("good", "true"),
        bash("bad", "[ {{ ds }} != 2026-01-02 ]"),
        bash("after", "true", "bad"),
    ]
    await here.tidemill.dags.register(
        dag(
            "counted",
            tasks,
            catchup=True,
            schedule="@daily",
            start_date="2026-01-01T00:00:00Z",
            end_date="2026-01-01T00:00:00Z",
        )
    )
    await eventually(lambda: here.tidemill.runs.list("counted"), lambda found: found and found[0].state.finished)
    await here.tidemill.backfills.create("counted", BackfillRequest(from_date=DAYS[0], to_date=DAYS[2]))
    [done] = await eventually(lambda: here.tidemill.backfills.list("counted"), lambda found: found[0].completed_at)
    assert done.tasks is not None
    assert (done.total_dagruns, done.finished, done.pct, done.skipped) == (3, 3, 100.0, 1)
    assert done.tasks.line == (
        "[backfill progress: 100.0%] | total dagruns: 2 | total tasks: 6 | "
        "finished: 6 | succeeded: 4 | skipped: 0 | failed: 2"
    )
    run = next(view for view in await here.tidemill.runs.list("counted") if view.state is RunState.FAILED)
    counted = (await here.tidemill.runs.describe("counted", run.run_id)).progress
    assert (counted.total_tasks, counted.succeeded, counted.failed, counted.pct) == (3, 1, 2, 100.0)
