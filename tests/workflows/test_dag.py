"""A DAG over its life, on a real server: when runs are made, how many, and that none is made twice."""

import asyncio
import subprocess
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support import EVERY_DAY, LAST_TICK, Stack, at, bash, dag, empty, eventually, stack, told
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.dag.views import Change, DagView
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.identity import RunType, TriggerRequest
from tidemill.model.run.views import RunView
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.model.spec.timetables import DataInterval
from tidemill.model.states import RunState
from tidemill.worker.app.dev import temporal_binary

ONE_TASK = [empty("only")]


def days_ago(n: int) -> str:
    return (LAST_TICK - timedelta(days=n)).isoformat()


def dates(runs: list[RunView]) -> list[datetime | None]:
    return [run.logical_date for run in runs]


def overlapping(runs: list[RunView]) -> int:
    """The most runs that were under way at one instant."""
    moments = [(run.started_at, 1) for run in runs] + [(run.ended_at, -1) for run in runs]
    level, most = 0, 0
    for _, step in sorted(((when, step) for when, step in moments if when), key=lambda m: (m[0], m[1])):
        level += step
        most = max(most, level)
    return most


async def test_catchup_makes_every_missed_run_once_in_order(here: Stack) -> None:
    spec = dag("daily", ONE_TASK, schedule=EVERY_DAY, start_date=days_ago(10), catchup=True, max_active_runs=3)
    await here.tidemill.dags.register(spec)
    runs = await here.all_finished("daily", 10)
    assert dates(runs) == [LAST_TICK - timedelta(days=n) for n in range(10, 0, -1)]
    assert next(run.run_id for run in runs) == f"scheduled__{days_ago(10)}"
    assert sorted(runs, key=lambda run: run.queued_at) == runs
    assert overlapping(runs) <= 3
    view = await here.tidemill.dags.describe("daily")
    assert (view.next_dagrun, view.next_dagrun_create_after) == (LAST_TICK, LAST_TICK + timedelta(days=1))


async def test_without_catchup_only_the_latest_interval_runs(here: Stack) -> None:
    await here.tidemill.dags.register(dag("latest", ONE_TASK, schedule=EVERY_DAY, start_date=days_ago(10)))
    assert dates(await here.all_finished("latest", 1)) == [LAST_TICK - timedelta(days=1)]


async def test_runs_are_made_when_they_fall_due(here: Stack) -> None:
    """Every two seconds, each within a moment after its interval's end and never before."""
    await here.tidemill.dags.register(dag("often", ONE_TASK, schedule="* * * * * */2"))
    runs = await eventually(lambda: here.tidemill.runs.list("often"), lambda found: len(found) >= 4)
    for run in runs:
        assert run.queued_at >= run.run_after
    found = sorted(run.run_after for run in runs[:-1])  # the first was already due when the DAG was registered
    assert all(b - a == timedelta(seconds=2) for a, b in pairwise(found))


async def test_the_schedule_ends_at_end_date(here: Stack) -> None:
    spec = dag("ended", ONE_TASK, schedule=EVERY_DAY, start_date=days_ago(9), end_date=days_ago(7), catchup=True)
    await here.tidemill.dags.register(spec)
    runs = await here.all_finished("ended", 3)
    assert dates(runs) == [LAST_TICK - timedelta(days=n) for n in (9, 8, 7)]
    view = await here.tidemill.dags.describe("ended")
    assert view.next_dagrun is None
    assert view.next_dagrun_note.startswith("no more runs: the schedule has ended, at end_date")


async def test_once_runs_once_in_the_dags_life(here: Stack) -> None:
    spec = dag("single", ONE_TASK, schedule="@once", start_date=days_ago(3))
    await here.tidemill.dags.register(spec)
    await here.all_finished("single", 1)
    await here.tidemill.dags.register(
        dag("single", [*ONE_TASK, empty("more")], schedule="@once", start_date=days_ago(3))
    )
    await here.tidemill.dags.pause("single")
    await here.tidemill.dags.pause("single", False)
    await asyncio.sleep(1)
    assert len(await here.tidemill.runs.list("single")) == 1


async def test_a_dag_without_a_schedule_waits_for_triggers(here: Stack) -> None:
    await here.tidemill.dags.register(dag("manual", ONE_TASK))
    view = await here.tidemill.dags.describe("manual")
    assert (view.next_dagrun, view.next_dagrun_create_after, view.next_dagrun_data_interval) == (None, None, None)
    assert view.next_dagrun_note == "no schedule: runs are made by triggers only"
    run = await here.tidemill.runs.trigger("manual", TriggerRequest(conf={"x": 1}))
    assert run.run_id.startswith("manual__")
    assert (await here.finished("manual", run.run_id)).run.conf == {"x": 1}


async def test_the_limit_holds_and_is_told_apart_from_the_end(here: Stack) -> None:
    tasks = [bash("wait", "sleep 2")]
    spec = dag("limited", tasks, schedule=EVERY_DAY, start_date=days_ago(5), catchup=True, max_active_runs=2)
    await here.tidemill.dags.register(spec)
    view = await eventually(lambda: here.tidemill.dags.describe("limited"), lambda found: found.active_runs == 2)
    assert view.next_dagrun_note.startswith("limit reached: max_active_runs = 2, held by scheduled__")
    assert view.next_dagrun == LAST_TICK - timedelta(days=3)
    assert overlapping(await here.all_finished("limited", 5)) == 2


async def test_a_terminated_run_frees_its_slot(here: Stack) -> None:
    """Such a run can tell nobody that it ended."""
    await here.tidemill.dags.register(dag("terminated", [bash("wait", "sleep 60")], max_active_runs=1))
    first = await here.tidemill.runs.trigger("terminated")
    second = await here.tidemill.runs.trigger("terminated")
    await eventually(
        lambda: here.tidemill.dags.describe("terminated"), lambda v: (v.active_runs, v.queued_runs) == (1, 1)
    )
    await here.tidemill.client.get_workflow_handle(first.workflow_id).terminate("by hand")
    await eventually(
        lambda: here.tidemill.runs.find("terminated", second.run_id), lambda run: run.state is RunState.RUNNING
    )
    assert (await here.tidemill.runs.find("terminated", first.run_id)).state is RunState.FAILED


async def test_a_run_that_is_reset_keeps_its_slot_until_it_ends(here: Stack, tmp_path: Path) -> None:
    """`temporal workflow reset`: the run's workflow ends and goes on as another execution, under the same limit."""
    go = tmp_path / "go"
    tasks = [bash("work", f"while ! test -e {go}; do sleep 0.1; done")]
    await here.tidemill.dags.register(dag("reset", tasks, max_active_runs=1))
    first = await here.tidemill.runs.trigger("reset")
    second = await here.tidemill.runs.trigger("reset")
    await eventually(lambda: here.tidemill.runs.find("reset", first.run_id), lambda run: run.state is RunState.RUNNING)
    handle = here.tidemill.client.get_workflow_handle(first.workflow_id)
    before = (await handle.describe()).run_id
    command = [temporal_binary(), "workflow", "reset", "--workflow-id", first.workflow_id, "--address", here.address]
    command += ["--type", "FirstWorkflowTask", "--reason", "by hand"]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    assert (await handle.describe()).run_id != before
    await asyncio.sleep(3)
    assert (await here.tidemill.runs.find("reset", first.run_id)).state is RunState.RUNNING
    assert (await here.tidemill.runs.find("reset", second.run_id)).state is RunState.QUEUED
    go.touch()
    runs = await here.all_finished("reset", 2)
    assert [run.state for run in runs] == [RunState.SUCCESS, RunState.SUCCESS]


async def test_a_run_terminated_after_continue_as_new_frees_its_slot(impatient_server: str, tmp_path: Path) -> None:
    """The execution that started it is over, and so is its handle: only asking finds out."""
    async with stack(impatient_server, tmp_path / "home") as made:
        await made.tidemill.dags.register(dag("carried", [bash("wait", "sleep 60")], max_active_runs=1))
        first = await made.tidemill.runs.trigger("carried")
        await eventually(lambda: made.tidemill.runs.find("carried", first.run_id), lambda r: r.state == "running")
        handle = made.tidemill.client.get_workflow_handle("dag:carried")
        before = (await handle.describe()).run_id

        async def nudge() -> str | None:
            await made.tidemill.dags.pause("carried")
            await made.tidemill.dags.pause("carried", False)
            return (await handle.describe()).run_id

        await eventually(nudge, lambda run_id: run_id != before)
        second = await made.tidemill.runs.trigger("carried")
        await made.tidemill.client.get_workflow_handle(first.workflow_id).terminate("by hand")
        await eventually(lambda: made.tidemill.runs.find("carried", second.run_id), lambda r: r.state == "running")


# Not 0: the SDK then drops a workflow while its local activity runs (sdk-rust#1304), and tries the task again.
@pytest.mark.parametrize("cached", [1, pytest.param(100, marks=pytest.mark.thorough)])
async def test_a_dag_that_goes_on_as_new_loses_and_doubles_nothing(
    impatient_server: str, tmp_path: Path, cached: int
) -> None:
    """Dozens of runs, triggers among them, through many executions of the DAG's workflow."""
    async with stack(impatient_server, tmp_path / "home", cached=cached) as made:
        spec = dag("eternal", ONE_TASK, schedule=EVERY_DAY, start_date=days_ago(30), catchup=True, max_active_runs=4)
        await made.tidemill.dags.register(spec)
        handle = made.tidemill.client.get_workflow_handle("dag:eternal")
        for n in range(20):
            await handle.signal("trigger", {"run_id": f"extra{n}"})
        runs = await made.all_finished("eternal", 50)
        scheduled = [run for run in runs if run.run_type is RunType.SCHEDULED]
        assert dates(scheduled) == [LAST_TICK - timedelta(days=n) for n in range(30, 0, -1)]
        assert {run.run_id for run in runs} - {run.run_id for run in scheduled} == {f"extra{n}" for n in range(20)}
        assert overlapping(runs) <= 4
        executions = [e async for e in made.tidemill.client.list_workflows("WorkflowId = 'dag:eternal'")]
    assert len(executions) > 3


async def test_nothing_is_made_while_paused(here: Stack) -> None:
    spec = dag("paused", ONE_TASK, schedule="* * * * * *", is_paused_upon_creation=True)
    await here.tidemill.dags.register(spec)
    run = await here.tidemill.runs.trigger("paused")
    await asyncio.sleep(2)
    assert [(r.run_id, r.state) for r in await here.tidemill.runs.list("paused")] == [(run.run_id, RunState.QUEUED)]
    view = await here.tidemill.dags.describe("paused")
    assert view.next_dagrun_note == "paused: no run is created until it is unpaused"
    await here.tidemill.dags.pause("paused", False)
    await here.finished("paused", run.run_id)
    await eventually(lambda: here.tidemill.runs.list("paused"), lambda found: len(found) >= 3)


async def test_one_date_has_one_run_and_the_loser_is_told_who_has_it(here: Stack) -> None:
    await here.tidemill.dags.register(dag("unique", ONE_TASK, schedule=EVERY_DAY, start_date=days_ago(2), catchup=True))
    await here.all_finished("unique", 2)
    with pytest.raises(InvalidInputError, match=f"is taken by run 'scheduled__{days_ago(1)}'".replace("+", r"\+")):
        await here.tidemill.runs.trigger("unique", TriggerRequest(logical_date=LAST_TICK - timedelta(days=1)))
    await here.tidemill.runs.trigger("unique", TriggerRequest(run_id="mine"))
    with pytest.raises(InvalidInputError, match="run_id is taken by run 'mine'"):
        await here.tidemill.runs.trigger("unique", TriggerRequest(run_id="mine"))


async def test_a_manual_run_takes_the_schedules_date_and_that_is_said(here: Stack) -> None:
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=12)
    # It ends, for a DAG shows its last decisions only.
    dates = {"start_date": soon.isoformat(), "end_date": (soon + timedelta(seconds=1)).isoformat()}
    spec = dag("taken", ONE_TASK, schedule="* * * * * *", catchup=True, **dates)
    await here.tidemill.dags.register(spec)
    await here.tidemill.runs.trigger("taken", TriggerRequest(run_id="first", logical_date=soon))
    view = await eventually(
        lambda: here.tidemill.dags.describe("taken"), lambda v: any(d.kind == "skipped" for d in v.decisions)
    )
    told = next(d.reason for d in view.decisions if d.kind == "skipped")
    assert told == "its date is taken by first, so the tick counts as done"
    runs = await here.tidemill.runs.list("taken")
    assert [run.run_id for run in runs if run.logical_date == soon] == ["first"]


async def test_a_run_for_the_future_waits_for_its_time(here: Stack) -> None:
    await here.tidemill.dags.register(dag("later", ONE_TASK))
    due = datetime.now(UTC) + timedelta(seconds=3)
    run = await here.tidemill.runs.trigger("later", TriggerRequest(run_after=due))
    assert (await here.tidemill.runs.find("later", run.run_id)).state is RunState.QUEUED
    details = await here.finished("later", run.run_id)
    assert details.started_at is not None
    assert details.started_at >= due


async def test_a_run_about_the_future_starts_at_once_only_where_the_dag_allows_it(here: Stack) -> None:
    """allow_trigger_in_future, of a DAG without a schedule: the data's date may lie ahead. With a schedule it waits."""
    future = TriggerRequest(logical_date=datetime.now(UTC) + timedelta(days=30))
    await here.tidemill.dags.register(dag("ahead", ONE_TASK, allow_trigger_in_future=True))
    run = await here.tidemill.runs.trigger("ahead", future)
    assert (await here.finished("ahead", run.run_id)).state == "success"
    await here.tidemill.dags.register(dag("in_time", ONE_TASK, allow_trigger_in_future=True, schedule="@yearly"))
    run = await here.tidemill.runs.trigger("in_time", future)
    assert (await here.tidemill.runs.find("in_time", run.run_id)).state == "queued"
    assert f"it waits for {future.logical_date:%Y-%m-%d}" in (await here.tidemill.dags.explain("in_time")).queued[0]


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"config": {}}, "config = {}: no such field. Did you mean 'conf'?"),
        ({"logical_date": "2024-01-01T00:00:00"}, "logical_date: 2024-01-01T00:00:00 has no time zone"),
        ({"run_id": "scheduled__x"}, "run_id 'scheduled__x' looks like a scheduled run's"),
        ({"conf": {"n": "many"}}, "conf.n = 'many' does not fit its param: 'many' is not of type 'integer'"),
        ("nonsense", "trigger of DAG 'asked'"),
    ],
)
async def test_a_bad_trigger_is_refused_where_someone_waits_and_kept_where_nobody_does(
    here: Stack, request_: Any, told: str
) -> None:
    params = {"n": {"value": 1, "schema": {"type": "integer"}}}
    await here.tidemill.dags.register(dag("asked", ONE_TASK, params=params))
    handle = here.tidemill.client.get_workflow_handle("dag:asked")
    await handle.signal("trigger", request_)
    view = await eventually(lambda: here.tidemill.dags.describe("asked"), lambda v: bool(v.decisions))
    assert view.decisions[-1].kind == "refused"
    assert told in view.decisions[-1].reason
    assert await here.tidemill.runs.list("asked") == []
    run = await here.tidemill.runs.trigger("asked")
    await here.finished("asked", run.run_id)


async def test_registering_anew_changes_the_schedule_at_once_and_without_overlap(here: Stack) -> None:
    """From daily to hourly: the first hour is the one after the last day."""
    old = dag("changing", ONE_TASK, schedule=EVERY_DAY, start_date=days_ago(3), catchup=True)
    assert (await here.tidemill.dags.register(old)).change is Change.CREATED
    assert (await here.tidemill.dags.register(old)).change is Change.UNCHANGED
    await here.all_finished("changing", 3)
    new = dag("changing", ONE_TASK, schedule="@hourly", start_date=days_ago(3), catchup=True)
    assert (await here.tidemill.dags.register(new)).change is Change.CHANGED
    view: DagView = await eventually(
        lambda: here.tidemill.dags.describe("changing"),
        lambda v: v.version == new.version and v.next_dagrun is not None,
    )
    assert view.next_dagrun_data_interval is not None
    length = view.next_dagrun_data_interval.end - view.next_dagrun_data_interval.start
    assert length == timedelta(hours=1)
    runs = await here.tidemill.runs.list("changing")
    assert all(run.logical_date is not None and run.logical_date >= LAST_TICK for run in runs[:-3])


async def test_runs_keep_the_version_that_they_were_made_with(here: Stack) -> None:
    await here.tidemill.dags.register(dag("pinned", [bash("slow", "sleep 3"), empty("old", "slow")]))
    run = await here.tidemill.runs.trigger("pinned")
    await here.tidemill.dags.register(dag("pinned", [empty("new")]))
    assert {task.task_id for task in (await here.finished("pinned", run.run_id)).tasks} == {"slow", "old"}
    again = await here.tidemill.runs.trigger("pinned")
    assert {task.task_id for task in (await here.finished("pinned", again.run_id)).tasks} == {"new"}


async def test_a_timetable_that_has_raised_is_asked_again(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it reads was not there for a while; nobody has to register the DAG again."""
    monkeypatch.setattr("tidemill.workflows.dag.workflow.ASK_AGAIN_FIRST", timedelta(seconds=1))
    (tmp_path / "reads_a_file.py").write_text(
        "from pathlib import Path\n"
        "from tidemill import CronTrigger\n"
        "class Timetable:\n"
        "    def next_dagrun_info(self, last, restriction, now):\n"
        "        Path(__file__).with_name('holidays').read_text()\n"
        "        return CronTrigger(expression='@daily').next_dagrun_info(last, restriction, now)\n"
    )
    schedule = {"kind": "custom", "name": "reads_a_file:Timetable"}
    source = {"path": str(tmp_path / "dag.py"), "sha256": "0" * 64}
    dates = {"start_date": "2024-01-01T00:00:00Z", "end_date": "2024-01-02T00:00:00Z", "catchup": True}
    spec = DagSpec.model_validate({"dag_id": "reads", "schedule": schedule, "source": source, **dates})
    async with stack(server, tmp_path / "home") as here:  # replayed under the same patience
        await here.tidemill.dags.register(spec)
        view = await eventually(lambda: here.tidemill.dags.describe("reads"), lambda v: v.broken is not None)
        assert "FileNotFoundError" in str(view.broken)
        (tmp_path / "holidays").touch()
        await here.all_finished("reads", 2)
        assert (await here.tidemill.dags.describe("reads")).broken is None


@pytest.mark.thorough
async def test_a_timetable_of_ones_own_answers_every_question(here: Stack, tmp_path: Path) -> None:
    """With arguments, beside the DAG file: the schedule's runs, a manual run's interval, a backfill, a preview."""
    (tmp_path / "every_nth_day.py").write_text(
        "from datetime import timedelta\n"
        "from tidemill.model.spec.timetables import DagRunInfo, DataInterval\n"
        "class EveryNthDay:\n"
        "    def __init__(self, n):\n"
        "        self.step = timedelta(days=n)\n"
        "    def next_dagrun_info(self, last, restriction, now):\n"
        "        start = last.end if last is not None else restriction.earliest\n"
        "        if restriction.latest is not None and start > restriction.latest:\n"
        "            return None\n"
        "        return DagRunInfo.interval(start, start + self.step)\n"
        "    def manual_interval(self, run_after):\n"
        "        return DataInterval(start=run_after - 2 * self.step, end=run_after)\n"
    )
    spec = {
        "dag_id": "own_timetable",
        "schedule": {"kind": "custom", "name": "every_nth_day:EveryNthDay", "arguments": {"n": 3}},
        "source": {"path": str(tmp_path / "dag.py"), "sha256": "0" * 64},
        "start_date": "2024-01-10T00:00:00Z",
        "end_date": "2024-01-13T00:00:00Z",
        "catchup": True,
        "tasks": [{"kind": "empty", "task_id": "a"}],
    }
    await here.tidemill.dags.register(read_dag(spec))
    runs = await here.all_finished("own_timetable", 2)
    assert [run.logical_date for run in runs] == [at("2024-01-10"), at("2024-01-13")]
    manual = await here.tidemill.runs.trigger("own_timetable", TriggerRequest(logical_date=at("2024-03-07")))
    assert manual.data_interval == DataInterval(start=at("2024-03-01"), end=at("2024-03-07"))
    asked = BackfillRequest(from_date=at("2024-01-01"), to_date=at("2024-01-08"))
    plan = await here.tidemill.backfills.create("own_timetable", asked)
    assert [info.logical_date for info in plan.infos] == [at("2024-01-01"), at("2024-01-04"), at("2024-01-07")]
    runs = await here.all_finished("own_timetable", 6)
    assert sum(run.run_type == "backfill" for run in runs) == 3
    (tmp_path / "dag.py").write_text(
        "from datetime import datetime\n"
        "from tidemill import DAG, EmptyOperator\n"
        "own = {'kind': 'custom', 'name': 'every_nth_day:EveryNthDay', 'arguments': {'n': 5}}\n"
        "with DAG('previewed', schedule=own, start_date=datetime(2024, 1, 1), catchup=True):\n"
        "    EmptyOperator(task_id='a')\n"
    )
    preview = await told(here, "dags", "preview", str(tmp_path / "dag.py"), "-n", "2", "--json")
    assert [info["logical_date"] for info in preview["previewed"]] == ["2024-01-01T00:00:00Z", "2024-01-06T00:00:00Z"]


async def test_a_timetable_that_does_not_answer_is_ended_and_shown(
    here: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.activities.timetables.ANSWER_TIMEOUT_SECONDS", 1)
    (tmp_path / "sleeps.py").write_text(
        "import time\n"
        "class Timetable:\n"
        "    def next_dagrun_info(self, last, restriction, now):\n"
        "        time.sleep(4733)\n"
    )
    source = {"path": str(tmp_path / "dag.py"), "sha256": "0" * 64}
    spec = {"dag_id": "hangs", "schedule": {"kind": "custom", "name": "sleeps:Timetable"}, "source": source}
    await here.tidemill.dags.register(DagSpec.model_validate(spec))
    view = await eventually(lambda: here.tidemill.dags.describe("hangs"), lambda v: v.broken is not None)
    assert view.broken == "timetable: the timetable did not answer within 1 s"


async def test_a_dag_whose_timetable_raises_is_broken_and_mends(here: Stack) -> None:
    """Broken is a state that can be seen, not a workflow that is tried again for ever."""
    broken = DagSpec.model_validate(
        {"dag_id": "broken", "schedule": {"kind": "custom", "name": "nowhere.at_all:Timetable"}}
    )
    await here.tidemill.dags.register(broken)
    view = await eventually(lambda: here.tidemill.dags.describe("broken"), lambda v: v.broken is not None)
    assert view.broken == "timetable: ModuleNotFoundError: No module named 'nowhere'"
    await here.tidemill.dags.register(dag("broken", ONE_TASK, schedule=EVERY_DAY, start_date=days_ago(1), catchup=True))
    await here.all_finished("broken", 1)


async def test_two_triggers_at_one_instant_are_two_runs(here: Stack) -> None:
    await here.tidemill.dags.register(dag("twins", ONE_TASK))
    due = datetime.now(UTC) + timedelta(seconds=1)
    runs = [await here.tidemill.runs.trigger("twins", TriggerRequest(run_after=due)) for _ in range(3)]
    name = f"manual__{due.isoformat()}"
    assert [run.run_id for run in runs] == [name, f"{name}_2", f"{name}_3"]
    await here.all_finished("twins", 3)


async def test_two_dates_triggered_at_one_instant_are_two_runs(here: Stack) -> None:
    """Both would be called by the instant: the second one gets a number behind its name."""
    await here.tidemill.dags.register(dag("twin_dates", ONE_TASK))
    due = datetime.now(UTC) + timedelta(seconds=1)
    dates = [at("2024-01-01"), at("2024-01-02")]
    asked = [TriggerRequest(run_after=due, logical_date=date) for date in dates]
    runs = await asyncio.gather(*(here.tidemill.runs.trigger("twin_dates", request) for request in asked))
    name = f"manual__{due.isoformat()}"
    assert {run.run_id for run in runs} == {name, f"{name}_2"}
    ended = await here.all_finished("twin_dates", 2)
    assert [run.logical_date for run in ended] == dates
    with pytest.raises(InvalidInputError, match=r"logical_date 2024-01-01T00:00:00.* is taken by run"):
        await here.tidemill.runs.trigger("twin_dates", asked[0])


async def test_busy_workers_do_not_hold_up_schedules(server: str, tmp_path: Path) -> None:
    """Every slot for tasks is taken; another DAG is registered, triggered and planned all the same."""
    async with stack(server, tmp_path / "home", max_concurrent_activities=1) as made:
        await made.tidemill.dags.register(dag("hog", [bash("wait", "sleep 60")]))
        hog = await made.tidemill.runs.trigger("hog")
        await eventually(
            lambda: made.tidemill.runs.describe("hog", hog.run_id), lambda d: d.tasks[0].state == "running"
        )
        await made.tidemill.dags.register(
            dag("nimble", ONE_TASK, schedule=EVERY_DAY, start_date=days_ago(3), catchup=True)
        )
        await made.tidemill.runs.trigger("nimble", TriggerRequest(logical_date=LAST_TICK + timedelta(hours=-1)))
        await made.all_finished("nimble", 4)


@pytest.mark.thorough
async def test_hundreds_of_runs_are_caught_up_while_being_asked_about(server: str, tmp_path: Path) -> None:
    """Asked about all the while. Replayed at the end, like every workflow here."""
    async with stack(server, tmp_path / "home") as made:
        start = LAST_TICK - timedelta(minutes=250)
        schedule = {"kind": "delta_interval", "delta": 60}
        ends = (start + timedelta(minutes=249)).isoformat()
        fields = {"schedule": schedule, "start_date": start.isoformat(), "end_date": ends, "catchup": True}
        await made.tidemill.dags.register(dag("hundreds", ONE_TASK, **fields))
        runs = await made.all_finished("hundreds", 250)
    assert dates(runs) == [start + timedelta(minutes=n) for n in range(250)]


async def test_the_dags_workflow_sleeps_between_runs(here: Stack) -> None:
    """An idle DAG costs its timer and nothing else."""
    await here.tidemill.dags.register(
        dag("idle", ONE_TASK, schedule="@yearly", start_date=at("2020-01-01").isoformat())
    )
    await here.all_finished("idle", 1)
    handle = here.tidemill.client.get_workflow_handle("dag:idle")
    await asyncio.sleep(2)  # the run's workflow closes just after it has reported its end
    before = (await handle.describe()).history_length
    await asyncio.sleep(3)
    assert (await handle.describe()).history_length == before


async def test_a_date_that_another_run_has_is_called_by_that_runs_name(here: Stack, tmp_path: Path) -> None:
    """A DAG that was ended and comes back finds what it has run before, ended or under way, and lists it as it is."""
    go, names = tmp_path / "go", ["by_hand_0", "by_hand_1"]
    tasks = [bash("t", f"test {{{{ run_id }}}} = {names[0]} || while ! test -e {go}; do sleep 0.1; done")]
    await here.tidemill.dags.register(dag("comes_back", tasks, schedule=None, max_active_runs=3))
    for name, days in zip(names, (3, 2), strict=True):
        request = TriggerRequest(run_id=name, logical_date=datetime.fromisoformat(days_ago(days)))
        await here.tidemill.runs.trigger("comes_back", request)
    await eventually(lambda: here.tidemill.runs.find("comes_back", names[0]), lambda run: run.state is RunState.SUCCESS)
    await here.tidemill.client.get_workflow_handle("dag:comes_back").terminate("by hand")
    within = {"start_date": days_ago(3), "end_date": days_ago(2), "catchup": True, "max_active_runs": 3}
    await here.tidemill.dags.register(dag("comes_back", tasks, schedule=EVERY_DAY, **within))
    await eventually(lambda: here.tidemill.runs.list("comes_back"), lambda runs: {r.run_id for r in runs} == {*names})
    go.touch()
    runs = await here.all_finished("comes_back", 2)
    assert {run.run_id: run.run_type for run in runs} == dict.fromkeys(names, RunType.MANUAL)
