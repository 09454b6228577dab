"""One call of a child: sent to a server that forks, followed to its end, ended with all that it has started."""

import fcntl
import logging
import os
import select
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol

import psutil

from ..names import MARK
from . import channel
from .answers import ChildAnswer, answer_adapter, too_large
from .environment import for_children
from .memory import ended_for_memory
from .messages import (
    Answered,
    Begun,
    Ended,
    FromChild,
    Imported,
    Query,
    Ready,
    Refused,
    Rendered,
    Secret,
    TriggerEvent,
    receive,
)
from .users import RunAs, acting_as, read_left

POLL_SECONDS = 0.2
MEMORY_MEGABYTES = 256
END_TIMEOUT_SECONDS = 10.0
LONG_PIPE_BYTES = 2**20

log = logging.getLogger(__name__)


class ServerGone(Exception):  # noqa: N818
    """The process above a call has ended while the call was under way, and the call with it."""


class Checks(Protocol):
    """Looks whether a call may go on: raises to have it ended."""

    def check(self) -> None: ...


class Listener(Protocol):
    """Takes what a call prints and what it asks."""

    def output(self, data: bytes) -> None: ...

    def mask(self, secret: str) -> None: ...

    def answer(self, question: dict[str, Any]) -> dict[str, Any]: ...

    def note(self, message: Rendered | TriggerEvent) -> None: ...


@dataclass(frozen=True)
class CallEnd:
    """What a child has left: its answer if it gave one, and how its process ended."""

    code: int
    answer: ChildAnswer | None
    memory: bool = False
    """Whether the kernel has ended a process here meanwhile, since memory ran out."""


@dataclass(frozen=True)
class ForkSettings:
    """How a worker's children are started."""

    log: Path
    """Where the server, and DAG files that are imported ahead, print to."""
    memory_megabytes: int = MEMORY_MEGABYTES
    """How much memory may be held by parents of DAG files that nobody uses right now."""
    preload: tuple[str, ...] = ()
    """Modules that are imported once, for all children."""
    environment: tuple[str, ...] = ()
    """Patterns of environment variables that children get beside the usual ones."""
    run_as: RunAs | None = None
    network: Path | None = None
    """The network namespace that children are put into; None: the worker's own."""
    masked_names: tuple[str, ...] = ()
    """What has one of these in its name is a secret, too."""
    python: str = sys.executable
    """The interpreter that the server is."""
    fixed_environment: Mapping[str, str] = field(default_factory=dict)
    """What children find in their environment whatever the worker's own says."""


class Server:
    """A process that forks: the first one of all, or one that has imported a DAG file."""

    def __init__(self, control: socket.socket, alive: Callable[[], bool]) -> None:
        self.control = control
        self.alive = alive
        self._lock = threading.Lock()

    def send(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        try:
            with self._lock:
                channel.send(self.control, message, descriptors)
        except OSError:
            raise ServerGone from None


class Call:
    """One call: a child of *server*, followed to its end."""

    def __init__(
        self,
        server: Server,
        request: dict[str, Any],
        listener: Listener,
        checks: Checks,
        grace: float,
        settings: ForkSettings,
    ) -> None:
        self._server = server
        self._request = {**request, **settings_of(settings)}
        self._listener = listener
        self._checks = checks
        self._grace = grace
        self._id = uuid.uuid4().hex
        self._answer: ChildAnswer | None = None
        self._code: int | None = None
        self._pid: int | None = None
        self._ending = False
        self._run_as = settings.run_as
        self.began: Callable[[str, int], None] = lambda *_: None
        """Called with the id of the call and the process that it is, once that is known."""
        self.imported: Callable[[float], None] = lambda _: None
        self.connected: Callable[[Callable[[dict[str, Any]], None]], None] = lambda _: None

    def run(self) -> CallEnd:
        ended_before = ended_for_memory()
        self._mine, theirs = channel.pair()
        self._output, printed = os.pipe()
        if self._request["work"] == "command":
            with suppress(OSError):  # a driver prints a lot, and is not to wait for a worker that is slow for a moment
                fcntl.fcntl(printed, fcntl.F_SETPIPE_SZ, LONG_PIPE_BYTES)
        try:
            with theirs:
                try:
                    channel.send(self._mine, self._request)
                    self._request = {name: self._request.get(name) for name in ("work", "folder")}
                    self._server.send({"fork": self._id}, (theirs.fileno(), printed))
                finally:
                    os.close(printed)
            self._mine.setblocking(False)
            os.set_blocking(self._output, False)
            self.connected(lambda message: channel.send(self._mine, message))
            self._follow()
            assert self._code is not None  # noqa: S101
            with suppress(ServerGone):  # whoever said that it has ended may be the child itself
                self._server.send({"kill": self._id})
            if self._answer is None and (folder := self._request["folder"]) is not None:
                self._answer = self._left_in(Path(folder))
            return CallEnd(self._code, self._answer, self._code != 0 and ended_for_memory() > ended_before)
        except channel.MessageTooLargeError as error:
            reason = f"what the task is to be given, or its answer, is too large: {error}. Return a path instead"
            return CallEnd(1, too_large(reason))
        finally:
            self._mine.close()
            os.close(self._output)

    def _left_in(self, folder: Path) -> ChildAnswer | None:
        """Return the answer that the child has left in its folder, where its code has closed the channel."""
        with acting_as(self._run_as):
            left = read_left(folder / channel.ANSWER, self._run_as)
        try:
            return None if left is None else answer_adapter.validate_python(left)
        except ValueError:  # the child's own doing
            return None

    def _follow(self) -> None:
        self._poll = select.poll()
        self._poll.register(self._mine, select.POLLIN)
        self._poll.register(self._output, select.POLLIN)
        while self._code is None:
            try:
                self._hear()
                self._checks.check()
            except ServerGone:
                raise
            except BaseException:
                self._end()
                raise
        self._drain()

    def _hear(self) -> None:
        """Takes what has come, for a moment."""
        ready = {descriptor for descriptor, _ in self._poll.poll(1000 * POLL_SECONDS)}
        printed = self._printed() if self._output in ready else b""
        try:
            # Only now: what is to be masked was said before it was printed.
            self._messages()
        finally:
            if printed:
                self._listener.output(printed)
        if not ready and not self._server.alive():
            self._gone()

    def _printed(self) -> bytes:
        try:
            data = os.read(self._output, 1 << 16)
        except BlockingIOError:
            return b""
        if not data:
            self._poll.unregister(self._output)
        return data

    def _messages(self) -> None:
        while self._code is None:
            try:
                received = receive(self._mine)
            except BlockingIOError:
                return
            except ValueError:  # the child's own doing
                log.warning("a child has sent what is no message")
                continue
            if received is None:
                self._gone()
            else:
                self._message(*received)

    def _gone(self) -> NoReturn:
        end_left(self._id, self._pid, self._run_as)
        raise ServerGone

    def _message(self, message: FromChild, descriptors: list[int]) -> None:
        match message:
            case Answered():
                self._answer = message.answer
            case Secret():
                self._listener.mask(message.mask)
            case Query() if len(descriptors) != 1:
                log.warning("a child has asked without a way to answer")
                refuse(descriptors)
            case Query(ask=query):
                reply(descriptors, {"ending": self._ending} if "ending" in query else self._listener.answer(query))
            case TriggerEvent() | Rendered():
                self._listener.note(message)
            case Begun() if self._pid is None:  # its parent says it first, and nobody else
                self._pid = message.pid
                self.began(self._id, self._pid)
            case Imported():
                self.imported(message.imported)
            case Ended():
                self._code = message.ended
            case Refused():
                raise ServerGone(message.refused)
            case Ready() | Begun():  # of the parent of a file's calls
                pass

    def _drain(self) -> None:
        """Takes what is still in the pipe. Whoever else holds it open is not waited for."""
        with suppress(OSError):
            while data := os.read(self._output, 1 << 16):
                self._listener.output(data)

    def _end(self) -> None:
        """Ends the child, with all that it has started."""
        self._ending = True
        with suppress(ServerGone):
            if self._grace:
                self._server.send({"stop": self._id})
                self._until_ended(self._grace)
            if self._code is None:
                self._server.send({"kill": self._id})
                self._until_ended(END_TIMEOUT_SECONDS)
        with suppress(Exception):
            self._drain()

    def _until_ended(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._code is None and time.monotonic() < deadline:
            try:
                self._hear()
            except ServerGone:
                raise
            except Exception as error:  # such as a full disk: its end goes before its last words
                log.warning("what an ending call says cannot be taken: %s", error)


def environment_of(settings: ForkSettings) -> dict[str, str]:
    """The environment of every child, as it is now."""
    return {**for_children(os.environ, settings.environment), **settings.fixed_environment}


def settings_of(settings: ForkSettings) -> dict[str, Any]:
    """What every child is told: who it is, and its environment as it is now."""
    run_as = settings.run_as
    return {
        "env": environment_of(settings),
        "uid": run_as.uid if run_as is not None else None,
        "gid": run_as.gid if run_as is not None else None,
        "network": str(settings.network) if settings.network is not None else None,
        "masked_names": [*settings.masked_names],
    }


def end_left(id_: str, session: int | None, run_as: RunAs | None = None) -> None:
    """Ends what the call *id_* has left, where its parent is no longer there to do it: of its session, or marked.

    Where children run as another user, nobody else's processes are touched, whatever a child has said.
    """
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if run_as is not None and process.uids().real != run_as.uid:
                continue
            if os.getsid(process.pid) == session or process.environ().get(MARK) == id_:
                process.kill()


def refuse(descriptors: list[int]) -> None:
    """Closes what has come with a question that is not answered."""
    for descriptor in descriptors:
        os.close(descriptor)


def reply(descriptors: list[int], answer: dict[str, Any]) -> None:
    """Answers a question on the end that came with it."""
    with socket.socket(fileno=descriptors[0]) as asker, suppress(OSError):
        channel.send(asker, answer)
