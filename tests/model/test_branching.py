"""What a branch, a short circuit or a latest-only task skips, from what it has returned."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support import bash, dag
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.branching import skipped_as_pushed, skipped_tasks

TEARDOWN = {"kind": "bash", "task_id": "end", "command": "x", "is_teardown": True, "upstream": ["one", "two"]}
GROUPED = {**bash("in1", "x", "way"), "group": "g"}


def skipped(kind: str, result: Any, **fields: Any) -> tuple[str, ...]:
    """way -> one -> join, way -> two -> join, way -> in1 (of group g), and a teardown of them."""
    way = {"kind": kind, "task_id": "way", **fields}
    tasks = [way, bash("one", "x", "way"), bash("two", "x", "way"), bash("join", "x", "one", "two"), GROUPED]
    spec = dag("d", [*tasks, {**TEARDOWN, "upstream": ["way", "one", "two"]}], groups=[{"group_id": "g"}])
    return skipped_tasks(spec, spec.by_id["way"], result)


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        ("one", ("two", "in1")),
        (["one", "two"], ("in1",)),
        ((), ("one", "two", "in1", "end")),
        (None, ("one", "two", "in1", "end")),
        ("join", ("one", "two", "in1", "end")),
        ("g", ("one", "two", "end")),
        (["g", "one"], ("two",)),
    ],
)
def test_a_branch_skips_what_is_directly_below_and_not_followed(result: Any, wanted: tuple[str, ...]) -> None:
    """What is downstream of a task that is followed stays, too: the teardown is, of `one`."""
    assert skipped("branch", result) == wanted


@pytest.mark.parametrize("result", [5, ["one", 5], {"one": 1}])
def test_a_branch_that_returns_something_else_is_refused(result: Any) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(f"not {result!r}")):
        skipped("branch", result)


def test_a_branch_to_nowhere_names_what_is_there() -> None:
    with pytest.raises(InvalidInputError, match="Downstream are: one, two, in1, end"):
        skipped("branch", "nope")


def test_a_short_circuit_skips_all_below_but_teardowns() -> None:
    assert skipped("short_circuit", False) == ("one", "two", "join", "in1")
    assert skipped("short_circuit", 0) == ("one", "two", "join", "in1")
    assert skipped("short_circuit", "yes") == ()


def test_a_short_circuit_can_leave_the_rest_to_its_rules() -> None:
    assert skipped("short_circuit", None, ignore_downstream_trigger_rules=False) == ("one", "two", "in1")


def test_latest_only_skips_what_is_directly_below() -> None:
    assert skipped("latest_only", False) == ("one", "two", "in1")
    assert skipped("latest_only", True) == ()


def test_other_tasks_skip_nothing() -> None:
    spec = dag("d", [bash("a", "x"), bash("b", "x", "a")])
    assert skipped_tasks(spec, spec.by_id["a"], None) == ()


@pytest.mark.parametrize(
    ("pushed", "wanted"),
    [
        ({"followed": ["one"]}, ("two", "in1", "end")),
        ({"followed": []}, ("one", "two", "in1", "end")),
        ({"skipped": ["join", "one", "gone"]}, ("join", "one")),
        ({}, ()),
    ],
)
def test_what_a_branch_of_airflows_has_pushed_says_what_it_skips(
    pushed: dict[str, Any], wanted: tuple[str, ...]
) -> None:
    tasks = [{**bash("way", "x")}, *(bash(name, "x", "way") for name in ("one", "two"))]
    tasks += [bash("join", "x", "one", "two"), GROUPED, {**TEARDOWN, "upstream": ["way", "one", "two"]}]
    spec = dag("d", tasks, groups=[{"group_id": "g"}])
    assert skipped_as_pushed(spec, spec.by_id["way"], pushed) == wanted
