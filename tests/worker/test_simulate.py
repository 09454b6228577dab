"""`tidemill simulate` as a person calls it."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from forked_commands import forked
from support import Stack, bash, dag, empty, eventually, told
from tidemill.model.pool.state import PoolSettings
from tidemill.worker.cli import app
from typer.testing import CliRunner

FILE = """
from datetime import datetime, timezone
from tidemill import DAG, BashOperator

with DAG("etl", schedule="@hourly", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), max_active_runs=1):
    BashOperator(task_id="load", bash_command="exit 1") >> BashOperator(task_id="report", bash_command="exit 1")
"""
DAYS = ("--from", "2026-01-01", "--to", "2026-01-03")


def simulate(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    path = folder / "etl.py"
    path.write_text(FILE)
    command = [forked(), "simulate", str(path), *DAYS, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_two_worlds_are_compared(tmp_path: Path) -> None:
    done = simulate(tmp_path, "--duration", "etl.load=4000", "--what-if", "etl.max_active_runs=2", "--json")
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert (first["world"], second["world"]) == ("as it is", "etl.max_active_runs=2")
    assert first["dags"][0]["longest_delay"] > 3000
    assert second["dags"][0]["longest_delay"] == 0
    assert second["dags"][0]["runs"] == len(second["runs"]) == 47
    shown = simulate(
        tmp_path, "--what-if", "schedule=@daily", "--slots", "1", "--downtime", "2026-01-01/2026-01-02T05:00"
    )
    assert shown.returncode == 0, shown.stderr
    assert "schedule=@daily: 2026-01-01 00:00:00Z to 2026-01-03 00:00:00Z" in shown.stdout


def test_any_assumption_can_be_another(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(FILE.replace('"etl"', '"new"').replace('"exit 1")', '"exit 1", pool="db")'))
    changes = ["duration:etl.load=600", "fails:etl.report=1", "slots=1", "pool:db=1", "dags=new.py"]
    changes.append("downtime=2026-01-01T10:30/2026-01-01T20:30")
    done = simulate(tmp_path, "--json", *(word for change in changes for word in ("--what-if", change)))
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert second["world"] == ", ".join(changes)
    assert [[dag["dag_id"] for dag in world["dags"]] for world in (first, second)] == [["etl"], ["etl", "new"]]
    [before, after] = [world["dags"][0] for world in (first, second)]
    assert (before["runs"], before["failed"], before["longest_delay"]) == (47, 0, 0)
    assert (after["runs"], after["failed"]) == (38, 38), "without catchup, of the downtime's runs the last is made"
    assert after["longest_delay"] == 1800
    spans = sorted((t["started_at"], t["ended_at"]) for t in second["tries"] if t["started_at"] and t["ended_at"])
    assert all(end <= start for (_, end), (start, _) in pairwise(spans)), "one task at a time"
    loads = {lasted(t) for t in second["tries"] if (t["dag_id"], t["key"]) == ("etl", "load") and t["ended_at"]}
    assert loads == {600}


def lasted(one: dict[str, Any]) -> float:
    return (datetime.fromisoformat(one["ended_at"]) - datetime.fromisoformat(one["started_at"])).total_seconds()


def test_deadlines_pools_and_a_picture(tmp_path: Path) -> None:
    (tmp_path / "etl.py").write_text(FILE.replace("max_active_runs=1", "deadline=timedelta(minutes=30)"))
    text = (tmp_path / "etl.py").read_text().replace("import datetime,", "import datetime, timedelta,")
    (tmp_path / "etl.py").write_text(text.replace('"exit 1")\n', '"exit 1", pool="db")\n'))
    late = ["--duration", "etl.report=2400", "--pool", "db=2", "--picture", "both.png", "--what-if", "catchup=true"]
    command = [forked(), "simulate", "etl.py", *DAYS, *late]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")
    row = next(line.split() for line in done.stdout.splitlines() if line.startswith("etl "))
    assert row[1] == row[4] == "47", "every run misses its deadline"
    assert ["pool", "db", "2"] in [line.split()[:3] for line in done.stdout.splitlines()]
    refused = subprocess.run([*command[:-4], "--picture", "x.xyz"], capture_output=True, text=True, cwd=tmp_path)
    assert refused.returncode == 1
    assert "--picture x.xyz" in refused.stderr


async def test_what_is_registered_with_the_durations_of_its_history(here: Stack) -> None:
    """Its schedule stands where it stands, and its tasks take as long as they have taken."""
    now = datetime.now(UTC).replace(microsecond=0)
    spec = dag("known", [bash("a", "sleep 2", pool="measured")], schedule="@hourly", catchup=True,
               start_date=(now - timedelta(hours=3)).replace(minute=0, second=0).isoformat())  # fmt: skip
    await here.tidemill.pools.configure("measured", PoolSettings(slots=3))
    await here.tidemill.dags.register(spec)
    await here.tidemill.dags.register(dag("paused", [empty("a")], schedule="@hourly", is_paused_upon_creation=True))
    runs = await eventually(
        lambda: here.tidemill.runs.list("known"), lambda found: len(found) > 1 and all(r.state.finished for r in found)
    )
    await eventually(lambda: here.tidemill.dags.list(), lambda found: {row.dag_id for row in found[0]} >= {"known"})
    end = (now + timedelta(hours=5)).isoformat()
    [world] = await told(here, "simulate", "--to", end, "--dag", "known", "--json")
    assert world["dag_ids"] == ["known"]
    known_dates = {run.logical_date for run in runs}
    simulated = [datetime.fromisoformat(run["logical_date"]) for run in world["runs"]]
    assert 4 <= len(simulated) <= 6
    assert not known_dates & {*simulated}, "a date that has run is not run again"
    took = {
        (datetime.fromisoformat(t["ended_at"]) - datetime.fromisoformat(t["started_at"])).total_seconds()
        for t in world["tries"]
        if t["ended_at"]
    }
    assert len(took) == 1
    assert 2 <= took.pop() < 30


WRONG = [
    (("--what-if", "schedul=4"), "NAME is one of max_active_runs"),
    (("--what-if", "other.catchup=true"), "there is no DAG 'other'. There are: etl"),
    (("--what-if", "slots=0"), "worker_slots = '0'"),
    pytest.param(("--duration", "=3"), "names nothing", marks=pytest.mark.thorough),
    (("--duration", "etl.lod=3"), "there is no such task. Did you mean 'etl.load'?"),
    pytest.param(("--fails", "nope.x=2"), "There are: etl.load, etl.report", marks=pytest.mark.thorough),
    pytest.param(("--mapped", "etl.load=-3"), "map_lengths.etl.load = '-3'", marks=pytest.mark.thorough),
    pytest.param(("--pool", "y=1"), "no task is in that pool", marks=pytest.mark.thorough),
    pytest.param(("--what-if", "pool:y=1"), "no task is in that pool", marks=pytest.mark.thorough),
    (("--downtime", "2026-01-02/2026-01-01"), "Let it end later"),
    pytest.param(("--picture", "nowhere/x.png"), "No such file or directory", marks=pytest.mark.thorough),
    pytest.param(("--what-if", "dags=nowhere.py"), "there is no such file or folder", marks=pytest.mark.thorough),
    (("--what-if", "slots=few"), "worker_slots = 'few'"),
    pytest.param(("--duration", "etl.load=soon"), "durations.etl.load = 'soon'", marks=pytest.mark.thorough),
    pytest.param(("--downtime", "2026-01-01"), "has no end. Write FROM/TO", marks=pytest.mark.thorough),
    pytest.param(("--fails", "1"), "names nothing. Write NAME=VALUE", marks=pytest.mark.thorough),
    pytest.param(("--dag", "other"), "--dag 'other': there is no such DAG. There are: etl", marks=pytest.mark.thorough),
]


@pytest.mark.parametrize(("options", "expected"), WRONG)
def test_what_is_wrong_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], expected: str
) -> None:
    (path := tmp_path / "etl.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["simulate", str(path), *DAYS, *options])
    assert done.exit_code == 1
    assert expected in " ".join(done.stderr.split()), done.stderr
