"""Tidemill answers as the real Airflow 3.3.2 did, case by case.

Where Airflow shows an artefact of a change of the clocks, the recorded case carries the clean
answer, and that is the one to give.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from answer import ANSWERS, answer

DATA = Path(__file__).parents[1] / "data" / "airflow"
FILES = ["timetables.jsonl", "rules.jsonl", "queue.jsonl", "assets.jsonl"]
HIDDEN = ("expect", "clean_expect", "advisory", "tags")
INSTANT = re.compile(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$")


def cases(file: str) -> Iterator[dict[str, Any]]:
    with (DATA / file).open() as lines:
        for line in lines:
            yield json.loads(line)


def normal(value: Any) -> Any:
    """Instants as instants, whatever offset they are written in."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, str) and INSTANT.match(value):
        return datetime.fromisoformat(value).astimezone(UTC)
    if isinstance(value, list | tuple):
        return [normal(part) for part in value]
    if isinstance(value, dict):
        return {key: normal(part) for key, part in value.items()}
    return value


def agrees(got: Any, want: Any) -> bool:
    if isinstance(want, dict) and set(want) == {"error"}:
        return isinstance(got, dict) and "error" in got
    if isinstance(want, dict) and set(want) == {"regex"}:
        return isinstance(got, str) and re.match(want["regex"], got) is not None
    if isinstance(want, dict) and set(want) == {"any_of"}:
        return any(agrees(got, one) for one in want["any_of"])
    return bool(normal(got) == normal(want))


def answered(case: dict[str, Any]) -> Any:
    try:
        return answer({key: value for key, value in case.items() if key not in HIDDEN})
    except ValueError as error:
        return {"error": str(error)}


@pytest.mark.parametrize("file", FILES)
def test_every_recorded_case(file: str) -> None:
    asked = [*cases(file)]
    wrong = []
    for case in asked:
        want = case["clean_expect"] if case.get("advisory") else case["expect"]
        got = answered(case)
        if not agrees(got, want):
            wrong.append(f"{case['id']}: want {want}, got {got}")
    assert not wrong, f"{len(wrong)} of {len(asked)} differ:\n" + "\n".join(wrong[:10])


def test_every_kind_of_question_is_answered() -> None:
    assert {case["op"] for file in FILES for case in cases(file)} == set(ANSWERS)
