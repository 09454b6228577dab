"""The example of three teams: two that work together, and one whose attacks come to nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support import Stack, eventually, stack, told
from tidemill.activities.processes.users import RunAs
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.pool.state import PoolSettings
from tidemill.model.states import RunState

TEAMS = Path(__file__).parents[2] / "examples" / "teams"
KINDS = ("dag_id", "pool", "asset", "variable", "connection")
USERS = {"team_a": RunAs(1, 1), "team_b": RunAs(2, 2), "team_c": RunAs(65534, 65534)}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become other users")


@pytest.fixture
async def here(
    server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Stack, Path]]:
    for name, value in {"VAR_A_KEY": "ours", "VAR_B_KEY": "theirs", "CONN_B_DB": "pg://u:theirs@db"}.items():
        monkeypatch.setenv(f"TIDEMILL_{name}", value)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        home = Path(folder, "home")
        home.mkdir(mode=0o711)
        shutil.copytree(TEAMS, Path(folder, "teams"))
        users = USERS if getattr(request, "param", True) else {}
        async with stack(server, home, place=WorkerContext(home=home, run_as_users=users)) as made:
            await made.tidemill.pools.configure("a_pool", PoolSettings(slots=1))
            for team in USERS:
                path, prefix = str(Path(folder, "teams", team)), team.removeprefix("team_")
                owns = [word for kind in KINDS for word in ("--owns", f"{kind}={prefix}_")]
                await told(made, "bundles", "set", team, path, "--interval", "1", "--min-interval", "0", *owns)
                await made.tidemill.bundles.look(team)
            yield made, Path(folder)


async def tried(here: Stack) -> dict[str, str]:
    run = await here.tidemill.runs.trigger("c_tries")
    details = await here.finished("c_tries", run.run_id)
    assert details.state is RunState.SUCCESS, details
    return {task.key: str(await here.result_of(details, task.key)) for task in details.tasks}


async def kept_of(here: Stack, dag_id: str) -> set[str]:
    """What the audit log has of a DAG that was refused something."""
    lines = await told(here, "audit", "--refused", "--dag", dag_id, "--json")
    assert {line["who"] for line in lines} == {"bundle team_c"}
    return {f"{line['operation']} {line['about']['task_id']}" for line in lines}


@needs_root
async def test_two_teams_work_together_and_one_reaches_nothing(here: tuple[Stack, Path]) -> None:
    stack_, _ = here
    run = await stack_.tidemill.runs.trigger("a_sales")
    assert (await stack_.finished("a_sales", run.run_id)).state is RunState.SUCCESS
    after = await eventually(
        lambda: stack_.tidemill.runs.list("b_stock"), lambda runs: any(r.state.finished for r in runs)
    )
    assert after[0].state is RunState.SUCCESS
    for attack, came_to in (await tried(stack_)).items():
        assert came_to.startswith("refused: "), f"{attack} has reached {came_to}"
    assert await kept_of(stack_, "c_tries") == {
        "task.look_up another_team_s_variable",
        "task.look_up another_team_s_variable_by_setting_it",
        "task.look_up another_team_s_connection",
        "task.look_up files_of_the_worker_by_a_scope",
    }


@pytest.mark.thorough
@needs_root
@pytest.mark.parametrize("here", [False], indirect=True)
async def test_without_users_of_their_own_what_the_worker_answers_is_still_refused(here: tuple[Stack, Path]) -> None:
    """Files and processes are one user's there, as docs/security.md says. What a task asks for is another matter."""
    came_to = await tried(here[0])
    for attack in (
        "another_team_s_variable",
        "another_team_s_connection",
        "another_team_s_variable_by_setting_it",
        "files_of_the_worker_by_a_scope",
    ):
        assert came_to[attack].startswith("refused: "), f"{attack} has reached {came_to[attack]}"


@needs_root
async def test_files_that_take_what_is_others_are_refused_as_a_whole(here: tuple[Stack, Path]) -> None:
    files = {file.path: file.error or "" for file in await here[0].tidemill.bundles.files("team_c")}
    assert files["takes_a_name.py"].startswith("dag_id 'b_stock': its bundle owns the names that begin with 'c_'")
    assert files["takes_slots.py"].startswith("pool 'a_pool': its bundle owns the names that begin with 'c_'")
    assert "tidemill" in files["uses_tidemill.py"]
    lines = await told(here[0], "audit", "--refused", "--json")
    assert {line["about"].get("file"): line["reason"] for line in lines} == {
        f"team_c/{name}": error for name, error in files.items() if error
    }


@pytest.mark.thorough
@needs_root
async def test_a_dag_that_another_bundle_has_is_refused_and_kept_in_the_audit_log(here: tuple[Stack, Path]) -> None:
    stack_, folder = here
    (folder / "teams" / "thief").mkdir()
    (folder / "teams" / "thief" / "takes.py").write_text((folder / "teams" / "team_b" / "stock.py").read_text())
    await told(stack_, "bundles", "set", "thief", str(folder / "teams" / "thief"), "--interval", "1")
    await stack_.tidemill.bundles.look("thief")

    async def refusals() -> list[dict[str, object]]:
        lines = await told(stack_, "audit", "--refused", "--dag", "b_stock", "--json")
        return [line for line in lines if line["operation"] == "dag.register"]

    kept = await eventually(refusals, bool)
    assert kept[0]["who"] == "bundle thief"
    assert "b_stock" in str(kept[0]["reason"])
