"""The command line, as a person and as a program use it: real processes on a real server."""

import asyncio
import importlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import typer
from forked_commands import forked
from support import Stack, bash, dag, empty, eventually, run_command, told, without_times
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.states import RunState
from tidemill.worker.app.doctor import check_server, temporal_check
from tidemill.worker.cli import Commands
from tidemill.worker.cli.dags import DagCommands
from tidemill.worker.cli.output import Markup, Printer
from tidemill.worker.spark import presence

EXAMPLES = Path(__file__).parents[2] / "examples"


async def test_a_day_with_the_command_line(here: Stack) -> None:
    [made] = await told(here, "dags", "register", str(EXAMPLES / "hello.py"), "--json")
    assert (made["dag_id"], made["change"]) == ("hello_python", "created")
    assert "unchanged" in await told(here, "dags", "register", str(EXAMPLES / "hello.py"))

    run = await told(here, "dags", "trigger", "hello_python", "--conf", '{"name": "you"}', "--run-id", "mine", "--json")
    assert run["run_id"] == "mine"
    await here.finished("hello_python", "mine")
    assert "mine" in await told(here, "runs", "list", "hello_python")
    shown = await told(here, "runs", "show", "hello_python", "mine", "--json")
    assert {task["task_id"]: task["state"] for task in shown["tasks"]} == dict.fromkeys(
        ["greet", "count", "show", "done"], "success"
    )
    assert "4 of 4 tasks finished" in await told(here, "runs", "show", "hello_python", "mine")
    assert without_times(await told(here, "tasks", "logs", "hello_python", "mine", "show")).startswith("2 words on 20")

    async def listed() -> Any:
        return await told(here, "dags", "list", "--json")

    await eventually(listed, lambda found: "hello_python" in [dag["dag_id"] for dag in found])
    assert "paused" in await told(here, "dags", "pause", "hello_python")
    assert (await told(here, "dags", "show", "hello_python", "--json"))["is_paused"] is True
    assert "active" in await told(here, "dags", "unpause", "hello_python")
    assert "hello_python" in await told(here, "dags", "show", "hello_python")


async def test_operating_tasks_with_the_command_line(here: Stack, tmp_path: Path) -> None:
    tasks = [bash("a", f"echo {{{{ ds }}}}; test -e {tmp_path}/ok"), empty("b", "a")]
    dates = {"schedule": "@daily", "start_date": "2024-01-01T00:00:00Z", "end_date": "2024-01-02T00:00:00Z"}
    await here.tidemill.dags.register(dag("operated", tasks, catchup=True, **dates))
    runs = [view.run_id for view in await here.all_finished("operated", 2)]
    assert "a is failed: BashFailed" in await told(here, "tasks", "explain", "operated", runs[0], "a")
    assert (await told(here, "tasks", "explain", "operated", runs[0], "a", "--json"))["state"] == "failed"
    await told(here, "runs", "show", "operated", runs[0], "--watch", code=1)
    assert without_times(await told(here, "tasks", "logs", "operated", runs[0], "a", "--follow")) == "2024-01-01\n"
    never = await told(here, "tasks", "logs", "operated", runs[0], "b", code=1)
    assert "has no log, since it has not run. It is upstream_failed" in never
    assert json.loads(await told(here, "tasks", "render", "operated", "a", "2024-05-06T00:00:00Z"))[0].startswith(
        "echo 2024-05-06;"
    )
    later = ("operated", "later")
    dated = ("--no-logical-date", "--run-after", "2099-01-01T00:00:00Z")
    await told(here, "dags", "trigger", "operated", "--run-id", "later", *dated)
    assert "its run is queued: it waits for 2099-01-01" in await told(here, "tasks", "explain", *later, "b")
    assert "0 of 2 tasks finished" in await told(here, "runs", "show", *later)
    (tmp_path / "ok").touch()
    cleared = await told(here, "tasks", "clear", "operated", runs[0], "a", "--downstream", "--future", "--json")
    assert cleared == {run_id: ["a", "b"] for run_id in runs}
    for run_id in runs:
        await here.finished("operated", run_id)
    assert {str(view.state) for view in await here.tidemill.runs.list("operated") if view.run_id in runs} == {"success"}
    marked = await told(here, "tasks", "mark", "operated", runs[1], "failed", "b", "--json")
    assert marked == {runs[1]: ["b"]} or marked == {runs[1]: []}
    await eventually(lambda: here.tidemill.runs.find("operated", runs[1]), lambda view: view.state == "failed")
    await told(here, "runs", "mark", "operated", runs[1], "success")
    await eventually(lambda: here.tidemill.runs.find("operated", runs[1]), lambda view: view.state == "success")
    await told(here, "runs", "gantt", "operated", runs[0], "--output", str(tmp_path / "run.svg"))
    assert "<svg" in (tmp_path / "run.svg").read_text()
    assert "'success', 'failed'," in await told(here, "tasks", "mark", "operated", runs[1], "none", "b", code=2)


async def test_pools_with_the_command_line(here: Stack) -> None:
    assert "db" in await told(here, "pools", "set", "cli_db", "3", "--description", "for the database")
    [pool] = [p for p in await told(here, "pools", "list", "--json") if p["name"] == "cli_db"]
    assert (pool["settings"]["slots"], pool["occupied_slots"]) == (3, 0)
    assert (await told(here, "pools", "show", "cli_db", "--json"))["open_slots"] == 3
    assert "slots = -2" in await told(here, "pools", "set", "cli_db", "--", "-2", code=1)
    assert "no pool" in await told(here, "pools", "set", "limit:parallelism", "3", code=1)
    made = await asyncio.to_thread(run_command, here, "pools", "set", "default_pool", "3")
    assert "TIDEMILL_PARALLELISM" in made.stderr
    assert "is deleted" in await told(here, "pools", "delete", "cli_db")


async def test_clearing_says_that_another_version_is_in_place(here: Stack) -> None:
    """Who has mended a file and clears the failed task wants the mended code, and gets that of the run."""
    await here.run_once(dag("mended_file", [bash("a", "exit 1")]), run_id="mine")
    assert "--latest" not in await told(here, "tasks", "clear", "mended_file", "mine", "a")
    await eventually(
        lambda: here.tidemill.runs.describe("mended_file", "mine"),
        lambda run: run.tasks[0].try_number == 2 and run.state.finished,
    )
    await here.tidemill.dags.register(dag("mended_file", [bash("a", "true")]))
    assert "would be cleared: a" in await told(here, "runs", "clear", "mended_file", "mine", "--dry-run")
    assert (await here.tidemill.runs.find("mended_file", "mine")).state.finished
    for command in (("tasks", "clear", "mended_file", "mine", "a"), ("runs", "clear", "mended_file", "mine")):
        await here.finished("mended_file", "mine")
        output = await told(here, *command)
        assert "It goes on with version" in output
        assert "--latest takes that" in output


SHOWS = """
import logging
from tidemill import *

with DAG("shows"):
    @task
    def says():
        logging.getLogger("mine").info("a function logs")
        print("a function prints")
    says() >> BashOperator(task_id="run", bash_command="echo a command prints")
"""


async def test_a_dag_is_tried_out_without_a_server(here: Stack, tmp_path: Path) -> None:
    dated = tmp_path / "dated.py"
    dated.write_text(
        "from tidemill import *\nwith DAG('dated'):\n    BashOperator(task_id='day', bash_command='test -n {{ ds }}')\n"
    )
    assert "day: success" in await told(here, "dags", "test", str(dated))
    assert "success" in await told(here, "tasks", "test", "dated", "day", "--file", str(dated))
    dated.write_text(SHOWS)
    output = await told(here, "dags", "test", str(dated), "shows")
    for line in (
        "running says, try 1",
        "INFO a function logs",
        "a function prints",
        "a command prints",
        "run: success",
    ):
        assert line in output
    dated.write_text("from tidemill import *\n1 / 0\n")
    output = await told(here, "dags", "test", str(dated), "dated", code=1)
    assert f'File "{dated}", line 2' in output
    assert "cannot be imported: ZeroDivisionError" in output
    assert "tidemill/worker" not in output
    file = str(EXAMPLES / "hello.py")
    output = await told(here, "dags", "test", file, "2024-05-06T00:00:00Z", "--conf", '{"name": "me"}')
    assert "greet: success" in output
    assert "show: success" in output
    output = await told(here, "dags", "test", str(EXAMPLES / "patterns.py"), "patterns")
    assert "measure[0]: success" in output
    assert "report: success" in output
    assert "nothing_to_do: skipped" in output
    assert "tidy_up: success" in output
    assert "defines no DAG 'nope'. It defines: hello_python" in await told(here, "dags", "test", file, "nope", code=1)


async def test_preview_shows_logical_date_interval_and_run_time(here: Stack) -> None:
    preview = await told(here, "dags", "preview", str(EXAMPLES / "hello.json"), "-n", "3", "--json")
    assert [set(info) for info in preview["hello"]] == [
        {"logical_date", "run_after", "data_interval", "run_after_local", "clock_change"}
    ] * 3
    first, second, _ = preview["hello"]
    assert first["data_interval"]["end"] == second["data_interval"]["start"] == first["run_after"]
    await told(here, "dags", "register", str(EXAMPLES / "hello.json"))
    assert "LOGICAL DATE" in await told(here, "dags", "preview", "hello")


async def test_preview_tells_the_schedule_in_words_and_where_the_clocks_change(here: Stack, tmp_path: Path) -> None:
    file = tmp_path / "berlin.json"
    berlin = {"dag_id": "berlin", "schedule": "30 2 * * *", "timezone": "Europe/Berlin", "catchup": True}
    file.write_text(json.dumps({**berlin, "start_date": "2026-03-27T00:00:00+01:00", "tasks": []}))
    text = await told(here, "dags", "preview", str(file), "-n", "4")
    assert "berlin: At 02:30 (Europe/Berlin)" in text
    assert "clocks go forward" in text
    found = await told(here, "dags", "preview", str(file), "-n", "4", "--json")
    changes = [(run["run_after_local"], run["clock_change"]) for run in found["berlin"]]
    assert [local for local, change in changes if change is not None] == ["Sun 2026-03-29 03:30:00+0200"]


async def test_explaining_comparing_and_validating(here: Stack, tmp_path: Path) -> None:
    await told(here, "dags", "register", str(EXAMPLES / "hello.json"))
    await here.all_finished("hello", 1)
    assert "next run: due when its interval ends, at" in await told(here, "dags", "explain", "hello")
    assert (await told(here, "dags", "explain", "hello", "--json"))["next_run"].startswith("due when")
    changed = tmp_path / "hello.json"
    changed.write_text(json.dumps({**json.loads((EXAMPLES / "hello.json").read_text()), "schedule": "@hourly"}))
    found = (await told(here, "dags", "diff", str(changed), "--json"))["hello"]
    assert found["changed"]
    assert len(found["current"]) == len(found["proposed"]) == 5
    assert "NEXT RUNS THEN" in await told(here, "dags", "diff", str(changed))
    assert (await told(here, "dags", "show", "hello", "--json"))["schedule"]["expression"] == "0 6 * * *"
    [found] = (await told(here, "dags", "validate", str(changed), "--json"))["dags"]
    assert found["dag_id"] == "hello"
    changed.write_text('{"dag_id": "hello", "max_active_runs": 0}')
    assert "max_active_runs = 0" in await told(here, "dags", "validate", str(changed), code=1)


async def test_backfills(here: Stack) -> None:
    await told(here, "dags", "register", str(EXAMPLES / "hello.json"))
    await here.all_finished("hello", 1)
    span = ["--from-date", "2026-02-10T00:00:00Z", "--to-date", "2026-02-13T00:00:00Z"]
    assert "dry run: 3 runs" in await told(here, "backfill", "create", "hello", *span, "--dry-run")
    output = await told(here, "backfill", "create", "hello", *span, "--watch")
    assert "[backfill progress: 100.0%] | total dagruns: 3 | total tasks: 6 | finished: 6 | succeeded: 6" in output
    [listed] = await told(here, "backfill", "list", "hello", "--json")
    assert (listed["backfill_id"], listed["state"], listed["succeeded"]) == ("backfill_1", "completed", 3)
    assert "completed, 0 under way" in await told(here, "backfill", "show", "hello", "backfill_1")
    assert "no such unfinished backfill" in await told(here, "backfill", "pause", "hello", "backfill_1", code=1)
    assert "has no backfill 'nope'" in await told(here, "backfill", "show", "hello", "nope", code=1)
    swapped = ["--from-date", "2026-02-13T00:00:00Z", "--to-date", "2026-02-10T00:00:00Z"]
    assert "is before from_date" in await told(here, "backfill", "create", "hello", *swapped, code=1)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["dags", "show", "nobody"],
            "DAG 'nobody' is not there. `tidemill dags list` shows what is registered, `tidemill dags errors`",
        ),
        (["dags", "trigger", "nobody"], "DAG 'nobody' is not there"),
        (["runs", "list", "nobody"], "DAG 'nobody' is not there"),
        (["dags", "trigger", "x", "--conf", "{"], "--conf = '{' is not JSON"),
        (["dags", "trigger", "x", "--conf", "[1]"], "is not a JSON object"),
        (["dags", "trigger", "x", "--logical-date", "yesterday"], "logical_date = 'yesterday'"),
    ],
)
async def test_mistakes_end_with_one_clear_line_and_exit_code_1(here: Stack, arguments: list[str], error: str) -> None:
    output = await told(here, *arguments, code=1)
    assert output.startswith("error: ")
    assert error in output
    assert "Traceback" not in output


async def test_a_bad_dag_file_registers_nothing_and_says_why(here: Stack, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("from tidemill import DAG\nDAG('bad', schedule='61 * * * *')\n")
    (tmp_path / "good.py").write_text("from tidemill import DAG\nDAG('good_one')\n")
    output = await told(here, "dags", "register", str(tmp_path), code=1)
    assert "bad.py: DAG 'bad': schedule" in output
    assert "cannot read cron expression '61 * * * *'" in output
    assert (await here.tidemill.dags.describe("good_one")).dag_id == "good_one"


async def test_a_service_that_is_not_there_is_told_with_the_remedy(here: Stack) -> None:
    env = {**os.environ, "TEMPORAL_ADDRESS": "127.0.0.1:1"}
    done = subprocess.run([forked(), "dags", "list"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "no Temporal service answers at 127.0.0.1:1" in done.stderr
    assert "Start one with `tidemill dev`, or set TEMPORAL_ADDRESS" in done.stderr


async def test_short_lived_commands_end_with_their_own_exit_code(here: Stack) -> None:
    """sdk-python#300: an interpreter with a Temporal client in it can abort on its way out (134)."""
    await told(here, "dags", "register", str(EXAMPLES / "hello.json"))
    for _ in range(6):
        await told(here, "dags", "show", "hello", "--json")


def test_the_help_of_a_command_is_what_the_list_of_commands_says() -> None:
    for name, (place, text) in [*Commands.places.items(), *DagCommands.places.items()]:
        module, _, attribute = place.partition(":")
        found = getattr(importlib.import_module(f"tidemill.worker.cli.{module}"), attribute)
        assert isinstance(found, typer.Typer) or (found.__doc__ or "").partition("\n")[0] == text, name


async def test_ids_may_be_as_long_as_airflow_takes_them(here: Stack) -> None:
    """Longer than the names of files may be, once they have their prefix."""
    dag_id, task_id, run_id = "d" * 250, "t" * 250, "r" * 200
    await here.tidemill.dags.register(dag(dag_id, [bash(task_id, "echo said"), bash("é" * 120, "true", task_id)]))
    await here.tidemill.runs.trigger(dag_id, TriggerRequest(run_id=run_id))
    assert (await here.finished(dag_id, run_id)).state is RunState.SUCCESS
    assert without_times(await told(here, "tasks", "logs", dag_id, run_id, task_id)) == "said\n"


def test_the_doctor_wants_no_server_of_its_own_where_a_service_answers() -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "tidemill.worker.app.doctor.temporal_binary", Mock(side_effect=FileNotFoundError("no temporal"))
        )
        assert check_server(needed=False).ok
        assert not check_server(needed=True).ok


async def test_the_doctor_checks_what_is_needed(here: Stack) -> None:
    done = await asyncio.to_thread(run_command, here, "doctor", "--json")
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert set(checks) == {"Python", "Java", "Spark", "Temporal CLI", "Temporal service", "Runs", "Workflows"}
    del checks["Runs"], checks["Workflows"]  # of all tests on this server: tests/worker/test_doctor.py
    assert all(check["ok"] for check in checks.values())
    service = checks["Temporal service"]
    assert here.address in service["found"]
    assert "on sqlite" in service["found"]
    assert service["remedy"] is None


@pytest.mark.parametrize(
    ("release", "store"), [("1.28.0", "postgres12"), ("1.32.0", "postgres12"), ("1.28.1", "sqlite")]
)
def test_the_doctor_says_where_the_service_is_not_what_the_tests_run_on(release: str, store: str) -> None:
    check = temporal_check("somewhere", release, store)
    assert check.ok
    assert f"release {release} on {store}" in check.found
    assert "tests run on releases 1.29 to 1.32 on sqlite only" in (check.remedy or "")
    assert "a store that it does not name" in temporal_check("somewhere", "", "").found


def test_the_doctor_names_the_remedy(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path), "TEMPORAL_ADDRESS": "127.0.0.1:1"}
    done = subprocess.run([forked(), "doctor", "--json"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert not checks["Java"]["ok"]
    assert "Install a Java 17 runtime" in checks["Java"]["remedy"]
    assert "set TEMPORAL_ADDRESS" in checks["Temporal service"]["remedy"]


def test_what_dev_lacks_for_spark_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(presence, "find_spec", lambda _: None)
    assert "pip install 'tidemill[spark]'" in (presence.lacks_for_spark() or "")
    monkeypatch.setattr(presence, "find_spec", lambda _: object())
    monkeypatch.setattr(presence, "find_java", lambda: None)
    assert "JAVA_HOME" in (presence.lacks_for_spark() or "")
    monkeypatch.setattr(presence, "find_java", lambda: object())
    assert presence.lacks_for_spark() is None


def test_texts_are_shown_as_they_are_whatever_brackets_they_have(capsys: pytest.CaptureFixture[str]) -> None:
    console = Printer(highlight=False, width=200)
    console.print("pip install 'tidemill[spark]': a[0] is [bold]no[/] markup")
    console.print(Markup("[bold]this[/] is"))
    assert capsys.readouterr().out == "pip install 'tidemill[spark]': a[0] is [bold]no[/] markup\nthis is\n"
