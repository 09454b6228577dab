"""What is not alike in two answers, field by field. Times, ids and durations of each installation's own are alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

FOLDER = "<folder>"
"""What the folder of DAG files is called in the record."""
DAGS = str(Path(__file__).with_name("dags"))
OWN_NUMBERS = re.compile(
    r"(^|_)(id|pid|duration|seconds|count_us)$|^(lineno|duration|p\d\d|mean|.*percentile.*|token|x-.*)$"
)
UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
TIME = re.compile(r"(?<!\d)(\d{4})-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")
NUMBER = re.compile(r"\d+(\.\d+)?")
ASSET = re.compile(r"\basset:\d+\b")
OF_A_RUN = re.compile(r"(asset_triggered__<time>)_\w{8}\b")
SAID_IN_DAGS = ("2025", "2099")
"""Years of dates that the DAG files and the steps name."""


@dataclass(frozen=True)
class Difference:
    operation: str
    """Method and path of Airflow's operation."""
    field: str
    """The path of the field, `[]` for each of a list; `status` for the answer's own."""
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.operation} | {self.field} | {self.theirs!r:.120} | {self.ours!r:.120}"


def differences(operation: str, theirs: tuple[int, Any], ours: tuple[int, Any]) -> Iterator[Difference]:
    """Yield what is not alike in status and body. Refusals are compared by their status alone: their texts are ours."""
    if theirs[0] != ours[0]:
        yield Difference(operation, "status", theirs[0], ours[0])
    elif theirs[0] < 400:
        yield from _of_values(operation, "", theirs[1], ours[1])


def _of_values(operation: str, field: str, theirs: Any, ours: Any) -> Iterator[Difference]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*theirs, *ours}):
            inner = f"{field}.{key}" if field else key
            yield from _of_values(operation, inner, theirs.get(key), ours.get(key))  # absent is null for every client
    elif isinstance(theirs, list) and isinstance(ours, list):
        theirs, ours = sorted(theirs, key=_order), sorted(ours, key=_order)
        if len(theirs) != len(ours):
            yield Difference(operation, f"{field}[]", _brief(theirs), _brief(ours))
            return
        for one, other in zip(theirs, ours, strict=True):
            yield from _of_values(operation, f"{field}[]", one, other)
    else:
        name = field.rpartition(".")[2]
        if (mine := general(name, ours)) != (other := general(name, theirs)):
            yield Difference(operation, field, other, mine)


def _order(item: Any) -> Any:
    """By what is the same on both sides: the order itself is compared where a step asks for one."""
    if not isinstance(item, dict):
        return str(general("", item))
    names = (
        "dag_id",
        "dag_run_id",
        "run_id",
        "task_id",
        "id",
        "name",
        "key",
        "source_id",
        "target_id",
        "source_run_id",
    )
    return str(
        ["" if isinstance(item.get(name), int) else general(name, item.get(name)) for name in names]
        + [item.get("map_index"), item.get("try_number")]
    )


def _brief(items: list[Any]) -> str:
    return f"{len(items)} items: {items!s:.300}"


def general(name: str, value: Any) -> Any:
    """*value* of the field *name* without what is of one installation alone."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return "<number>" if OWN_NUMBERS.search(name) or isinstance(value, float) else value
    text = TIME.sub(_time, UUID.sub("<uuid>", str(value).replace(DAGS, FOLDER)))
    text = ASSET.sub("asset:<id>", text)
    text = OF_A_RUN.sub(r"\1_<id>", text)
    return "<number>" if OWN_NUMBERS.search(name) and NUMBER.fullmatch(text) else text


def _time(found: re.Match[str]) -> str:
    if found[1] in SAID_IN_DAGS:
        text = found[0] if found[4] else f"{found[0]}Z"
        return datetime.fromisoformat(text).isoformat()
    return "<time>"
