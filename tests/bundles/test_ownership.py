"""Whose a DAG is, on a real server: nobody but its bundle replaces it, and a bundle has back what it has lost."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from bundle_folder import Folder
from support import Stack, bash, dag, eventually, told
from tidemill.model.bundle import state as bundle_state
from tidemill.model.bundle.data import BundleSettings
from tidemill.model.errors import InvalidInputError
from tidemill.model.states import RunState
from tidemill.worker.local.folder import keep_looking_after, watch_folder

PYTHON = """
from tidemill import DAG, task

with DAG("{dag_id}"):
    @task
    def works():
        return 1
    works()
"""


@pytest.fixture
async def folder(here: Stack, tmp_path: Path) -> Folder:
    path = tmp_path / "dags"
    path.mkdir()
    made = Folder(here, path, "owner")
    made.one("d.py", "d")
    await made.begin()
    await made.look()
    return made


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundles look every two seconds whether their DAGs are what they should be; also while histories are replayed."""
    monkeypatch.setattr(bundle_state, "COMPARE_EVERY", timedelta(seconds=2))


async def refresh(folder: Folder) -> None:
    await folder.here.tidemill.bundles.refresh(folder.name)


async def test_who_registers_by_hand_does_not_replace_a_dag_of_a_bundle(folder: Folder) -> None:
    before = (await folder.dag("d")).version
    with pytest.raises(InvalidInputError, match=r"is defined by .*d\.py of bundle 'owner', and would be replaced by"):
        await folder.here.tidemill.dags.register(dag("owner_d", [bash("a", "echo another")]))
    assert (await folder.dag("d")).version == before


async def test_a_person_says_whose_a_dag_is(folder: Folder, tmp_path: Path) -> None:
    """By hand it stays until its bundle is named again: then a refresh brings the bundle's version back."""
    version = (await folder.dag("d")).version
    assert "by hand" in await told(folder.here, "dags", "assign", "owner_d", "--by-hand")
    file = tmp_path / "mine.py"
    file.write_text(folder.path.joinpath("d.py").read_text().replace("echo done", "echo by hand"))
    await told(folder.here, "dags", "register", str(file))
    mine = (await folder.dag("d")).version
    assert mine != version
    await refresh(folder)
    assert (await folder.dag("d")).version == mine
    assert "is assigned to no bundle" in ((await folder.look())["d.py"].error or "")
    await told(folder.here, "dags", "assign", "owner_d", "--bundle", "owner")
    await refresh(folder)
    assert (await folder.dag("d")).version == version
    assert (await folder.look())["d.py"].error is None
    assert "whose is the DAG?" in await told(folder.here, "dags", "assign", "owner_d", code=1)
    assert "nowhere" in await told(folder.here, "dags", "assign", "owner_d", "--bundle", "nowhere", code=1)


@pytest.mark.parametrize("how", ["terminate", "delete"])
async def test_a_dag_that_was_ended_is_back_with_a_refresh(folder: Folder, how: str) -> None:
    version = (await folder.dag("d")).version
    if how == "delete":
        await folder.here.tidemill.dags.delete("owner_d")
    else:
        await folder.here.tidemill.client.get_workflow_handle("dag:owner_d").terminate()

    async def is_back() -> bool:
        await refresh(folder)  # the list that it is found missing in lags by moments
        return any(row.dag_id == "owner_d" for row in (await folder.here.tidemill.dags.list())[0])

    await eventually(is_back, bool)
    assert (await eventually(lambda: folder.dag("d"), lambda view: True)).version == version


@pytest.mark.faults
async def test_a_dag_that_was_ended_is_back_after_a_while(looks_often: None, here: Stack, tmp_path: Path) -> None:
    folder = Folder(here, tmp_path / "dags", "healed")
    folder.one("d.py", "d")
    await folder.begin()
    await folder.look()
    handle = here.tidemill.client.get_workflow_handle("dag:healed_d")
    first = (await handle.describe()).run_id
    await handle.terminate()
    await eventually(handle.describe, lambda found: found.run_id != first)


@pytest.mark.parametrize("by", [keep_looking_after, watch_folder])
@pytest.mark.faults
async def test_a_bundle_that_was_ended_is_back_where_somebody_looks_after_it(
    by: Callable[..., Coroutine[Any, Any, None]], here: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker with a folder does, and `tidemill dev`."""
    monkeypatch.setattr("tidemill.worker.local.folder.LOOKS_EVERY", 0.5)
    folder = Folder(here, tmp_path / "dags", f"back_{by.__name__}")
    folder.one("d.py", "d")
    looking = asyncio.create_task(by(here.tidemill, folder.path, folder.name))
    try:
        await eventually(lambda: folder.dag("d"), bool)
        await here.tidemill.client.get_workflow_handle(f"bundle:{folder.name}").terminate()
        folder.one("later.py", "later")
        await eventually(lambda: folder.dag("later"), bool)
    finally:
        looking.cancel()


@pytest.mark.faults
async def test_code_that_is_gone_is_kept_again_by_its_bundle(looks_often: None, here: Stack, tmp_path: Path) -> None:
    """As where a worker's home was removed, or a store was begun anew."""
    folder = Folder(here, tmp_path / "dags", "keeps")
    folder.write("d.py", PYTHON.format(dag_id="keeps_d"))
    await folder.begin()
    await folder.look()

    async def ends_well() -> bool:
        run = await here.tidemill.runs.trigger("keeps_d")
        return (await here.finished("keeps_d", run.run_id)).state is RunState.SUCCESS

    assert await ends_well()
    shutil.rmtree(here.home / "xcom")
    for folders in (here.home / "snapshots").iterdir():
        writable(folders)
        shutil.rmtree(folders)
    await eventually(ends_well, bool)


def writable(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


async def test_another_bundle_takes_a_dag_that_is_assigned_to_it(folder: Folder, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "d.py").write_text(folder.path.joinpath("d.py").read_text().replace("echo done", "echo other"))
    settings = BundleSettings(name="taker", path=str(other), dag_dir_list_interval=timedelta(seconds=1))
    tidemill = folder.here.tidemill
    await tidemill.bundles.configure(settings)
    refused = {file.path: file for file in await tidemill.bundles.look("taker")}["d.py"].error or ""
    assert "tidemill dags assign owner_d --bundle taker" in refused
    await tidemill.dags.assign("owner_d", "taker")
    await tidemill.bundles.refresh("taker")
    assert (await folder.dag("d")).source == str(other / "d.py")
    await refresh(folder)
    assert (await folder.dag("d")).source == str(other / "d.py")
