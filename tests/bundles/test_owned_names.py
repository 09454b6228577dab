"""A bundle that owns prefixes: what is outside of them is refused, in files and while tasks run."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundle_folder import Folder
from support import Stack, told
from tidemill.model.states import RunState, TaskState

OUTSIDE = """
from tidemill import DAG, BashOperator
with DAG("b_daily"):
    BashOperator(task_id="x", bash_command="true")
"""
LOOKS = """
from tidemill import DAG, AssetAlias, Asset, Variable, task
with DAG("a_looks"):
    @task
    def mine():
        return Variable.get("a_key")
    @task
    def others():
        return Variable.get("b_key")
    @task(outlets=[AssetAlias("a_alias")])
    def tells(*, outlet_events):
        outlet_events[AssetAlias("a_alias")].add(Asset("b_asset"))
    mine(), others(), tells()
"""


@pytest.fixture
async def folder(here: Stack, tmp_path: Path) -> Folder:
    path = tmp_path / "dags"
    path.mkdir()
    made = Folder(here, path, "team_a")
    owns = ("--owns", "dag_id=a_", "--owns", "pool=a_", "--owns", "asset=a_", "--owns", "variable=a_")
    await told(here, "bundles", "set", "team_a", str(path), "--interval", "1", "--min-interval", "0", *owns)
    return made


async def test_a_file_outside_is_refused_until_its_bundle_owns_more(folder: Folder) -> None:
    (folder.path / "outside.py").write_text(OUTSIDE)
    error = (await folder.look())["outside.py"].error or ""
    assert error.startswith("dag_id 'b_daily': its bundle owns the names that begin with 'a_', and no others.")
    where = ("bundles", "set", "team_a", str(folder.path), "--interval", "1", "--min-interval", "0")
    await told(folder.here, *where, "--owns", "dag_id=a_", "--owns", "dag_id=b_")
    assert (await folder.look())["outside.py"].error is None
    assert (await folder.here.tidemill.dags.describe("b_daily")).dag_id == "b_daily"
    assert "is no KIND=PREFIX" in await told(folder.here, *where, "--owns", "dags=a_", code=1)


async def test_a_task_gets_its_own_variables_and_tells_of_its_own_assets(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_VAR_A_KEY", "mine")
    monkeypatch.setenv("TIDEMILL_VAR_B_KEY", "theirs")
    (folder.path / "looks.py").write_text(LOOKS)
    assert (await folder.look())["looks.py"].error is None
    run = await folder.here.tidemill.runs.trigger("a_looks")
    assert await folder.here.tidemill.runs.wait(run) is RunState.FAILED
    details = await folder.here.tidemill.runs.describe("a_looks", run.run_id)
    states = {task.key: task.state for task in details.tasks}
    assert states == {"mine": TaskState.SUCCESS, "others": TaskState.FAILED, "tells": TaskState.FAILED}
    errors = {task.key: str(task.error) for task in details.tasks}
    assert "variable 'b_key': its bundle owns" in errors["others"]
    assert "asset 'b_asset': its bundle owns" in errors["tells"]
