"""What a task can do to its worker, and what it gets to see of it: as little as it needs."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from support import Stack, bash, dag, eventually, messages, stack, worker_environment, worker_process
from temporalio.client import Client
from temporalio.worker import Worker
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.processes.users import RunAs
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import RunState
from tidemill.worker.plugin import TidemillPlugin

from tidemill import DAG, BashOperator, InvalidInputError

FILE = Path(__file__).parents[1] / "dags" / "isolation.py"
URI = "postgresql://ada:s3cret%2Fword@db.example:5432/sales"


def of_file(dag_id: str) -> DagSpec:
    found = parse_dag_file(FILE)
    assert found.error is None
    return next(spec for spec in found.dags if spec.dag_id == dag_id)


async def test_a_template_that_never_ends_fails_its_task_and_no_other(here: Stack) -> None:
    """Such an expression never returns to the interpreter: in a worker it would stop everything for a long time."""
    endless = dag("endless", [bash("a", "echo {{ 3 ** (2 ** 27) % 7 }}")])
    await here.tidemill.dags.register(endless)
    run = await here.tidemill.runs.trigger("endless")
    beside = await here.run_once(dag("beside", [bash("a", "echo {{ run_id }}")]))
    assert beside.state is RunState.SUCCESS
    details = await here.finished("endless", run.run_id)
    assert details.tasks[0].error is not None
    assert "templates took more than 10 s of processor time" in details.tasks[0].error


async def test_a_template_that_takes_too_much_memory_fails_its_task(here: Stack) -> None:
    details = await here.run_once(dag("hungry", [bash("a", "echo {{ ('x' * 2000000000) | length }}")]))
    assert details.tasks[0].error is not None
    assert "MemoryError" in details.tasks[0].error


async def test_children_get_nothing_of_the_workers_secrets(here: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_API_KEY", "temporal-key-1234")
    monkeypatch.setenv("TIDEMILL_SPARK_CONNECTIONS", '{"default": {"master": "sc://host/;token=spark-token-1234"}}')
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-key-1234")
    monkeypatch.setenv("TIDEMILL_CONN_WAREHOUSE", URI)
    details = await here.run_once(of_file("looks_around"))
    seen = " ".join(await here.result_of(details, "environment"))
    assert "PATH=" in seen
    for secret in ("temporal-key-1234", "spark-token-1234", "aws-key-1234", "s3cret"):
        assert secret not in seen


async def test_what_is_printed_and_logged_is_in_the_log_with_time_and_level(here: Stack) -> None:
    details = await here.run_once(of_file("logs"))
    assert here.log_of("logs", details.run.run_id, "logged").splitlines() == [
        "printed",
        "tidemill_dag_file_isolation: an info",
        "tidemill_dag_file_isolation: a warning of",
        "    two lines",
        "to stderr",
        "of a subprocess",
    ]
    [path] = (here.home / "logs" / "dag_id=logs").rglob("*.log")
    levels = [line.split()[1] for line in path.read_text().splitlines() if "+00:00" in line]
    assert levels[1:-1] == ["INFO", "INFO", "WARNING", "INFO", "INFO"], "between what was run, and how it ended"


async def test_a_secret_is_masked_however_it_is_printed(here: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_CONN_WAREHOUSE", URI)
    details = await here.run_once(of_file("tells_secrets"))
    run_id = details.run.run_id
    assert here.log_of("tells_secrets", run_id, "by_handler").splitlines() == [
        "early stream: ***",
        "descriptor: ***",
        "subprocess: ***",
        "tidemill_dag_file_isolation: logged: ***",
    ]
    assert await here.result_of(details, "by_bash") == "shell: ***"
    assert {task.key: task.error for task in details.tasks}["by_note"] == "ValueError: it was ***"
    history = await here.tidemill.client.get_workflow_handle(details.run.workflow_id).fetch_history()
    assert "s3cret" not in history.to_json()
    for path in here.home.rglob("*"):
        if path.is_file():
            assert b"s3cret/word" not in path.read_bytes(), path


async def test_an_argument_of_many_megabytes_arrives(here: Stack) -> None:
    details = await here.run_once(of_file("large"))
    assert await here.result_of(details, "take") == 20 * 2**20


async def test_a_stopped_function_puts_things_in_order(here: Stack, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    await here.tidemill.dags.register(of_file("cleans_up"))
    run = await here.tidemill.runs.trigger("cleans_up", TriggerRequest(conf={"mark": str(mark)}))
    await eventually(
        lambda: asyncio.to_thread(lambda: mark.exists() and mark.read_text()), lambda text: text == "began"
    )
    await here.tidemill.client.get_workflow_handle(run.workflow_id).cancel()
    await here.finished("cleans_up", run.run_id)
    assert mark.read_text() == "put in order"


async def test_on_kill_is_called_in_the_process_of_the_function(
    here: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    monkeypatch.setenv("TEST_ON_KILL", str(mark))
    await here.tidemill.dags.register(of_file("has_a_hook"))
    run = await here.tidemill.runs.trigger("has_a_hook")
    await eventually(lambda: asyncio.to_thread(mark.exists), bool)
    waits = await eventually(lambda: asyncio.to_thread(mark.read_text), lambda text: text.startswith("waits in "))
    await here.tidemill.runs.cancel("has_a_hook", run.run_id)
    await here.finished("has_a_hook", run.run_id)
    assert mark.read_text() == waits.replace("waits in", "told by")


def test_a_task_without_a_function_has_no_on_kill() -> None:
    with (
        DAG("hooked"),
        pytest.raises(InvalidInputError, match="on_kill is for tasks that call a function"),
    ):
        BashOperator(task_id="shell", bash_command="true", on_kill=print)


async def test_a_draining_worker_lets_its_tasks_finish(server: str, tmp_path: Path) -> None:
    """Not one of them is begun anew elsewhere, where its worker has the time to see it through."""
    mark, home = tmp_path / "mark", tmp_path / "home"
    place = WorkerContext(home=home, drain=timedelta(minutes=5))
    async with stack(server, home, no_remote_activities=True) as here:
        await here.tidemill.dags.register(of_file("takes_a_while"))
        async with second_worker(here, place):
            run = await here.tidemill.runs.trigger("takes_a_while", TriggerRequest(conf={"mark": str(mark)}))
            await eventually(lambda: asyncio.to_thread(mark.exists), bool)
        details = await here.finished("takes_a_while", run.run_id)
    assert mark.read_text().split() == ["began", "ended"]
    assert details.tasks[0].try_number == 1


async def test_a_stopped_workers_functions_go_on_elsewhere_as_the_same_try(server: str, tmp_path: Path) -> None:
    """That it was stopped is no failure of the task, also where the next worker finds what the first one left."""
    mark, home = tmp_path / "mark", tmp_path / "home"
    async with stack(server, home, no_remote_activities=True) as here:
        await here.tidemill.dags.register(of_file("takes_a_while"))
        async with second_worker(here, WorkerContext(home=home)):
            run = await here.tidemill.runs.trigger("takes_a_while", TriggerRequest(conf={"mark": str(mark)}))
            await eventually(lambda: asyncio.to_thread(mark.exists), bool)
        async with second_worker(here, WorkerContext(home=home)):
            details = await here.finished("takes_a_while", run.run_id)
    assert mark.read_text().split() == ["began", "began", "ended"]
    assert (details.state, details.tasks[0].try_number) == (RunState.SUCCESS, 1)


@asynccontextmanager
async def second_worker(here: Stack, place: WorkerContext) -> AsyncIterator[None]:
    client = await Client.connect(here.address, plugins=[TidemillPlugin(worker_context=place)])
    async with Worker(client, task_queue=here.task_queue):
        yield


async def test_a_task_with_one_start_is_not_started_again(server: str, tmp_path: Path) -> None:
    """At most once: when its worker is lost, nobody knows how far it came, and its retries decide."""
    mark = tmp_path / "mark"
    async with stack(server, tmp_path / "home", no_remote_activities=True) as here:
        task = bash("pay", f"echo began >> {mark}; sleep 600", max_starts=1)
        await here.tidemill.dags.register(dag("payment", [task]))
        env = worker_environment(server, here.home, here.task_queue)
        with worker_process(env) as first:
            run = await here.tidemill.runs.trigger("payment")
            await eventually(lambda: asyncio.to_thread(mark.exists), bool)
            first.kill()
        with worker_process(env):
            details = await here.finished("payment", run.run_id)
    assert mark.read_text().split() == ["began"]
    assert details.state is RunState.FAILED
    assert (details.tasks[0].error or "").startswith("WorkerLost")


async def test_a_killed_fork_server_costs_its_tasks_a_start_and_no_try(here: Stack, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = f"echo began >> {mark}; test $(wc -l < {mark}) -ge 2 || sleep 600"
    await here.tidemill.dags.register(dag("orphaned", [bash("a", command)]))
    run = await here.tidemill.runs.trigger("orphaned")
    await eventually(lambda: asyncio.to_thread(mark.exists), bool)
    for process in psutil.Process().children():
        if "tidemill.activities.work.fork_server" in process.cmdline():
            process.send_signal(signal.SIGKILL)
    details = await here.finished("orphaned", run.run_id)
    assert details.state is RunState.SUCCESS
    assert details.tasks[0].try_number == 1


async def test_a_sensor_leaves_no_folder_for_each_poke(here: Stack, tmp_path: Path) -> None:
    mark = tmp_path / "count"
    command = f"echo x >> {mark}; test $(wc -l < {mark}) -ge 40"
    sensor = {"kind": "bash_sensor", "task_id": "wait", "command": command, "poke_interval": 0.05}
    details = await here.run_once(dag("poked_often", [sensor]))
    assert details.state is RunState.SUCCESS
    folders = [path for path in (here.home / "attempts").rglob("*") if path.is_dir() and path.name.startswith("poke=")]
    assert len(folders) <= 2, folders


async def test_a_secret_of_the_import_is_masked_in_every_call(here: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that imports slowly is imported once: its calls know what it has looked up, and so does their log."""
    monkeypatch.setenv("TIDEMILL_VAR_WAREHOUSE_PASSWORD", "s3cret-of-the-import")
    [spec] = parse_dag_file(FILE.with_name("slow_import.py")).dags
    details = await here.run_once(spec)
    assert details.state is RunState.SUCCESS
    logs = [messages(path).strip() for path in (here.home / "logs" / "dag_id=slow_import").rglob("*.log")]
    assert sorted(logs) == [f"the password of {number} is ***" for number in range(1, 7)]


async def test_tasks_may_run_as_another_user(server: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        home, dags = Path(folder, "home"), Path(folder, "isolation.py")
        dags.write_text(FILE.read_text())
        place = WorkerContext(home=home, run_as=RunAs(65534, 65534))
        async with stack(server, home, place=place) as here:
            spec = next(spec for spec in parse_dag_file(dags).dags if spec.dag_id == "who")
            details = await here.run_once(spec)
            assert details.state is RunState.SUCCESS, [task.error for task in details.tasks]
            assert await here.result_of(details, "python") == 65534
            assert await here.result_of(details, "shell") == "65534"


def test_nobody_with_the_workers_uid_reads_its_environment() -> None:
    """The file of a process that cannot be dumped belongs to root, whoever runs it."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    code = (
        "import os, time; from tidemill.activities.processes.supervisor import hide_memory\n"
        "os.setgid(65534); os.setuid(65534); hide_memory(); print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True) as hidden:
        try:
            assert hidden.stdout is not None
            assert hidden.stdout.readline().strip() == "ready"
            read = f"import os; os.setgid(65534); os.setuid(65534); open('/proc/{hidden.pid}/environ').read()"
            told = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=False)
            assert "PermissionError" in told.stderr
        finally:
            hidden.kill()
