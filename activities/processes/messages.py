"""What a child says to its worker: a kind of message each, told apart by the field that only it has.

A child runs anybody's code, and may send anything: what is none of these is no message.
"""

import os
import socket
from collections.abc import Mapping
from typing import Any, get_args

from ...model.base import Model
from . import channel
from .answers import ChildAnswer


class Begun(Model):
    """Its parent has forked it."""

    pid: int


class Ready(Model):
    """It has imported its DAG file, and forks calls."""

    ready: bool
    megabytes: int


class Imported(Model):
    """It has imported its DAG file, in so many seconds."""

    imported: float


class Secret(Model):
    """It will print this, perhaps, and it is to be masked."""

    mask: str


class Query(Model):
    """It asks something, and waits for the answer on the descriptor that comes along."""

    ask: dict[str, Any]


class Rendered(Model):
    """Its templates, filled in."""

    rendered: Any


class TriggerEvent(Model):
    """A trigger that it runs has ended."""

    event: str
    end: dict[str, Any]


class Answered(Model):
    """What has come of its work."""

    answer: ChildAnswer


class Ended(Model):
    """It has ended, with this exit code, or by the signal of the negative number. Its parent says so."""

    ended: int


class Refused(Model):
    """Its parent could not fork it."""

    refused: str


FromChild = Begun | Ready | Imported | Secret | Query | Rendered | TriggerEvent | Answered | Ended | Refused
KINDS: Mapping[str, type[FromChild]] = {next(iter(kind.model_fields)): kind for kind in get_args(FromChild)}
"""By the field that only it has."""


def receive(end: socket.socket) -> tuple[FromChild, list[int]] | None:
    """Return the next message of a child, and the descriptors of a question; None when its end is closed.

    Raises BlockingIOError where there is none yet, ValueError for what is no message, and MessageTooLargeError.
    """
    received = channel.receive(end)
    if received is None:
        return None
    content, descriptors = received
    message = None
    try:
        message = read(content)
    finally:
        if not isinstance(message, Query):
            for descriptor in descriptors:
                os.close(descriptor)
    return message, descriptors if isinstance(message, Query) else []


def read(content: dict[str, Any]) -> FromChild:
    """Return the message that *content* is. Raises ValueError where it is none."""
    for name, kind in KINDS.items():
        if name in content:
            return kind.model_validate(content, strict=kind is not Answered)
    raise ValueError(f"{', '.join(content)[:100]!r} is no message")
