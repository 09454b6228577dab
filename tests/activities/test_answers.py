"""What a child answers is one of a few classes, and what is left in files is read from every release."""

import inspect
import re
from typing import Any, get_args

import pytest
from tidemill.activities.attempts.outcomes import outcome_of
from tidemill.activities.processes.answers import (
    ChildAnswer,
    CommandEnded,
    Failed,
    Performed,
    as_left,
    read_exit,
    read_result,
)
from tidemill.activities.processes.messages import Answered, read
from tidemill.activities.work.child import WORKS
from tidemill.model.run.task_instances import Failure, Outcome

KINDS = get_args(get_args(ChildAnswer)[0])


@pytest.mark.parametrize("work", sorted(WORKS))
def test_each_work_answers_with_classes_of_the_union(work: str) -> None:
    given = str(inspect.signature(WORKS[work]).return_annotation)
    names = {kind.__name__ for kind in KINDS}
    assert {*re.findall(r"[A-Z]\w+", given)} & names


def test_each_has_a_kind_of_its_own() -> None:
    kinds = [kind.model_fields["kind"].default for kind in KINDS]
    assert len(kinds) == len({*kinds})


@pytest.mark.parametrize(
    "answer",
    [{}, {"kind": "unknown"}, {"outcome": {}}, {"kind": "failed"}, {"kind": "command", "code": "x", "started": 1}, 3],
)
def test_what_is_none_of_them_is_no_message(answer: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - pydantic's own texts
        read({"answer": answer})


def test_a_result_with_words_of_answers_in_it_is_a_result() -> None:
    """Names that answers have once had as keys are names as any other in what a task returns."""
    words = dict.fromkeys(("failure", "outcome", "ended", "invalid", "kind", "values", "error"), "mine")
    told = Performed(outcome=Outcome(xcom={"return_value": words}))
    heard = read({"answer": told.model_dump(mode="json")})
    assert isinstance(heard, Answered)
    assert outcome_of(heard.answer).xcom["return_value"] == words


def test_another_answer_than_the_work_has_is_none() -> None:
    with pytest.raises(Exception, match="ended with exit code 0"):
        outcome_of(CommandEnded(code=0, started=0))


def test_results_are_left_as_every_release_reads_them() -> None:
    assert as_left(Performed(outcome=Outcome(xcom={"k": 1}))) == {"outcome": {"xcom": {"k": 1}}}
    left = as_left(Failed(failure=Failure(error_type="E", message="m")))
    assert left["failure"] == {"error_type": "E", "message": "m"}
    assert as_left(CommandEnded(code=3, started=1.5)) == {"code": 3, "started": 1.5}
    assert read_exit({"code": 127, "error": "no such file", "started": 1.0, "ended": 1.0}) is not None


@pytest.mark.parametrize("left", [{}, {"outcome": None}, {"outcome": 3}, {"failure": {}}, {"outcome": {"state": "x"}}])
def test_what_a_task_has_written_over_its_result_fails_it(left: dict[str, Any]) -> None:
    found = read_result(left)
    assert isinstance(found, Failed)
    assert found.failure.error_type == "ResultUnreadable"


@pytest.mark.parametrize("left", [None, {}, {"code": "x"}, {"code": 0}])
def test_an_end_that_cannot_be_read_is_none(left: dict[str, Any] | None) -> None:
    assert read_exit(left) is None
