"""Messages between a worker and its forks: whole JSON objects, each sent and received at once.

A message of any size arrives in one piece: a large one travels in a memory file that is handed over.
"""

import fcntl
import json
import os
import socket
from collections.abc import Sequence
from typing import Any

from .unicode import plain_json

INLINE_BYTES = 64 * 1024
"""Larger messages go through a memory file: a socket's buffer holds about 200 KB."""
LARGEST_MESSAGE = 128 * 2**20
"""No message may have more bytes: whoever receives it holds all of it in memory."""
MAX_DESCRIPTORS = 8
ANSWER = "answer.json"
"""In the folder of a call: its answer, where the channel was closed."""
_IN_FILE = b"file"
F_GET_SEALS = 1034
"""Of fcntl.h; Python 3.11 has no name for it."""


class MessageTooLargeError(Exception):
    """A message has more bytes than may be sent. The argument is their number."""

    def __str__(self) -> str:
        return f"it has {self.args[0]:,} bytes, and at most {LARGEST_MESSAGE:,} travel between processes"


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection that keeps messages apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Sends *message* and copies of *descriptors*. Raises OSError if nobody is there, or MessageTooLargeError."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > LARGEST_MESSAGE:
        raise MessageTooLargeError(len(data))
    if len(data) <= INLINE_BYTES:
        _send(end, data, descriptors)
        return
    file = os.memfd_create("message", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(file), "wb") as writing:
            writing.write(data)
        _send(end, _IN_FILE, [file, *descriptors])
    finally:
        os.close(file)


def _send(end: socket.socket, data: bytes, descriptors: Sequence[int]) -> None:
    if descriptors:
        socket.send_fds(end, [data], [*descriptors])
    else:
        end.send(data)


def receive(end: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and the descriptors that came with it; None when the other end is closed.

    Raises BlockingIOError if *end* does not block and there is none; ValueError for what is no message, and
    MessageTooLargeError. Whoever is at the other end may be anybody's code.
    """
    try:
        data, descriptors, _, _ = socket.recv_fds(end, 2 * INLINE_BYTES, MAX_DESCRIPTORS)
    except ConnectionResetError:
        return None
    if not data:
        return None
    try:
        if data == _IN_FILE:
            data = _content(descriptors)
        try:
            message = plain_json(data)
        except RecursionError:
            raise ValueError("a message is nested too deeply") from None
        if not isinstance(message, dict):
            raise ValueError("a message is a JSON object")
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return message, descriptors


def _content(descriptors: list[int]) -> bytes:
    """What is in the memory file that came first, however large its sender says it is."""
    if not descriptors:
        raise ValueError("a message has come without its file")
    with os.fdopen(descriptors.pop(0), "rb", buffering=0) as file:
        try:  # a pipe, or a file of a network, would be waited for
            fcntl.fcntl(file, F_GET_SEALS)
        except OSError:
            raise ValueError("a message has come in what is no file of memory") from None
        file.seek(0)
        data = bytearray()
        while part := file.read(min(1 << 20, LARGEST_MESSAGE + 1 - len(data))):
            data += part
        if len(data) > LARGEST_MESSAGE:
            raise MessageTooLargeError(os.fstat(file.fileno()).st_size)
    return bytes(data)
