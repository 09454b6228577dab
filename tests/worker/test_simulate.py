"""`tidemill simulate` as a person calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TIDEMILL = str(Path(sys.executable).with_name("tidemill"))
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
    command = [TIDEMILL, "simulate", str(path), *DAYS, *options]
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


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    for options, told in (
        (("--what-if", "schedul=4"), "NAME is one of max_active_runs"),
        (("--what-if", "other.catchup=true"), "write [DAG.]NAME=VALUE"),
        (("--duration", "etl.load=soon"), "durations.etl.load = 'soon'"),
        (("--downtime", "2026-01-01"), "has no end. Write FROM/TO"),
        (("--fails", "1"), "names nothing. Write NAME=VALUE"),
        (("--dag", "other"), "defines no such DAG. It defines: etl"),
    ):
        done = simulate(tmp_path, *options)
        assert done.returncode == 1, options
        assert told in done.stderr, done.stderr
