"""The same DAG files and requests as a real Airflow has had: the answers are alike, or docs say in what and why not."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow_stack import PYTHON, needs_airflow
from fastapi import FastAPI
from operations import template_of
from side_by_side.comparing import Difference, differences
from side_by_side.installation import tidemill_dev
from side_by_side.steps import Answer, answers
from tidemill.api.app import make_app
from tidemill.worker.settings.reading import Settings
from web_stack import nowhere

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "data" / "airflow"
EXPLAINED = ROOT / "docs" / "reference" / "api_differences.md"


@dataclass(frozen=True)
class Row:
    """A line of the table of differences: `*` stands for anything."""

    operation: str
    field: str
    at_times: bool
    """Whether it depends on how fast something was."""

    def explains(self, one: Difference) -> bool:
        return _fits(self.operation, one.operation) and _fits(self.field, one.field)


def _fits(pattern: str, text: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), text) is not None


def explained() -> list[Row]:
    """The lines of the table, one for each operation and field that it names."""
    lines = re.findall(r"^\| (`.+?) \| (.+?) \| (.+) \|$", EXPLAINED.read_text(), re.MULTILINE)
    return [
        Row(operation, field, why.startswith("at times"))
        for operations, fields, why in lines
        for operation in re.findall("`(.+?)`", operations)
        for field in re.findall("`(.+?)`", fields)
    ]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Difference]:
    """All differences, in the order of the requests, and then of the clients' calls."""
    app = make_app(nowhere(), Settings())
    with tidemill_dev(tmp_path_factory.mktemp("dev"), PYTHON) as client:
        ours = list(answers(client))
        lines = [json.loads(line) for line in _of_clients(str(client.base_url))]
    return [*_of_requests(app, ours), *_of_calls(app, lines)]


def _of_requests(app: FastAPI, ours: list[Answer]) -> list[Difference]:
    theirs = _recorded("api")
    assert [(one.method, one.path) for one in ours] == [(one["method"], one["path"]) for one in theirs]
    operations = {f"{one.method} {template_of(one.path, app)}" for one in ours}
    assert f"the same {len(ours)} requests to {len(operations)} operations" in EXPLAINED.read_text()
    return [one for mine, other in zip(ours, theirs, strict=True) for one in _compared(app, mine, other)]


def _compared(app: FastAPI, mine: Answer, other: dict[str, Any]) -> Iterator[Difference]:
    operation = f"{mine.method} {template_of(mine.path, app)}"
    yield from differences(operation, (other["status"], other["body"]), (mine.status, mine.body))


def _of_clients(url: str) -> list[str]:
    program = Path(__file__).with_name("side_by_side") / "clients.py"
    command = [sys.executable, str(program), url.rstrip("/"), "none"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout.splitlines()


def _of_calls(app: FastAPI, ours: list[dict[str, Any]]) -> Iterator[Difference]:
    theirs = _recorded("clients")
    calls = sum("call" in one for one in ours)
    told = f"the same {calls} calls of `airflow_client` and {len(ours) - calls} commands of `airflowctl`"
    assert told in EXPLAINED.read_text()
    for mine, other in zip(ours, theirs, strict=True):
        if "command" in mine:
            operation = "airflowctl " + " ".join(mine["command"].split(" --")[0].split()[:2])
            ends = [(200 if one["code"] == 0 else 400, one["printed"]) for one in (other, mine)]
        else:
            method, _, path = mine["asked"].partition(" ")
            operation = f"{method} {template_of(path, app)}"
            ends = [(one["status"], one["body"]) for one in (other, mine)]
        yield from differences(operation, *ends)


def _recorded(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RECORDED / f"{name}.json").read_text())
    return found


@needs_airflow
def test_every_difference_from_airflow_is_explained(found: list[Difference]) -> None:
    rows = explained()
    unexplained = [str(one) for one in found if not any(row.explains(one) for row in rows)]
    assert unexplained == [], "\n".join(unexplained)


@needs_airflow
def test_what_is_explained_is_different(found: list[Difference]) -> None:
    idle = [row for row in explained() if not row.at_times and not any(row.explains(one) for one in found)]
    assert idle == []
