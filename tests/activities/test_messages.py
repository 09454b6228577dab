"""What a child says to its worker, which may be anything."""

import os
from typing import Any

import pytest
from tidemill.activities.attempts.lifecycle import ChildListener
from tidemill.activities.masking import Masker
from tidemill.activities.processes import channel
from tidemill.activities.processes.answers import Performed
from tidemill.activities.processes.messages import KINDS, Answered, Ended, Query, Rendered, receive


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"nothing": "known"},
        {"ended": "0"},
        {"ended": None},
        {"pid": [1]},
        {"mask": 5},
        {"answer": "text"},
        {"ask": ["list"]},
        {"imported": "soon"},
        {"event": "a", "end": 1},
        {"ready": True},
        {"refused": {}},
    ],
)
def test_what_is_no_message_is_refused_with_what_came_along(content: dict[str, Any]) -> None:
    mine, theirs = channel.pair()
    reading, writing = os.pipe()
    with mine, theirs:
        channel.send(theirs, content, [writing])
        os.close(writing)
        with pytest.raises(ValueError, match=r"is no message|validation error"):
            receive(mine)
        assert os.read(reading, 1) == b"", "nobody holds the descriptor any more"
        channel.send(theirs, {"ended": -9})
        assert receive(mine) == (Ended(ended=-9), [])
    os.close(reading)


def test_only_a_question_brings_somewhere_to_answer() -> None:
    mine, theirs = channel.pair()
    reading, writing = os.pipe()
    with mine, theirs:
        channel.send(theirs, {"answer": {"kind": "performed"}}, [writing])
        assert receive(mine) == (Answered(answer=Performed()), [])
        channel.send(theirs, {"ask": {"about": "dag"}}, [writing])
        os.close(writing)
        received = receive(mine)
    assert received is not None
    message, descriptors = received
    assert message == Query(ask={"about": "dag"})
    assert len(descriptors) == 1
    os.close(descriptors[0])
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_each_kind_has_a_field_of_its_own() -> None:
    fields = [name for kind in KINDS.values() for name in kind.model_fields]
    assert len(fields) == len({*fields})


@pytest.mark.parametrize("depth", [10, 900, 970])
def test_rendered_fields_of_any_shape_end_no_task(depth: int) -> None:
    fields: Any = "leaf"
    for _ in range(depth):
        fields = [fields]
    kept: list[Any] = []
    listener = ChildListener(None, Masker(), rendered=lambda told, masker: kept.append(masker.masked_all(told)))
    listener.note(Rendered(rendered={"a": fields}))
    assert len(kept) <= 1
