"""How people lay out their repositories: what is above, beside and below a DAG file is found as by Airflow."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from airflow_stack import PYTHON, airflow_place, answer_of, needs_airflow
from forked_commands import forked
from support import Stack, at, eventually, stack, told
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.model.states import RunState
from tidemill.worker.migration.files import Verdict, check_files

pytestmark = needs_airflow
ABOVE = """
import sys
from datetime import datetime
from pathlib import Path
sys.path.append(str(Path(__file__).resolve().parent.parent))
from airflow.sdk import dag, task
from shared_of_above.settings import NAME
@dag(schedule=None, start_date=datetime(2026, 11, 1))
def outer_job():
    @task
    def where(): return NAME
    where()
outer_job()
"""
LATER = """
from pathlib import Path
from airflow.sdk import DAG, task
HERE = Path(__file__).resolve().parent
TOP = HERE.parent
with DAG("later_job", schedule=None):
    @task
    def reads():
        return (TOP / "sql" / "query.sql").read_text()
    reads()
"""
INSIDE = """
from pathlib import Path
from airflow.sdk import DAG, task
with DAG("inside_job", schedule=None):
    @task
    def reads():
        return (Path(__file__).parent / "query.sql").read_text()
    TEXT = (Path(__file__).parent / "query.sql").read_text()
    reads()
"""


@pytest.fixture
def place(tmp_path: Path) -> WorkerContext:
    return airflow_place(tmp_path / "home")


@pytest.fixture
async def airflow(server: str, tmp_path: Path, place: WorkerContext) -> AsyncIterator[Stack]:
    async with stack(server, tmp_path / "home", place=place) as made:
        yield made


async def ran(airflow: Stack, folder: Path, bundle: str, dag_id: str) -> Any:
    """What the only task of a bundle's DAG returns."""
    await told(airflow, "bundles", "set", bundle, str(folder), "--interval", "1", "--min-interval", "0")
    await eventually(lambda: airflow.tidemill.dags.describe(dag_id), bool)
    await airflow.tidemill.dags.pause(dag_id, paused=False)
    run = await airflow.tidemill.runs.trigger(dag_id)
    details = await airflow.finished(dag_id, run.run_id)
    assert details.state is RunState.SUCCESS, [task.error for task in details.tasks]
    return await airflow.result_of(details, details.tasks[0].key)


async def test_what_is_above_the_folder_is_found_by_tasks_too(airflow: Stack, tmp_path: Path) -> None:
    """Imported while the file is read, or opened by a task later: such a file runs where it lies."""
    project = tmp_path / "project"
    (project / "dags").mkdir(parents=True)
    (project / "shared_of_above").mkdir()
    (project / "shared_of_above" / "__init__.py").touch()
    (project / "shared_of_above" / "settings.py").write_text('NAME = "of above"')
    (project / "sql").mkdir()
    (project / "sql" / "query.sql").write_text("SELECT 1")
    (project / "dags" / "job.py").write_text(ABOVE)
    (project / "dags" / "later.py").write_text(LATER)
    assert await ran(airflow, project / "dags", "above", "outer_job") == "of above"
    assert await ran(airflow, project / "dags", "above", "later_job") == "SELECT 1"
    specs = [await airflow.tidemill.dags.spec(dag_id) for dag_id in ("outer_job", "later_job")]
    assert [spec.source.snapshot for spec in specs if spec.source is not None] == [None, None]
    found = json.loads(await run_cli("dags", "validate", str(project / "dags"), "--json"))
    notices = {Path(one["path"]).name: one["notice"] for one in found["notices"] if "run the file" in one["notice"]}
    assert "shared_of_above/settings.py beside its folder" in notices["job.py"]
    assert "paths above its folder" in notices["later.py"]


async def test_what_is_inside_the_folder_is_kept_with_the_version(airflow: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "project" / "dags"
    folder.mkdir(parents=True)
    (folder / "query.sql").write_text("SELECT 2")
    (folder / "job.py").write_text(INSIDE)
    assert await ran(airflow, folder, "inside", "inside_job") == "SELECT 2"
    source = (await airflow.tidemill.dags.spec("inside_job")).source
    assert source is not None
    assert source.snapshot is not None


def test_folders_beside_a_file_do_not_hide_packages(place: WorkerContext, tmp_path: Path) -> None:
    """As Airflow has it, which looks there last; a module of one's own is found there all the same."""
    (tmp_path / "dags" / "kubernetes").mkdir(parents=True)
    (tmp_path / "dags" / "kubernetes" / "__init__.py").touch()
    (tmp_path / "dags" / "own_of_layouts.py").write_text("NAME = 'shadow_pods'")
    file = tmp_path / "dags" / "pods.py"
    file.write_text(
        "from airflow.sdk import DAG, task\nfrom kubernetes.client import models\nimport own_of_layouts\n"
        "with DAG(own_of_layouts.NAME, schedule=None):\n    @task\n    def one(): return models.V1Pod.__name__\n"
        "    one()\n"
    )
    assert list(specs(place, file)) == ["shadow_pods"]


def test_what_only_airflows_environment_has_may_be_imported_first(place: WorkerContext, tmp_path: Path) -> None:
    file = tmp_path / "first.py"
    body = "with DAG('imports_first', schedule=None): BashOperator(task_id='a', bash_command='true')\n"
    imports = "from airflow.sdk import DAG\nfrom airflow.providers.standard.operators.bash import BashOperator\n"
    file.write_text(f"import kubernetes\n{imports}{body}")
    assert list(specs(place, file)) == ["imports_first"]
    file.write_text(f"import kubernetes\nimport nowhere_to_be_found\n{imports}{body}")
    assert "No module named 'nowhere_to_be_found'" in str(answer_of(place, file).error)
    file.write_text("import nowhere_to_be_found\nfrom tidemill import DAG\n")
    assert "No module named 'nowhere_to_be_found'" in str(answer_of(place, file).error)


def specs(place: WorkerContext, file: Path) -> dict[str, DagSpec]:
    answer = answer_of(place, file)
    assert answer.error is None, answer.error
    return {dag["dag_id"]: read_dag(dag) for dag in answer.dags}


@pytest.mark.thorough
@pytest.mark.parametrize(("imports", "command"), [
    ("from airflow.sdk import DAG\nfrom airflow.providers.standard.operators.bash import BashOperator", "true"),
    ("from tidemill import DAG, BashOperator", "true"),
])  # fmt: skip
async def test_commands_find_the_root_of_a_file_below_it(tmp_path: Path, imports: str, command: str) -> None:
    dags = tmp_path / "dags"
    (dags / "common_of_layouts").mkdir(parents=True)
    (dags / "common_of_layouts" / "__init__.py").touch()
    (dags / "common_of_layouts" / "names.py").write_text("NAME = 'load_below'")
    (dags / "etl").mkdir()
    file = dags / "etl" / "load.py"
    file.write_text(
        f"{imports}\nfrom common_of_layouts.names import NAME\n"
        f"with DAG(NAME, schedule='@daily'):\n    BashOperator(task_id='a', bash_command='{command}')\n"
    )
    assert "load_below" in await run_cli("dags", "validate", str(file), "--json")
    assert "success" in await run_cli("dags", "test", str(file), "load_below", "2026-01-01")
    assert "load_below" in await run_cli("dags", "preview", str(file))


async def run_cli(*argv: str) -> str:
    env = {**os.environ, "TIDEMILL_AIRFLOW_PYTHON": str(PYTHON), "COLUMNS": "200"}
    done = subprocess.run([forked(), *argv], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("offset", ["hours=-5", "hours=5, minutes=30"])
def test_a_start_date_may_have_a_fixed_offset(place: WorkerContext, tmp_path: Path, offset: str) -> None:
    file = tmp_path / "offset.py"
    start = f"datetime(2026, 11, 1, tzinfo=timezone(timedelta({offset})))"
    file.write_text(
        "from datetime import datetime, timedelta, timezone\nfrom airflow.sdk import DAG\n"
        "from airflow.providers.standard.operators.empty import EmptyOperator\n"
        f"with DAG('offset', schedule='0 3 * * *', start_date={start}, catchup=True): EmptyOperator(task_id='a')\n"
    )
    spec = specs(place, file)["offset"]
    first = spec.schedule.next_dagrun_info(None, spec.restriction, at("2026-11-10"))
    assert first is not None
    expected = "2026-11-01T08:00:00" if offset == "hours=-5" else "2026-10-31T21:30:00"
    assert str(first.run_after.isoformat()).startswith(expected)


def test_the_check_before_the_move_says_what_is_needed(
    place: WorkerContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place
    monkeypatch.setenv("DEPLOY_ENV_OF_LAYOUTS", "x")
    head = "from airflow.sdk import DAG, Variable\nimport os\n"
    files = {
        "interval.py": "DAG('a', schedule_interval='@daily')\n",
        "variable.py": "TO = Variable.get('TEAM_MAIL')\nDAG('b', schedule=None)\n",
        "environment.py": "ENV = os.environ['DEPLOY_ENV_OF_LAYOUTS']\nDAG('c', schedule=None)\n",
        "connection.py": "from airflow.sdk import BaseHook\nBaseHook.get_connection('lake')\nDAG('d', schedule=None)\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(head + text)
    found = {file.path: file for file in check_files(tmp_path, str(PYTHON), ())}
    assert {name: file.verdict for name, file in found.items()} == dict.fromkeys(files, Verdict.NEEDS), found
    said = {name: file.notices[0] for name, file in found.items()}
    assert "write schedule=" in said["interval.py"]
    assert "TEAM_MAIL" in said["variable.py"]
    assert "'lake'" in said["connection.py"]
    assert said["environment.py"].endswith("TIDEMILL_TASK_ENVIRONMENT='[\"DEPLOY_ENV_OF_LAYOUTS\"]'")
