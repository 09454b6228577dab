"""What a person's selection of tasks means: which are cleared, which are marked, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from support import bash, dag
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.revisions import ClearRequest, MarkRequest, selected, to_clear
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import TaskState

CHAIN = dag("d", [bash("a", "x"), bash("b", "x", "a"), bash("c", "x", "b"), bash("other", "x")])
DONE = dict.fromkeys(("a", "b", "c", "other"), TaskState.SUCCESS)


def mapped() -> tuple[DagSpec, dict[str, TaskState]]:
    expand = {"by": {"value": [1, 2]}}
    spec = dag("d", [{"kind": "python", "task_id": "m", "expand": expand}, bash("after", "x", "m")])
    return spec, {"m[0]": TaskState.SUCCESS, "m[1]": TaskState.FAILED, "after": TaskState.UPSTREAM_FAILED}


def with_setup(*, teardown: bool = True) -> DagSpec:
    tasks: list[dict[str, Any]] = [
        {"kind": "bash", "task_id": "make", "command": "x", "is_setup": True},
        bash("work", "x", "make"),
    ]
    if teardown:
        down = {"kind": "bash", "task_id": "drop", "command": "x", "is_teardown": True, "upstream": ["make", "work"]}
        tasks.append(down)
    return dag("d", tasks)


@pytest.mark.parametrize(
    ("tasks", "fields", "wanted"),
    [
        ((), {}, ["a", "b", "c", "other"]),
        (("b",), {}, ["b"]),
        (("b",), {"downstream": True}, ["b", "c"]),
        (("b",), {"upstream": True}, ["a", "b"]),
        (("b",), {"upstream": True, "downstream": True}, ["a", "b", "c"]),
        (("c", "a"), {}, ["a", "c"]),
    ],
)
def test_a_selection_is_in_the_order_of_the_dag(tasks: tuple[str, ...], fields: Any, wanted: list[str]) -> None:
    assert selected(CHAIN, DONE, ClearRequest(tasks=tasks, **fields)) == wanted


def test_a_task_means_all_its_instances_and_an_instance_itself() -> None:
    spec, states = mapped()
    assert selected(spec, states, ClearRequest(tasks=("m",))) == ["m[0]", "m[1]"]
    assert selected(spec, states, ClearRequest(tasks=("m[1]",))) == ["m[1]"]
    assert selected(spec, states, ClearRequest(tasks=("m[1]",), downstream=True)) == ["m[1]", "after"]


@pytest.mark.parametrize("name", ["nope", "m[7]", "after[0]"])
def test_a_name_of_no_task_is_refused_with_those_that_there_are(name: str) -> None:
    spec, states = mapped()
    with pytest.raises(InvalidInputError, match=r"is not in this run\. Its tasks are: m\[0\], m\[1\], after$"):
        selected(spec, states, MarkRequest(tasks=(name,), state=TaskState.SUCCESS))


def test_of_many_tasks_the_first_twenty_are_named() -> None:
    states = {f"t{n}": TaskState.SUCCESS for n in range(22)}
    spec = dag("d", [bash(name, "x") for name in states])
    with pytest.raises(InvalidInputError, match=r"t19 and 2 more$"):
        selected(spec, states, ClearRequest(tasks=("nope",)))


def test_only_what_has_failed_is_cleared_on_request() -> None:
    spec, states = mapped()
    assert to_clear(spec, states, ClearRequest(only_failed=True)) == ["m[1]", "after"]
    assert to_clear(spec, states, ClearRequest(tasks=("m",), only_failed=True)) == ["m[1]"]


def test_what_has_not_begun_or_is_not_for_the_date_is_not_cleared() -> None:
    states = {**DONE, "a": TaskState.NONE, "b": TaskState.REMOVED}
    assert to_clear(CHAIN, states, ClearRequest()) == ["c", "other"]


def test_a_task_is_cleared_with_its_setup_and_what_tears_it_down() -> None:
    states = dict.fromkeys(("make", "work", "drop"), TaskState.SUCCESS)
    assert to_clear(with_setup(), states, ClearRequest(tasks=("work",))) == ["make", "work", "drop"]
    del states["drop"]
    assert to_clear(with_setup(teardown=False), states, ClearRequest(tasks=("work",))) == ["make", "work"]


def test_a_task_behind_the_teardown_needs_the_setup_no_more() -> None:
    spec = with_setup()
    document = spec.model_dump(mode="json")
    document["tasks"].append(bash("after", "x", "drop"))
    whole = DagSpec.model_validate(document)
    states = dict.fromkeys(("make", "work", "drop", "after"), TaskState.SUCCESS)
    assert to_clear(whole, states, ClearRequest(tasks=("after",))) == ["after"]


def test_all_setups_of_a_task_and_all_their_teardowns_run_again_with_it() -> None:
    down = {"kind": "bash", "command": "x", "is_teardown": True}
    spec = dag(
        "d",
        [
            bash("make_1", "x", is_setup=True),
            bash("make_2", "x", is_setup=True),
            bash("work", "x", "make_1", "make_2"),
            {**down, "task_id": "drop_1", "upstream": ["make_1", "work"]},
            {**down, "task_id": "drop_2", "upstream": ["make_2", "work"]},
            bash("other", "x"),
        ],
    )
    cleared = to_clear(spec, dict.fromkeys(spec.by_id, TaskState.SUCCESS), ClearRequest(tasks=("work",)))
    assert sorted(cleared) == ["drop_1", "drop_2", "make_1", "make_2", "work"]


@pytest.mark.parametrize(("n", "more"), [(20, ""), (21, " and 1 more"), (30, " and 10 more")])
def test_many_tasks_are_named_in_part(n: int, more: str) -> None:
    spec = dag("d", [bash(f"t{i}", "x") for i in range(n)])
    states = dict.fromkeys(spec.by_id, TaskState.SUCCESS)
    with pytest.raises(InvalidInputError) as refused:
        selected(spec, states, ClearRequest(tasks=("nope",)))
    assert str(refused.value).endswith(f"t18, t19{more}")
