"""The same DAG files and requests as a real Airflow has had: the answers are alike, or docs say in what and why not."""

import json
import re
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
from tidemill.worker.settings import Settings
from web_stack import nowhere

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "data" / "airflow" / "api.json"
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
    """All differences, in the order of the requests."""
    app = make_app(nowhere(), Settings())
    with tidemill_dev(tmp_path_factory.mktemp("dev"), PYTHON) as client:
        ours = list(answers(client))
    theirs = json.loads(RECORDED.read_text())
    assert [(one.method, one.path) for one in ours] == [(one["method"], one["path"]) for one in theirs]
    operations = {f"{one.method} {template_of(one.path, app)}" for one in ours}
    assert f"the same {len(ours)} requests to {len(operations)} operations" in EXPLAINED.read_text()
    return [one for mine, other in zip(ours, theirs, strict=True) for one in _compared(app, mine, other)]


def _compared(app: FastAPI, mine: Answer, other: dict[str, Any]) -> Iterator[Difference]:
    operation = f"{mine.method} {template_of(mine.path, app)}"
    yield from differences(operation, (other["status"], other["body"]), (mine.status, mine.body))


@needs_airflow
def test_every_difference_from_airflow_is_explained(found: list[Difference]) -> None:
    rows = explained()
    unexplained = [str(one) for one in found if not any(row.explains(one) for row in rows)]
    assert unexplained == [], "\n".join(unexplained)


@needs_airflow
def test_what_is_explained_is_different(found: list[Difference]) -> None:
    idle = [row for row in explained() if not row.at_times and not any(row.explains(one) for one in found)]
    assert idle == []
