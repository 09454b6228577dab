"""DAG files that import Airflow, unchanged: read, run and waited for, with a real Airflow and a real server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from airflow_stack import DAGS, PYTHON, airflow_place, answer_of, emptied_out, needs_airflow, read_file, register
from forked_commands import forked
from support import Stack, eventually, stack
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.errors import InvalidInputError
from tidemill.model.pool.state import PoolSettings
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.messages import Answer
from tidemill.model.run.revisions import MarkRequest
from tidemill.model.run.views import RunDetails
from tidemill.model.spec.dag import DagSpec
from tidemill.model.spec.tasks import AirflowTask
from tidemill.model.states import TaskState

pytestmark = needs_airflow


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where DAG files leave traces of what they do."""
    folder = emptied_out()
    monkeypatch.setenv("TEST_OUT", str(folder))
    monkeypatch.setenv("AIRFLOW_VAR_GREETING", "good morning")
    monkeypatch.setenv("AIRFLOW_CONN_STORE", "http://somebody:open-sesame@store.example:8080/shelf")
    return folder


@pytest.fixture
async def airflow(server: str, tmp_path: Path, out: Path) -> AsyncIterator[Stack]:
    """A worker beside an environment with Airflow."""
    home = tmp_path / "home"
    async with stack(server, home, place=airflow_place(home)) as made:
        yield made


def place_of(made: Stack) -> WorkerContext:
    plugin: Any = made.tidemill.client.config()["plugins"][0]
    found: WorkerContext = plugin.place
    return found


async def specs_of(made: Stack, name: str) -> dict[str, DagSpec]:
    """The DAGs of a file of this test, registered."""
    found = await asyncio.to_thread(read_file, place_of(made), DAGS / f"{name}.py")
    await register(made, found.values())
    return found


async def run_once(made: Stack, dag_id: str, **trigger: Any) -> RunDetails:
    run = await made.tidemill.runs.trigger(dag_id, TriggerRequest(**trigger))
    return await made.finished(dag_id, run.run_id)


def states(details: RunDetails) -> dict[str, str]:
    return {task.key: str(task.state) for task in details.tasks}


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_what_schedules_is_read_and_what_is_the_operators_own_is_not(tmp_path: Path, out: Path) -> None:
    place = airflow_place(tmp_path / "home")
    try:
        dag = read_file(place, DAGS / "everything.py")["classic"]
        answer = answer_of(place, DAGS / "everything.py")
    finally:
        place.close()
    assert (dag.written_for, dag.tags, dag.max_active_runs, dag.doc_md) == ("airflow", ("a", "b"), 3, "# Classic")
    assert dag.schedule.kind == "cron_trigger"
    assert dag.schedule.expression == "0 6 * * *"
    assert dag.params["word"] == {"value": "hello", "schema": {"type": "string"}, "description": "What is said"}
    say, hear = dag.by_id["say"], dag.by_id["middle.hear"]
    assert isinstance(say, AirflowTask)
    assert isinstance(hear, AirflowTask)
    assert (say.operator_name, say.retries, say.retry_delay.total_seconds(), say.owner) == (
        "BashOperator",
        2,
        1,
        "data",
    )
    assert (hear.pool, hear.priority_weight, hear.group, hear.xcom_from) == ("small", 5, "middle", ("say",))
    assert [outlet.name for outlet in hear.outlets] == ["heard"]  # type: ignore[union-attr]
    assert dag.by_id["middle.last"].kind == "empty"  # done at once, as in Airflow
    assert dag.upstreams["middle.last"] == ("middle.hear",)
    assert dag.source is not None
    assert dag.source.imports_airflow
    written = answer.model_dump_json()
    for own in ("in the file only", "bash_command", "open-sesame", "good morning"):
        assert own not in written


def test_values_are_mapped_over_by_their_number(tmp_path: Path, out: Path) -> None:
    place = airflow_place(tmp_path / "home")
    try:
        dag = read_file(place, DAGS / "everything.py")["taskflow"]
    finally:
        place.close()
    expand = dag.by_id["doubled"].expand
    assert expand is not None
    assert expand.model_dump() == {
        "by": {"n": {"$xcom": "numbers", "key": "return_value", "length": True}},
        "into": "index",
    }


def test_a_file_that_cannot_be_used_says_so_by_file_and_line(tmp_path: Path) -> None:
    place = airflow_place(tmp_path / "home")
    lacking = tmp_path / "lacking.py"
    lacking.write_text("from airflow.sdk import DAG\nfrom airflow.providers.snowflake.hooks import snowflake\n")
    session = tmp_path / "session.py"
    session.write_text("from airflow.sdk import DAG\nfrom airflow import settings\nsettings.Session()\n")
    unused = tmp_path / "unused.py"
    unused.write_text(
        "from airflow.sdk import DAG, task\n"
        "with DAG('unused', schedule=None, access_control={'role': {'can_read'}}):\n"
        "    @task(executor_config={'pod': 1})\n"
        "    def one(): ...\n"
        "    one()\n"
    )
    try:
        missing = str(answer_of(place, lacking).error)
        assert "No module named 'airflow.providers.snowflake'" in missing
        assert "lacking.py:2" in missing
        opened = str(answer_of(place, session).error)
        assert "database access via the ORM is not allowed" in opened
        assert "session.py:3" in opened
        answer = answer_of(place, unused)
        assert answer.error is None
        assert any("executor_config changes nothing" in str(notice) for notice in answer.notices)
        assert any("access_control changes nothing" in str(notice) for notice in answer.notices)
    finally:
        place.close()


def test_without_airflow_the_error_names_what_to_install(tmp_path: Path) -> None:
    place = WorkerContext(home=tmp_path / "home")
    try:
        assert place.airflow_forks_of(None) is None
        told = str(answer_of(place, DAGS / "workdays.py").error)
    finally:
        place.close()
    assert "pip install 'tidemill[airflow]'" in told


async def test_operators_templates_lookups_and_callbacks(airflow: Stack, out: Path) -> None:
    specs = await specs_of(airflow, "everything")

    await airflow.tidemill.pools.configure("small", PoolSettings(slots=2))
    details = await run_once(airflow, "classic", conf={"word": "hi"}, logical_date="2026-03-01T06:00:00Z")
    assert states(details) == dict.fromkeys(specs["classic"].by_id, "success")
    said = await airflow.result_of(details, "say")
    assert said == "hi 2026-03-01 good morning open-sesame"
    assert await airflow.result_of(details, "middle.hear") == said.upper()
    log = airflow.log_of("classic", details.run.run_id, "say")
    assert "open-sesame" not in log
    assert "hi 2026-03-01 good morning ***" in log, log
    await eventually(
        lambda: asyncio.to_thread(lines, out / "dag_success"),
        lambda found: any(line.startswith(f"{details.run.run_id} classic 2026-03-01 ") for line in found),
    )
    assert [view.operator for view in details.tasks if view.task_id == "say"] == ["BashOperator"]


async def test_mapping_branching_and_values_of_every_type(airflow: Stack) -> None:
    await specs_of(airflow, "everything")
    details = await run_once(airflow, "taskflow")
    assert states(details) == {
        "numbers": "success",
        "doubled[0]": "success",
        "doubled[1]": "success",
        "doubled[2]": "success",
        "total": "success",
        "choose": "success",
        "large": "success",
        "small": "skipped",
        "when": "success",
        "year": "success",
    }
    assert await airflow.result_of(details, "total") == 21
    assert await airflow.result_of(details, "year") == 2028


def test_what_airflow_reads_and_runs_never_or_without_a_limit_is_read(tmp_path: Path) -> None:
    """Airflow: no run begins with max_active_runs=0, and a dagrun_timeout of no length is none."""
    place = airflow_place(tmp_path / "home")
    odd = tmp_path / "odd.py"
    odd.write_text(
        "from datetime import timedelta\nfrom airflow.sdk import DAG\n"
        "with DAG('never', schedule='@daily', max_active_runs=0): ...\n"
        "with DAG('endless', schedule=None, dagrun_timeout=timedelta(0)): ...\n"
    )
    try:
        answer = answer_of(place, odd)
    finally:
        place.close()
    read = {spec["dag_id"]: spec for spec in answer.dags}
    assert read["never"]["max_active_runs"] == 0
    assert read["endless"].get("dagrun_timeout") is None


@pytest.mark.parametrize(
    "made",
    [
        "for every in ('@daily', '@hourly'):\n    with DAG('same', schedule=every): ...\n",
        "a = DAG('same', schedule='@daily')\nb = DAG('same', schedule='@hourly')\n",
        "with DAG('same', schedule='@daily') as a: ...\nwith DAG('same', schedule='@hourly'): ...\n",
    ],
)
def test_of_two_dags_of_one_id_in_a_file_the_last_counts(made: str, tmp_path: Path) -> None:
    place = airflow_place(tmp_path / "home")
    file = tmp_path / "twice.py"
    file.write_text(f"from airflow.sdk import DAG\n{made}")
    try:
        answer = answer_of(place, file)
    finally:
        place.close()
    [spec] = answer.dags
    assert "@hourly" in str(spec["schedule"]) or "0 * * * *" in str(spec["schedule"])
    [notice] = [told for told in answer.notices if "same" in str(told)]
    assert notice == "DAG 'same' is made twice in this file: the last one counts"


async def test_tries_and_what_is_told_of_them(airflow: Stack, out: Path) -> None:
    await specs_of(airflow, "everything")
    details = await run_once(airflow, "failing")
    by_key = {task.key: task for task in details.tasks}
    assert {key: str(task.state) for key, task in by_key.items()} == dict.fromkeys(by_key, "failed")
    assert [str(attempt.state) for attempt in by_key["twice"].attempts] == ["up_for_retry", "up_for_retry", "failed"]
    assert by_key["twice"].error == "ValueError: try 3"
    assert by_key["twice"].attempts[0].failure is not None
    assert "everything.py" in by_key["twice"].attempts[0].failure.traceback[-1]
    assert len(by_key["for_good"].attempts) == 1
    assert by_key["exits"].error == "ProcessEnded: the task's process ended with exit code 7"
    assert "database access via the ORM is not allowed" in str(by_key["opens_a_session"].error)
    assert lines(out / "retried") == ["1", "2"]
    assert sorted(lines(out / "failed")) == ["AirflowFailException", "ValueError"]


async def test_variables_are_written_and_states_kept(airflow: Stack) -> None:
    await specs_of(airflow, "everything")
    details = await run_once(airflow, "keeping")
    assert states(details) == {"writes": "success", "reads": "success"}
    assert await airflow.result_of(details, "reads") == ["a task", "store.example", 7]
    history = await airflow.tidemill.client.get_workflow_handle(details.run.workflow_id).fetch_history()
    assert "open-sesame" not in history.to_json()


async def test_what_takes_too_long_is_ended_and_what_is_stopped_ends_its_processes(airflow: Stack, out: Path) -> None:
    await specs_of(airflow, "everything")
    run = await airflow.tidemill.runs.trigger("long", TriggerRequest())
    await eventually(lambda: asyncio.to_thread(lines, out / "begun"), bool)

    async def sleepers() -> list[psutil.Process]:
        return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "600"]]

    sleeping = await eventually(sleepers, bool)
    await airflow.tidemill.tasks.mark("long", run.run_id, MarkRequest(tasks=("sleeps",), state=TaskState.FAILED))
    details = await airflow.finished("long", run.run_id)
    assert states(details) == {"sleeps": "failed", "too_long": "failed"}
    [too_long] = [task for task in details.tasks if task.task_id == "too_long"]
    assert "AirflowTaskTimeout" in str(too_long.error)
    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in sleeping)


async def test_triggers_fire_end_fail_and_run_out_of_time(airflow: Stack, out: Path) -> None:
    await specs_of(airflow, "waiting")
    run = await airflow.tidemill.runs.trigger("deferring", TriggerRequest())

    async def deferred() -> list[str]:
        found = await airflow.tidemill.runs.describe("deferring", run.run_id)
        return [task.key for task in found.tasks if task.state is TaskState.DEFERRED]

    await eventually(deferred, lambda found: {*found} >= {"fires", "ends", "fails"})
    await eventually(lambda: asyncio.to_thread(lines, out / "fires.watched"), bool)
    for name in ("fires", "ends", "fails"):
        (out / name).touch()
    details = await airflow.finished("deferring", run.run_id)
    assert states(details) == {"fires": "success", "ends": "success", "fails": "failed", "never": "failed"}
    by_key = {task.key: task for task in details.tasks}
    assert await airflow.result_of(details, "fires") == ["fires", 3]
    assert "TaskDeferralError" in str(by_key["fails"].error)
    assert "TaskDeferralTimeout" in str(by_key["never"].error)
    assert all(task.try_number == 1 for task in details.tasks)
    watched = {*lines(out / "fires.watched"), *lines(out / "ends.watched"), *lines(out / "fails.watched")}
    assert len(watched) == 1  # one process for all of them


async def test_a_trigger_that_fails_its_task_has_its_callbacks_called(airflow: Stack, out: Path) -> None:
    await specs_of(airflow, "waiting")
    for name in ("well", "badly", "silently"):
        (out / name).touch()
    details = await run_once(airflow, "ended")
    assert states(details) == {"well": "success", "badly": "failed", "silently": "failed"}
    assert [task.try_number for task in details.tasks] == [1, 2, 2]
    assert lines(out / "well.told") == []  # as in Airflow, which calls those of failures alone
    failure = "its trigger has ended the task"
    assert lines(out / "badly.told") == [f"1 up_for_retry {failure}", f"2 failed {failure}"]
    assert {*lines(out / "well.ended"), *lines(out / "badly.ended")} == set()


async def test_an_operator_that_begins_with_its_trigger_is_called_when_that_has_spoken(
    airflow: Stack, out: Path
) -> None:
    await specs_of(airflow, "waiting")
    (out / "begun_3").touch()
    details = await run_once(airflow, "begun", conf={"n": 3})
    assert states(details) == {"begun": "success", "moment": "success"}
    assert await airflow.result_of(details, "begun") == ["begun_3", 7]
    assert [path.name for path in out.glob("*.begun")] == []


async def test_many_tasks_that_wait_at_once_are_watched_by_one_process(airflow: Stack, out: Path) -> None:
    await specs_of(airflow, "waiting")
    run = await airflow.tidemill.runs.trigger("many", TriggerRequest())
    await eventually(lambda: asyncio.to_thread(lines, out / "many.watched"), lambda found: len(found) == 40)
    (out / "many").touch()
    details = await airflow.finished("many", run.run_id)
    assert {str(task.state) for task in details.tasks} == {"success"}
    assert len({*lines(out / "many.watched")}) == 1


async def test_a_run_that_fails_fast_ends_what_waits_with_it(airflow: Stack, out: Path) -> None:
    await specs_of(airflow, "waiting")
    details = await run_once(airflow, "fails_fast")
    assert states(details) == {"waits": "skipped", "fails": "failed"}
    assert await eventually(lambda: asyncio.to_thread(lines, out / "too_late.killed"), bool) == ["killed"]


async def test_a_trigger_whose_task_is_ended_ends_what_it_has_begun(airflow: Stack, out: Path) -> None:
    await specs_of(airflow, "waiting")
    run = await airflow.tidemill.runs.trigger("killed", TriggerRequest())
    await eventually(lambda: asyncio.to_thread(lines, out / "unwanted.watched"), bool)
    await airflow.tidemill.tasks.mark("killed", run.run_id, MarkRequest(tasks=("wait",), state=TaskState.FAILED))
    await airflow.finished("killed", run.run_id)
    assert await eventually(lambda: asyncio.to_thread(lines, out / "unwanted.killed"), bool) == ["killed"]


async def test_pokes_and_moments_hold_no_worker(airflow: Stack, out: Path) -> None:
    await specs_of(airflow, "waiting")
    run = await airflow.tidemill.runs.trigger("poking", TriggerRequest())

    async def poked() -> int:
        found = await airflow.tidemill.runs.describe("poking", run.run_id)
        [poke] = [task for task in found.tasks if task.task_id == "poke"]
        return 1 if poke.state is TaskState.UP_FOR_RESCHEDULE else 0

    await eventually(poked, bool)
    (out / "poked").touch()
    details = await airflow.finished("poking", run.run_id)
    assert states(details) == {"poke": "success", "gives_up": "failed", "moment": "success"}
    [gives_up] = [task for task in details.tasks if task.task_id == "gives_up"]
    assert "AirflowSensorTimeout" in str(gives_up.error)
    assert len(gives_up.attempts) == 1  # as in Airflow, there is no other try


async def test_people_are_asked(airflow: Stack) -> None:
    await specs_of(airflow, "waiting")
    run = await airflow.tidemill.runs.trigger("asking", TriggerRequest())

    async def asked() -> Any:
        found = await airflow.tidemill.runs.describe("asking", run.run_id)
        [ask] = [task for task in found.tasks if task.task_id == "ask"]
        return ask.form

    form = await eventually(asked, bool)
    assert (form.subject, form.options, form.body) == ("Which of them?", ("one", "two"), f"For {run.run_id}")
    with pytest.raises(InvalidInputError, match="Choose one of one, two"):
        await airflow.tidemill.tasks.respond("asking", run.run_id, Answer(task="ask", chosen=("three",)))
    with pytest.raises(InvalidInputError, match="colour is no field of its form"):
        await airflow.tidemill.tasks.respond(
            "asking", run.run_id, Answer(task="ask", chosen=("one",), params={"colour": 1})
        )
    answer = Answer(task="ask", chosen=("two",), params={"why": "because"}, by="ada")
    await airflow.tidemill.tasks.respond("asking", run.run_id, answer)
    details = await airflow.finished("asking", run.run_id)
    assert states(details) == {"ask": "success", "by_default": "success"}
    said = await airflow.result_of(details, "ask")
    assert (said["chosen_options"], said["params_input"]) == (["two"], {"why": "because"})
    assert said["responded_by_user"] == {"id": "ada", "name": "ada"}
    assert (await airflow.result_of(details, "by_default"))["chosen_options"] == ["no"]


async def test_a_timetable_of_ones_own_makes_the_runs(airflow: Stack) -> None:
    specs = await asyncio.to_thread(read_file, place_of(airflow), DAGS / "workdays.py")
    dag = specs["of_ones_own"].model_copy(update={"end_date": None})
    await register(airflow, [dag])
    runs = await eventually(
        lambda: airflow.tidemill.runs.list("of_ones_own"), lambda found: sum(r.state.finished for r in found) >= 3
    )
    first = sorted(run.logical_date for run in runs if run.logical_date is not None)[:3]
    assert [date.hour for date in first] == [0, 2, 4]
    await airflow.tidemill.dags.pause("of_ones_own")
    manual = await airflow.tidemill.runs.trigger("of_ones_own", TriggerRequest(logical_date="2026-05-01T12:30:00Z"))
    assert manual.data_interval is not None
    assert manual.data_interval.start.isoformat() == "2026-05-01T10:30:00+00:00"


async def test_assets_wake_other_dags_with_what_tasks_said(airflow: Stack) -> None:
    specs = await asyncio.to_thread(read_file, place_of(airflow), DAGS / "workdays.py")
    await register(airflow, [specs["consumer"], specs["consumer_by_alias"], specs["producer"]])
    details = await run_once(airflow, "producer")
    assert states(details) == {"write": "success"}
    [run] = await airflow.all_finished("consumer", 1)
    consumed = await airflow.tidemill.runs.describe("consumer", run.run_id)
    assert (str(run.run_type), states(consumed)) == ("asset_triggered", {"read": "success"})
    assert await airflow.result_of(consumed, "read") == [3, 3]
    [run] = await airflow.all_finished("consumer_by_alias", 1)
    named = await airflow.tidemill.runs.describe("consumer_by_alias", run.run_id)
    assert await airflow.result_of(named, "names") == ["come_upon"]


async def test_files_of_both_worlds_live_side_by_side(airflow: Stack) -> None:
    specs = await specs_of(airflow, "both")
    assert {dag_id: spec.written_for for dag_id, spec in specs.items()} == {
        "written_for_airflow": "airflow",
        "written_for_tidemill": "tidemill",
    }
    theirs, ours = [await run_once(airflow, dag_id) for dag_id in ("written_for_airflow", "written_for_tidemill")]
    assert await airflow.result_of(theirs, "theirs") == "theirs"
    assert await airflow.result_of(ours, "ours") == "ours"


async def test_a_deferred_task_survives_the_process_that_watches(airflow: Stack, out: Path) -> None:
    await specs_of(airflow, "waiting")
    run = await airflow.tidemill.runs.trigger("survives", TriggerRequest())
    [pid] = await eventually(lambda: asyncio.to_thread(lines, out / "survives.watched"), bool)
    os.kill(int(pid), signal.SIGKILL)
    again = await eventually(lambda: asyncio.to_thread(lines, out / "survives.watched"), lambda found: len(found) > 1)
    assert again[1] != pid
    (out / "survives").touch()
    details = await airflow.finished("survives", run.run_id)
    assert states(details) == {"wait": "success"}
    assert (lines(out / "survives.begun"), lines(out / "survives.ended")) == (["1"], ["1"])


@pytest.mark.thorough
def test_a_dag_and_a_task_are_tried_without_a_server(out: Path, tmp_path: Path) -> None:
    def tidemill(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [forked(), *arguments]
        env = {**os.environ, "TIDEMILL_AIRFLOW_PYTHON": str(PYTHON), "COLUMNS": "200"}
        return subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)

    dag = tidemill("dags", "test", str(DAGS / "everything.py"), "taskflow")
    assert dag.returncode == 0, dag.stdout + dag.stderr
    assert [line for line in dag.stdout.splitlines() if line.startswith(("total", "small"))] == [
        "total: success",
        "small: skipped",
    ]
    (out / "fires").touch()
    task = tidemill("tasks", "test", "deferring", "fires", "--file", str(DAGS / "waiting.py"))
    assert task.returncode == 0, task.stdout + task.stderr
    assert '"fires",\n    3' in task.stdout
    failing = tidemill("tasks", "test", "failing", "twice", "--file", str(DAGS / "everything.py"))
    assert failing.returncode == 1
    assert "ValueError: try 1" in failing.stderr
