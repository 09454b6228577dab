"""Messages between a worker and its forks: whole JSON objects, each sent and received at once.

A message of any size arrives in one piece: a large one travels in a memory file that is handed over.
"""

import json
import os
import socket
from collections.abc import Sequence
from typing import Any

INLINE_BYTES = 64 * 1024
"""Larger messages go through a memory file: a socket's buffer holds about 200 KB."""
MOST_DESCRIPTORS = 8
ANSWER = "answer.json"
"""In the folder of a call: its answer, where the channel was closed."""
_IN_FILE = b"file"


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection that keeps messages apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Sends *message* and copies of *descriptors*. Raises OSError if nobody is at the other end."""
    data = json.dumps(message, separators=(",", ":")).encode()
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

    Raises BlockingIOError if *end* does not block and there is none.
    """
    try:
        data, descriptors, _, _ = socket.recv_fds(end, 2 * INLINE_BYTES, MOST_DESCRIPTORS)
    except ConnectionResetError:
        return None
    if not data:
        return None
    if data == _IN_FILE:
        with os.fdopen(descriptors.pop(0), "rb") as file:
            file.seek(0)
            data = file.read()
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    message: dict[str, Any] = json.loads(data)
    return message, descriptors
