"""From a real Airflow to tidemill: files checked, schedules that go on where they were, secrets that stay secret."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow_stack import PYTHON, airflow_place, needs_airflow, read_file
from forked_commands import forked
from old_airflow import KEY, OldAirflow
from support import Stack, stack, worker_environment
from tidemill.model.dag.hand_over import HandOver
from tidemill.model.errors import InvalidInputError
from tidemill.model.spec.timetables import DataInterval
from tidemill.worker.migration.database import read_database
from tidemill.worker.migration.files import Verdict, causes, check_files

pytestmark = [needs_airflow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> OldAirflow:
    """An Airflow that has made some runs, and has stopped."""
    made = OldAirflow(tmp_path_factory.mktemp("old") / "airflow")
    made.live()
    return made


@pytest.fixture
async def here(server: str, tmp_path: Path) -> Any:
    home = tmp_path / "home"
    async with stack(server, home, place=airflow_place(home)) as made:
        yield made


async def command(made: Stack, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Calls tidemill beside the worker of this test, which has to answer meanwhile."""
    env = {**worker_environment(made.address, made.home, made.task_queue), "TIDEMILL_AIRFLOW_PYTHON": str(PYTHON)}
    argv = [forked(), *arguments]
    return await asyncio.to_thread(
        subprocess.run, argv, env={**env, **more}, capture_output=True, text=True, check=False
    )


async def registered(made: Stack, old: OldAirflow) -> None:
    """Airflow's DAGs, paused, as with TIDEMILL_DAGS_ARE_PAUSED_AT_CREATION."""
    place = airflow_place(made.home)
    try:
        specs = read_file(place, old.dags / "moving.py")
    finally:
        place.close()
    for spec in specs.values():
        await made.tidemill.dags.register(spec.model_copy(update={"is_paused_upon_creation": True}))


def next_runs_of_airflow(old: OldAirflow) -> dict[str, datetime]:
    """What Airflow's own scheduler would have made next."""
    with sqlite3.connect(old.home / "airflow.db") as connection:
        rows = connection.execute("SELECT dag_id, next_dagrun FROM dag WHERE next_dagrun IS NOT NULL").fetchall()
    return {dag_id: datetime.fromisoformat(date).replace(tzinfo=UTC) for dag_id, date in rows}


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["database", "api"])
async def test_the_first_run_here_is_the_one_that_airflow_would_have_made_next(
    here: Stack, old: OldAirflow, tmp_path: Path, way: str
) -> None:
    await registered(here, old)
    wanted = next_runs_of_airflow(old)
    secrets = tmp_path / "secrets.json"
    if way == "database":
        where = ["--airflow-db", old.database]
        done = await command(
            here, "migrate", "import", *where, "--secrets-file", str(secrets), "--json", AIRFLOW__CORE__FERNET_KEY=KEY
        )
    else:
        with old.api() as (url, token):
            where = ["--airflow-api", url, "--token", token]
            done = await command(here, "migrate", "import", *where, "--secrets-file", str(secrets), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    brought = {dag["dag_id"]: dag for dag in told["dags"]}
    assert {*brought} == {"moving_caught_up", "moving_latest", "moving_manual", "moving_paused"}
    assert {dag_id for dag_id, dag in brought.items() if dag["is_paused"]} == {"moving_paused"}
    for dag_id in ("moving_caught_up", "moving_latest"):
        dates = [run.logical_date for run in await here.tidemill.runs.list(dag_id)]
        dates += [info.logical_date for info in await here.tidemill.dags.upcoming(dag_id, 1)]
        assert min(date for date in dates if date is not None) == wanted[dag_id]
    runs = await here.all_finished("moving_caught_up", 2)
    dates = [run.logical_date for run in runs]
    assert dates == [wanted["moving_caught_up"] + n * timedelta(hours=1) for n in range(len(runs))]
    [pool] = [pool for pool in await here.tidemill.pools.list() if pool.name == "few"]
    assert (pool.settings.slots, pool.settings.include_deferred) == (3, True)
    kept = json.loads(secrets.read_text())
    assert kept["variables"]["plain"] == "value"
    assert secrets.stat().st_mode & 0o777 == 0o600
    if way == "database":
        assert kept["variables"]["api_key"] == "told to nobody"
        assert kept["connections"]["store"]["password"] == "open-sesame"
        assert kept["connections"]["store"]["extra"] == {"timeout": 3}
    else:
        assert {*told["hidden"]} == {"variable api_key", "connection store"}
        assert "api_key" not in kept["variables"]
    again = await command(here, "migrate", "import", "--airflow-db", old.database, "--json")
    assert again.returncode != 0  # without the key, nothing is half done
    assert "AIRFLOW__CORE__FERNET_KEY" in again.stderr


@pytest.mark.thorough
async def test_a_dag_that_has_made_runs_here_is_not_set_back(here: Stack, old: OldAirflow) -> None:
    await registered(here, old)
    facts = read_facts(old)
    interval = facts["moving_caught_up"]
    assert await here.tidemill.dags.take_over("moving_caught_up", HandOver(last_interval=interval))
    assert not await here.tidemill.dags.take_over(
        "moving_caught_up", HandOver(last_interval=interval)
    )  # once is enough
    other = DataInterval(start=interval.start - timedelta(days=1), end=interval.end - timedelta(days=1))
    with pytest.raises(InvalidInputError, match="has made runs of its schedule here"):
        await here.tidemill.dags.take_over("moving_caught_up", HandOver(last_interval=other))


def read_facts(old: OldAirflow) -> dict[str, DataInterval]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__FERNET_KEY", KEY)
        facts = read_database(old.database)
    return {dag.dag_id: dag.last_interval for dag in facts.dags if dag.last_interval is not None}


def test_each_file_is_told_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "fine.py").write_text("from airflow.sdk import DAG\nfine = DAG('fine', schedule=None)\n")
    (tmp_path / "old.py").write_text("# a DAG\nfrom airflow.operators.bash_operator import BashOperator\n")
    (tmp_path / "provider.py").write_text("# a DAG\nimport airflow.providers.snowflake.hooks.snowflake\n")
    (tmp_path / "broken.py").write_text("from airflow.sdk import DAG\nDAG('a b', schedule=None)\n")
    (tmp_path / "helper.py").write_text("# for DAGs of Airflow\nX = 1\n")
    (tmp_path / "script.py").write_text("1 / 0\n")
    found = {file.path: file for file in check_files(tmp_path, str(PYTHON))}
    assert {path: file.verdict for path, file in found.items()} == {
        "fine.py": Verdict.RUNS,
        "old.py": Verdict.NEEDS,
        "provider.py": Verdict.NEEDS,
        "broken.py": Verdict.CANNOT,
        "helper.py": Verdict.NO_DAG,
        "script.py": Verdict.NOT_READ,
    }
    assert "airflow.providers.standard.operators.bash.BashOperator" in found["old.py"].notices[0]
    assert "apache-airflow-providers-snowflake" in found["provider.py"].notices[0]
    assert "broken.py:2" in found["broken.py"].notices[0]


def test_all_that_is_gone_is_named_at_once_in_files_and_plugins(tmp_path: Path) -> None:
    """A file's import ends at its first: the others are found by reading, and what most files need comes first."""
    dags, plugins = tmp_path / "dags", tmp_path / "plugins"
    dags.mkdir()
    plugins.mkdir()
    old = "# a DAG\nfrom airflow.operators.bash_operator import BashOperator\n"
    (dags / "one.py").write_text(old)
    more = "from airflow.contrib.hooks.ssh_hook import SSHHook\nimport airflow.utils.dates\n"
    (dags / "two.py").write_text(old + more)
    (plugins / "own.py").write_text("from airflow.hooks.base_hook import BaseHook\n")
    (plugins / "fine.py").write_text("from airflow.sdk import BaseHook\n")
    found = list(check_files(dags, str(PYTHON)))
    two = next(file for file in found if file.path == "two.py")
    assert [need.split(":")[0] for need in two.notices[: two.needs]] == [
        "Airflow 3 has no airflow.operators.bash_operator",
        "Airflow 3 has no airflow.contrib.hooks.ssh_hook",
        "Airflow 3 has no airflow.utils.dates",
    ]
    assert [file.path for file in found if file.path.startswith("..")] == ["../plugins/own.py"]
    need, count = causes(found)[0]
    assert "bash_operator" in need
    assert count == 2
