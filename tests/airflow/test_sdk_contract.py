"""What is relied on of Airflow's Task SDK: a release that moves any of it is named here, before it fails a task."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from airflow_stack import PYTHON, needs_airflow
from tidemill.activities.work.airflow.answers.table import ANSWERED_ELSEWHERE, ANSWERS, REFUSED

KNOWN = json.loads((Path(__file__).parents[1] / "data" / "airflow" / "sdk_contract.json").read_text())


def test_every_message_of_the_protocol_has_an_answer() -> None:
    asked = {*KNOWN["to_supervisor"]}
    assert asked == {*ANSWERS} | {*ANSWERED_ELSEWHERE} | {*REFUSED}


@needs_airflow
def test_the_installed_release_has_what_is_relied_on() -> None:
    script = Path(__file__).with_name("sdk_contract.py")
    done = subprocess.run([str(PYTHON), str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"a name that is relied on is gone: {done.stderr[-2000:]}"
    moved = [*_moved("", KNOWN, json.loads(done.stdout))]
    assert not moved, "\n".join(moved)


def _moved(place: str, known: Any, now: Any) -> list[str]:
    """Where *now* is another than is known, in words."""
    if not isinstance(known, dict) or not isinstance(now, dict):
        return [] if known == now else [f"{place}: was {known}, is {now}"]
    told = [f"{place}.{name} is gone" for name in known.keys() - now.keys()]
    told += [f"{place}.{name} is new: {now[name]}" for name in now.keys() - known.keys()]
    return told + [
        line for name in known.keys() & now.keys() for line in _moved(f"{place}.{name}", known[name], now[name])
    ]
