"""What a child says to its worker, which may be anything."""

import os
from typing import Any

import pytest
from tidemill.activities.processes import channel
from tidemill.activities.processes.messages import KINDS, Answered, Ended, Query, receive


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
        channel.send(theirs, {"answer": {"outcome": {}}}, [writing])
        assert receive(mine) == (Answered(answer={"outcome": {}}), [])
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
