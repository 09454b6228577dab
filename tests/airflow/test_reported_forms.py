"""Tasks that wait for people, as public reports have them: what is answered, what is refused, how the tasks end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from airflow_stack import DAGS, needs_airflow, stack_with
from support import Stack, eventually
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.messages import Answer
from tidemill.model.run.revisions import ClearRequest, MarkRequest
from tidemill.model.run.views import RunDetails, TaskView
from tidemill.model.states import TaskState

pytestmark = [needs_airflow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def airflow(server: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    async with stack_with(server, tmp_path_factory.mktemp("forms"), DAGS / "asked.py") as made:
        yield made


async def begun(made: Stack, dag_id: str, *waiting: str) -> str:
    """The id of a run in which the tasks *waiting* wait for an answer."""
    run = await made.tidemill.runs.trigger(dag_id, TriggerRequest())
    await waits(made, dag_id, run.run_id, *waiting)
    return run.run_id


async def waits(made: Stack, dag_id: str, run_id: str, *waiting: str) -> RunDetails:
    def so(run: RunDetails) -> bool:
        states = {task.key: task.state for task in run.tasks}
        return all(states.get(key) is TaskState.AWAITING_INPUT for key in waiting)

    return await eventually(lambda: made.tidemill.runs.describe(dag_id, run_id), so)


async def answer(made: Stack, dag_id: str, run_id: str, task: str, *chosen: str, **more: Any) -> None:
    await made.tidemill.tasks.respond(dag_id, run_id, Answer(task=task, chosen=chosen, **more))


async def ended(made: Stack, dag_id: str, run_id: str) -> dict[str, str]:
    return {task.key: str(task.state) for task in (await made.finished(dag_id, run_id)).tasks}


async def one(made: Stack, dag_id: str, run_id: str, key: str) -> TaskView:
    return next(task for task in (await made.tidemill.runs.describe(dag_id, run_id)).tasks if task.key == key)


@dataclass(frozen=True)
class Case:
    """The *answers* by task, and how the tasks end; the task waits for the first of them."""

    dag_id: str
    answers: dict[str, list[str]]
    states: dict[str, str]


CASES = [
    Case(  # 55065, 72183
        "rejections",
        {"soft": ["Reject"], "hard": ["Reject"], "fail": ["Reject"]},
        {
            "soft": "success",
            "soft_1": "skipped",
            "soft_2": "success",
            "hard": "success",
            "hard_1": "skipped",
            "hard_2": "skipped",
            "fail": "failed",
            "fail_1": "upstream_failed",
            "fail_2": "upstream_failed",
        },
    ),
    Case(  # 55093
        "ways",
        {"branch": ["Full"]},
        {
            "branch": "success",
            "full": "success",
            "canary": "skipped",
            "group.x": "skipped",
            "group.y": "skipped",
            "join": "success",
        },
    ),
    Case(
        "ways",
        {"branch": ["canary", "Group"]},
        {
            "branch": "success",
            "full": "skipped",
            "canary": "success",
            "group.x": "success",
            "group.y": "success",
            "join": "success",
        },
    ),
    Case(
        "ways",
        {"branch": ["Broken"]},
        {"branch": "failed", **dict.fromkeys(["full", "canary", "group.x", "group.y", "join"], "upstream_failed")},
    ),
    Case(  # 67265, 65745: each index goes its own way, where Airflow 3.3.2 lets all go on
        "by_index",
        {"shipped.ask[0]": ["Approve"], "shipped.ask[1]": ["Reject"]},
        {
            "shipped.ask[0]": "success",
            "shipped.ask[1]": "success",
            "shipped.ship[0]": "success",
            "shipped.ship[1]": "skipped",
        },
    ),
    Case("before_mapped", {"ask": ["Reject"]}, {"ask": "success", "work[0]": "skipped", "work[1]": "skipped"}),  # 62118
    Case("before_mapped", {"ask": ["Approve"]}, {"ask": "success", "work[0]": "success", "work[1]": "success"}),
    Case(  # 66428
        "mapped",
        {"ask[0]": ["Approve"], "ask[1]": ["Reject"], "ask[2]": ["Approve"]},
        {"ask[0]": "success", "ask[1]": "success", "ask[2]": "success"},
    ),
    Case("choices", {"one": ["c"], "many": ["a", "c"]}, {"one": "success", "many": "success"}),  # 52204
    Case("kept", {"ask": ["a"]}, {"ask": "success", "read": "success"}),  # 53683
]


@pytest.mark.parametrize(
    "case",
    CASES,
    ids=lambda case: f"{case.dag_id}-{'-'.join(one for chosen in case.answers.values() for one in chosen)}",
)
async def test_an_answer_decides_what_runs(case: Case, airflow: Stack) -> None:
    run_id = await begun(airflow, case.dag_id, *case.answers)
    for task, chosen in case.answers.items():
        await answer(airflow, case.dag_id, run_id, task, *chosen, by="ann")
    assert await ended(airflow, case.dag_id, run_id) == case.states
    for task, chosen in case.answers.items():
        response = (await one(airflow, case.dag_id, run_id, task)).response
        assert response is not None
        assert (list(response.chosen), response.by) == (chosen, "ann")


async def test_who_waits_for_a_person_is_not_ended_by_its_execution_timeout(airflow: Stack) -> None:
    """55866: response_timeout bounds the time that a person takes; the other stands for it where it is alone."""
    run_id = (await airflow.tidemill.runs.trigger("short_execution_timeout", TriggerRequest())).run_id
    assert await ended(airflow, "short_execution_timeout", run_id) == {"ask": "success", "after": "success"}
    response = (await one(airflow, "short_execution_timeout", run_id, "ask")).response
    assert response is not None
    assert (response.chosen, response.by) == (("b",), None)


async def test_where_nobody_answers_the_defaults_count_or_the_task_fails(airflow: Stack) -> None:
    """55760, 55054."""
    run_id = (await airflow.tidemill.runs.trigger("nobody_answers", TriggerRequest())).run_id
    assert await ended(airflow, "nobody_answers", run_id) == {
        "fails": "failed",
        "after": "upstream_failed",
        "cleanup": "success",
        "rejects": "success",
        "behind": "skipped",
    }
    assert "HITLTimeoutError" in airflow.log_of("nobody_answers", run_id, "fails")


@pytest.mark.parametrize(
    ("task", "chosen", "told"),
    [
        ("one", [], "is no answer"),  # 54265
        ("one", ["z"], "is no answer"),
        ("one", ["a", "b"], "Choose one"),  # 52204
        ("many", ["a", "z"], "Choose one or more"),
    ],
)
async def test_what_is_not_offered_is_refused_and_asked_for_on(
    task: str, chosen: list[str], told: str, airflow: Stack
) -> None:
    run_id = await begun(airflow, "choices", "one", "many")
    with pytest.raises(InvalidInputError, match=told):
        await answer(airflow, "choices", run_id, task, *chosen)
    await waits(airflow, "choices", run_id, "one", "many")


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"n": 2}, "params_input.n = 2 does not fit"),  # 57350: Airflow takes it, and the task fails
        ({"until": "nonsense"}, "params_input.until"),  # 72375
        ({"any": {"__classname__": "x"}}, "__classname__"),  # 71036: there no other answer is taken any more
        ({"of_the_dag": "y"}, "is no field of its form"),  # 57498
    ],
)
async def test_a_form_refuses_what_the_task_would_fail_of(params: dict[str, Any], told: str, airflow: Stack) -> None:
    run_id = await begun(airflow, "forms", "entry")
    form = (await one(airflow, "forms", run_id, "entry")).form
    assert form is not None
    assert sorted(form.params) == ["any", "day", "n", "until"]
    with pytest.raises(InvalidInputError, match=told):
        await answer(airflow, "forms", run_id, "entry", "OK", params=params)
    await answer(airflow, "forms", run_id, "entry", "OK", params={"n": 7, "until": None})
    assert await ended(airflow, "forms", run_id) == {"entry": "success", "after": "success"}


async def test_a_field_without_a_default_fails_as_in_airflow(airflow: Stack) -> None:
    """59551: its params are looked at before the task runs. `Param(None, type=["null", ...])` is asked for."""
    run_id = (await airflow.tidemill.runs.trigger("form_without_default", TriggerRequest())).run_id
    assert await ended(airflow, "form_without_default", run_id) == {"ask": "failed"}
    assert "Param has no default value" in airflow.log_of("form_without_default", run_id, "ask")


async def test_only_those_who_are_asked_may_answer(airflow: Stack) -> None:
    """54016, 61817: by id or by name."""
    run_id = await begun(airflow, "assigned", "ask")
    with pytest.raises(InvalidInputError, match=r"waits for Ann A\., ann, and not for bob"):
        await answer(airflow, "assigned", run_id, "ask", "Approve", by="bob")
    await answer(airflow, "assigned", run_id, "ask", "Approve", by="ann")
    assert await ended(airflow, "assigned", run_id) == {"ask": "success", "after": "success"}


async def test_who_is_cleared_asks_again_and_its_answer_is_forgotten(airflow: Stack) -> None:
    """54956, 53824, 73235: with the text of the new try."""
    run_id = await begun(airflow, "again", "ask")
    await answer(airflow, "again", run_id, "ask", "Approve", by="ann")
    assert await ended(airflow, "again", run_id) == {"ask": "success", "after": "success"}
    await airflow.tidemill.runs.clear("again", run_id, ClearRequest(tasks=("ask",), downstream=True))
    details = await waits(airflow, "again", run_id, "ask")
    [asked] = [task for task in details.tasks if task.key == "ask"]
    assert asked.form is not None
    assert (asked.form.subject, asked.response) == ("try 2", None)
    await answer(airflow, "again", run_id, "ask", "Reject", by="bob")
    assert await ended(airflow, "again", run_id) == {"ask": "success", "after": "skipped"}


async def test_who_is_cleared_while_it_waits_asks_again(airflow: Stack) -> None:
    run_id = await begun(airflow, "again", "ask")
    await airflow.tidemill.runs.clear("again", run_id, ClearRequest(tasks=("ask",), only_failed=False))
    await eventually(lambda: one(airflow, "again", run_id, "ask"), lambda task: task.try_number == 2 and task.form)
    await answer(airflow, "again", run_id, "ask", "Approve")
    assert await ended(airflow, "again", run_id) == {"ask": "success", "after": "success"}


@pytest.mark.parametrize(("state", "after"), [("failed", "upstream_failed"), ("success", "success")])
async def test_who_is_marked_waits_for_nobody(state: str, after: str, airflow: Stack) -> None:
    """55053: a later answer starts nothing."""
    run_id = await begun(airflow, "again", "ask")
    await airflow.tidemill.tasks.mark("again", run_id, MarkRequest(tasks=("ask",), state=TaskState(state)))
    assert await ended(airflow, "again", run_id) == {"ask": state, "after": after}
    with pytest.raises((InvalidInputError, LookupError)):
        await answer(airflow, "again", run_id, "ask", "Approve")


async def test_an_answer_counts_while_the_dag_is_paused(airflow: Stack) -> None:
    """71381: it goes on when the DAG does."""
    run_id = await begun(airflow, "again", "ask")
    await airflow.tidemill.dags.pause("again")
    await answer(airflow, "again", run_id, "ask", "Approve")
    await airflow.tidemill.dags.pause("again", paused=False)
    assert await ended(airflow, "again", run_id) == {"ask": "success", "after": "success"}


async def test_who_cannot_tell_that_it_waits_fails_at_once(airflow: Stack) -> None:
    """57437."""
    run_id = (await airflow.tidemill.runs.trigger("unreachable", TriggerRequest())).run_id
    assert await ended(airflow, "unreachable", run_id) == {"ask": "failed", "after": "upstream_failed"}
    assert "no smtp" in airflow.log_of("unreachable", run_id, "ask")
