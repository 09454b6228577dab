"""The socket on which Airflow's Task SDK asks its supervisor: here answered by a thread of the same process.

A frame is its length in four bytes and an array in MessagePack: an id, a message, and what has gone wrong. Also
processes that the task starts ask there: it is their standard input, as below Airflow's own supervisor.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from .decoding import decoder
from .log_lines import log_pipe

Message = dict[str, Any]
Answer = Callable[[Message, dict[str, str] | None], Message | None]
"""Answers a message; with it comes what the one who asks has sent along, by name."""
LENGTH = 4


class Wire:
    """One end of the socket, and what is answered there."""

    def __init__(self, end: socket.socket, answer: Answer) -> None:
        self._end = end
        self._answer = answer

    def serve(self) -> None:
        """Answers until the other end is closed."""
        with suppress(OSError, EOFError):
            while True:
                self._reply(self._received())

    def _received(self) -> list[Any]:
        import msgspec

        length = int.from_bytes(self._exactly(LENGTH), "big")
        frame: list[Any] = msgspec.msgpack.decode(self._exactly(length))
        return frame

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._end.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def _reply(self, frame: list[Any]) -> None:
        number, message = frame[0], frame[1]
        if message["type"] == "ResendLoggingFD":
            with log_pipe() as writing:
                socket.send_fds(self._end, [_framed([number, {"type": "SentFDs", "fds": [writing]}, None])], [writing])
            return
        try:
            carrier = frame[2] if len(frame) > 2 else None
            answered = [number, self._answer(message, carrier), None]
        except Exception as error:  # the task hears of it, and goes on to ask
            failure = {"type": "ErrorResponse", "error": "API_SERVER_ERROR", "detail": {"message": str(error)}}
            answered = [number, None, failure]
        self._end.sendall(_framed(answered))


def _framed(content: list[Any]) -> bytes:
    import msgspec

    data: bytes = msgspec.msgpack.encode(content)
    return len(data).to_bytes(LENGTH, "big") + data


@cache
def comms_with_words() -> Any:
    """The SDK's way to its supervisor, which says of a denied variable or connection why: the SDK drops the words."""
    from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied, ErrorType
    from airflow.sdk.execution_time.comms import CommsDecoder, ErrorResponse

    class WithWords(CommsDecoder):  # type: ignore[misc]
        def _from_frame(self, frame: Any) -> Any:
            answer = super()._from_frame(frame)
            if isinstance(answer, ErrorResponse) and answer.error == ErrorType.PERMISSION_DENIED:
                raise AirflowSecretsBackendAccessDenied((answer.detail or {}).get("message"))
            return answer

    return WithWords


@contextmanager
def answered(answer: Answer, comms: Callable[..., Any] | None = None) -> Iterator[None]:
    """In the block, what Airflow's SDK asks in this process, and in those that it starts, is answered by *answer*.

    *comms* makes the end that asks; None: the SDK's own, with the words of denials.
    """
    from airflow.sdk.execution_time import task_runner

    mine, theirs = socket.socketpair()
    before = os.dup(0)
    os.dup2(theirs.fileno(), 0)
    made = comms or comms_with_words()
    task_runner.SUPERVISOR_COMMS = made(socket=theirs, body_decoder=decoder(), err_decoder=decoder())
    thread = threading.Thread(target=Wire(mine, answer).serve, name="airflow-supervisor", daemon=True)
    thread.start()
    stdin = sys.stdin
    try:
        with Path(os.devnull).open() as sys.stdin:  # who reads it waits for no answer of the worker's
            yield
    finally:
        sys.stdin = stdin
        del task_runner.SUPERVISOR_COMMS
        theirs.close()
        os.dup2(before, 0)
        os.close(before)
        mine.shutdown(socket.SHUT_RDWR)
        thread.join()
        mine.close()
