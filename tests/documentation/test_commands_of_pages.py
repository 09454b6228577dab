"""The commands that the documentation shows, run page by page and line by line in a world that the page speaks of."""

import asyncio
import re
import shlex
import signal
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from forked_commands import forked
from support import Stack, eventually, worker_environment
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.states import TaskState
from tidemill.worker.app.dev import free_port, temporal_binary
from tidemill.worker.service.connection import EndedError, NotFoundError

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(900)  # dozens of commands, each a process of its own
IN_ANOTHER_TEST = {
    "tidemill dev": "tests/bundles/test_commands.py",
    "airflowctl": "tests/api/test_api.py",
    "make demo": "tests/worker/test_demo.py",
    "tidemill ui install": "tests/api/test_api.py",
}
NOT_HERE = ("docker ", "kubectl ")
"""What needs a Docker engine or a cluster; tests/test_deployment.py compares the manifests with their schemas."""
OF_A_SHELL = ("export TEMPORAL_", "python3 -m venv", "pip install", "mkdir ", "make test")
"""What is set, or installed before there is anything to run; CONTRIBUTING has a fresh checkout do it."""


@dataclass
class World:
    """A folder, and the worker of a test."""

    here: Stack
    folder: Path
    replaced: dict[str, str] = field(default_factory=dict)
    """Texts of the page, such as paths, by what stands for them here."""
    exported: dict[str, str] = field(default_factory=dict)

    @property
    def dags(self) -> Path:
        return self.folder / "dags"

    async def has(self, name: str, text: str) -> None:
        """Has a DAG file as *text*, and its DAGs registered in place of those of before."""
        self.dags.mkdir(exist_ok=True)
        file = self.dags / name
        file.write_text(text)
        await self.command(f"tidemill dags register {file}")

    async def ends(self, dag_id: str, within: float = 120) -> None:
        """Waits until no run of the DAG is under way."""
        await eventually(
            lambda: self.here.tidemill.runs.list(dag_id), lambda runs: all(run.state.finished for run in runs), within
        )

    async def has_run(self, dag_id: str) -> None:
        await self.command(f"tidemill dags trigger {dag_id}")
        await self.ends(dag_id)

    async def anew(self, name: str, text: str, dag_id: str = "sales") -> None:
        """Has the DAG begin anew, with nothing of its past."""
        with suppress(NotFoundError, EndedError):
            await self.here.tidemill.dags.pause(dag_id)
            await self.here.tidemill.runs.cancel_all(dag_id)
            await self.ends(dag_id)
            await self.here.tidemill.dags.delete(dag_id)
        await self.has(name, text)

    async def command(self, line: str) -> str:
        """What the command prints, once it has ended well."""
        env = {**worker_environment(self.here.address, self.here.home, self.here.task_queue), **self.exported}
        words = shlex.split(self.text_of(line), comments=True)
        exported = words[0] == "export"
        while words and ("=" in words[0] or words[0] == "export"):
            name, _, env[name] = words.pop(0).partition("=")
            if exported and name.startswith("TIDEMILL_"):  # the others say where Temporal is
                self.exported[name] = env[name]
        words = words or ["tidemill", "dags", "list"]  # which reads what was set
        words[0] = {"tidemill": forked(), "temporal": temporal_binary()}[words[0]]
        if words[1] in PROCESSES:
            return await PROCESSES[words[1]](words, env, self.folder)
        done = await asyncio.to_thread(
            subprocess.run, words, env=env, cwd=self.folder, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, f"{line}\nexit code {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return str(done.stdout)

    def text_of(self, line: str) -> str:
        for ours, text in self.replaced.items():
            line = line.replace(text, ours)
        return line


async def worker_that_is_ready(words: list[str], env: dict[str, str], folder: Path) -> str:
    port = free_port()
    await _process([*words], {**env, "TIDEMILL_HEALTH_ADDRESS": f"127.0.0.1:{port}"}, folder, f":{port}/readyz")
    return ""


async def web_that_answers(words: list[str], env: dict[str, str], folder: Path) -> str:
    port = free_port()
    await _process([*words, "--port", str(port)], env, folder, f":{port}/api/v2/version")
    return ""


async def _process(words: list[str], env: dict[str, str], folder: Path, answers: str) -> None:
    """Starts what goes on until it is stopped, waits until it answers, stops it."""
    log = folder / "process.log"
    with log.open("w") as out:
        process = subprocess.Popen(words, env=env, cwd=folder, stdout=out, stderr=subprocess.STDOUT)
    try:
        await eventually(lambda: asyncio.to_thread(_answers, process, answers, log), bool)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 60) in (0, -signal.SIGTERM), log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _answers(process: "subprocess.Popen[bytes]", path: str, log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        urlopen(f"http://127.0.0.1{path}", timeout=5).close()
    except HTTPError as error:  # it is called otherwise, or wants to know who asks
        return error.code < 500
    except OSError:
        return False
    return True


PROCESSES = {"worker": worker_that_is_ready, "api-server": web_that_answers}


def lines_of(page: str) -> list[str]:
    """The commands of a page, in their order; those that go on in the next line as one."""
    text = (ROOT / page).read_text()
    shown = "".join(re.findall(r"```(?:sh|console)\n(.*?)```", text, re.DOTALL)).replace("\\\n", " ")
    whole = re.sub(r"'\{[^']*\}'", lambda found: found[0].replace("\n", " "), shown)
    return [line.removeprefix("$ ") for line in whole.splitlines() if line.strip()]


async def follow(world: World, page: str, before: dict[str, Callable[[World], Awaitable[None]]] | None = None) -> None:
    """Runs the commands of a page. *before* has what has to happen before the line that begins with its name."""
    before = dict(before or {})
    for line in lines_of(page):
        for name in [name for name in before if line.startswith(name)]:
            await before.pop(name)(world)
        if line.startswith((*OF_A_SHELL, *NOT_HERE)) or any(line.startswith(start) for start in IN_ANOTHER_TEST):
            continue
        await world.command(line)
    assert not before, f"{page} has no line that begins with {[*before]}"


SALES = """
from datetime import datetime
from tidemill import DAG, ApprovalOperator, BashOperator

with DAG("sales", schedule="@daily", start_date=datetime(2026, 1, 1)):
    {load} >> {publish}
"""
FAST = SALES.format(
    load='BashOperator("load", bash_command="echo loading")', publish='BashOperator("publish", bash_command="true")'
)
SLOW = SALES.format(
    load='BashOperator("load", bash_command="sleep 600")', publish='BashOperator("publish", bash_command="true")'
)
ASKS = SALES.format(load='BashOperator("load", bash_command="true")', publish='ApprovalOperator("publish")')


def block(page: str, having: str) -> str:
    """The block of Python of a page that has *having* in it."""
    found: list[str] = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    [text] = [text for text in found if having in text]
    return text


@pytest.fixture
def world(here: Stack, tmp_path: Path) -> World:
    return World(here, tmp_path)


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial/first_dag.md"])
async def test_the_first_dag(world: World, page: str) -> None:
    text = block("docs/tutorial/first_dag.md", 'DAG("first"')
    await world.has("first.py", text)

    async def ended(world: World) -> None:
        await world.ends("first")

    async def broken(world: World) -> None:
        await world.has("first.py", text.replace("{{ ds }}", "{{ dss }}"))
        await world.has_run("first")

    async def mended(world: World) -> None:
        await world.has("first.py", text)

    before = {"tidemill runs show": ended}
    if page != "README.md":
        before |= {"tidemill tasks explain": broken, "tidemill runs clear": mended}
    await follow(world, page, before)
    await world.ends("first")
    [newest, *_] = await world.here.tidemill.runs.list("first")
    assert newest.state == "success"


@pytest.mark.thorough
@pytest.mark.spark
async def test_the_first_pipeline(world: World) -> None:
    page = "docs/tutorial/first_spark.md"
    (world.folder / "dags" / "apps").mkdir(parents=True)
    (world.folder / "dags" / "apps" / "load.py").write_text(block(page, "import argparse"))
    text = block(page, "spark_submit(").replace("/tmp/lake", str(world.folder))
    text = text.replace("catchup=True", "catchup=False")  # one run of it is enough
    await world.has("sales.py", text)
    await world.command("tidemill dags trigger sales")
    await world.ends("sales", within=280)
    await follow(world, page)
    assert {run.state for run in await world.here.tidemill.runs.list("sales")} == {"success"}


@pytest.mark.thorough
async def test_the_first_backfill(world: World) -> None:
    await world.has("sales.py", FAST)
    await follow(world, "docs/tutorial/first_backfill.md", {"tidemill backfill list": backfill_under_way})


async def backfill_under_way(world: World) -> None:
    await world.anew("sales.py", SLOW)
    days = BackfillRequest.model_validate({"from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-05T00:00:00Z"})
    await world.here.tidemill.backfills.create("sales", days)


@pytest.mark.thorough
async def test_operating(world: World) -> None:
    world.replaced = {f"127.0.0.1:{free_port()}": "collector:4318"}
    await world.has("sales.py", FAST)

    async def has_run(world: World) -> None:
        await world.anew("sales.py", FAST)
        await world.has_run("sales")

    async def ended(world: World) -> None:
        await world.ends("sales")

    async def under_way(world: World) -> None:
        await world.has("sales.py", SLOW)
        run = await world.here.tidemill.runs.trigger("sales")
        await eventually(
            lambda: world.here.tidemill.runs.find("sales", run.run_id), lambda found: found.state == "running"
        )

    async def asked(world: World) -> None:
        await world.has("sales.py", ASKS)
        run = await world.here.tidemill.runs.trigger("sales")
        await eventually(
            lambda: world.here.tidemill.runs.describe("sales", run.run_id),
            lambda found: any(task.key == "publish" and task.state is TaskState.AWAITING_INPUT for task in found.tasks),
        )

    await follow(world, "docs/operating.md", {
        "tidemill backfill list": backfill_under_way,
        "tidemill runs list": has_run,
        "tidemill runs mark": ended,
        "tidemill runs cancel": under_way,
        "tidemill tasks logs": has_run,
        "tidemill tasks mark": ended,
        "tidemill tasks respond": asked,
        "tidemill dags test": lambda world: world.has("sales.py", FAST),
    })  # fmt: skip


async def test_bundles(world: World) -> None:
    team, repository = world.folder / "team", world.folder / "pipelines.git"
    team.mkdir()
    (team / "team.py").write_text(FAST)
    (repository / "dags").mkdir(parents=True)
    (repository / "dags" / "released.py").write_text(FAST.replace('"sales"', '"released"'))
    for words in (
        ["init", "-q", "-b", "production"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first"],
    ):
        subprocess.run(["git", *words], cwd=repository, check=True)
    world.replaced = {str(team): "/dags/team", str(repository): "/srv/pipelines.git"}
    await follow(world, "docs/dag_files.md")
    await eventually(lambda: world.here.tidemill.dags.spec("released"), bool)


ETL = """
from datetime import datetime
from tidemill import DAG, BashOperator

with DAG("etl", schedule="@daily", start_date=datetime(2026, 1, 1)):
    BashOperator("extract", bash_command="true") >> BashOperator("load", bash_command="false")
"""


SIX = """
from datetime import datetime
from tidemill import DAG, BashOperator

for number in range(6):
    with DAG(f"etl_{number}", schedule="@hourly", start_date=datetime(2026, 1, 2), catchup=True, max_active_runs=1):
        BashOperator("load", bash_command="true", pool="db")
"""


@pytest.mark.thorough
async def test_replay_and_simulation(world: World) -> None:
    await world.has("etl.py", ETL)
    await world.has_run("etl")
    await follow(world, "docs/replay.md")

    async def six(world: World) -> None:
        (world.dags / "six.py").write_text(SIX)

    await follow(world, "docs/simulate.md", {"tidemill simulate dags/": six})
    assert (world.folder / "simulation.png").stat().st_size > 0


async def test_installing_migrating_and_deploying(world: World) -> None:
    await world.has("sales.py", FAST)
    for page in ("docs/installation.md", "docs/airflow_files.md", "docs/kubernetes.md"):
        await follow(world, page)


@pytest.mark.thorough
async def test_assets(world: World) -> None:
    await world.has("assets.py", block("docs/assets.md", 'DAG("load_orders"'))
    await eventually(lambda: world.here.tidemill.assets.describe("orders"), lambda found: bool(found.producers))
    await follow(world, "docs/assets.md")
    assert (world.folder / "assets.svg").stat().st_size > 0


async def test_temporals_own_command_line(world: World) -> None:
    (world.folder / "examples").symlink_to(ROOT / "examples")
    world.replaced = {f"temporal workflow --address {world.here.address}": "temporal workflow"}
    world.replaced |= {f"--task-queue {world.here.task_queue}": "--task-queue tidemill"}

    async def ended(world: World) -> None:
        await world.here.finished("hello", "mine")

    questions = "temporal workflow query --workflow-id dag:hello --type describe"
    await follow(world, "docs/temporal.md", {questions: ended})
    await world.ends("hello")


async def test_the_web(world: World) -> None:
    world.replaced = {"127.0.0.1": "0.0.0.0", str(world.folder): "/var/lib/tidemill"}
    world.replaced |= {f"{world.here.home}/api_tokens.json": ".tidemill/api_tokens.json"}
    await follow(world, "docs/ui.md")


async def test_settings_of_spark(world: World) -> None:
    await follow(world, "docs/spark.md")


def test_no_page_with_commands_is_left_out() -> None:
    followed = set(re.findall(r'"((?:docs/)[\w/]+\.md|README\.md)"', Path(__file__).read_text()))
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert {str(page.relative_to(ROOT)) for page in pages if lines_of(str(page.relative_to(ROOT)))} <= followed
    assert {name for name in IN_ANOTHER_TEST.values() if not (ROOT / name).is_file()} == set()
