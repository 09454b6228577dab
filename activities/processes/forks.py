"""The worker's end of its fork server: calls that run in children, and parents for DAG files that import slowly."""

import logging
import os
import select
import socket
import subprocess
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...model.run.task_instances import Failure
from . import channel
from .answers import Failed
from .call import (
    END_TIMEOUT_SECONDS,
    POLL_SECONDS,
    Call,
    CallEnd,
    Checks,
    ForkSettings,
    Listener,
    Server,
    ServerGone,
    environment_of,
    refuse,
    reply,
    settings_of,
)
from .messages import Answered, Ended, Query, Ready, Refused, Secret, receive

WARM_FROM_SECONDS = 0.03
"""A DAG file whose import takes longer gets a parent of its own at once, in which it is imported already."""
WARM_FROM_CALLS = 4
"""Every other file gets one with so many calls: a fork that need not import is cheaper than one that has to."""
IDLE_SECONDS = 600.0
"""A parent that nobody has used for so long is ended."""
STARTUP_TIMEOUT_SECONDS = 120.0
LARGEST_SERVER_LOG = 10 * 2**20
MAX_KNOWN_FILES = 10_000

log = logging.getLogger(__name__)


class ImportFailed(Exception):  # noqa: N818
    """The DAG file cannot be imported. The argument is the failure."""


@dataclass(frozen=True)
class CodePlace:
    """Where a DAG file is on this host, and where modules are looked up that are not beside it."""

    path: Path
    roots: tuple[Path, ...] = ()
    digest: Callable[[], str] = field(default=lambda: "", compare=False)
    """Of the file and of the local modules that it imports, as they are now; "" for a copy that never changes."""

    @property
    def name(self) -> str:
        """By what a worker knows the file: where it is, with its roots; the same for all its versions there."""
        return f"{self.path} {[str(root) for root in self.roots]}"

    def as_request(self) -> dict[str, Any]:
        return {"path": str(self.path), "roots": [str(root) for root in self.roots]}


class _Warm:
    """The parent of one DAG file's calls."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.failure: Failure | None = None
        self.settled = threading.Event()
        self.megabytes = 0
        self.users = 0
        self.used_at = time.monotonic()
        self.masks: list[str] = []
        """What the file has looked up while it was imported: its calls may print it."""
        self.mine: socket.socket | None = None

    def alive(self) -> bool:
        """Whether the process is there: its channel says when it has ended."""
        if self.mine is None:
            return False
        try:
            received = receive(self.mine)
        except BlockingIOError:
            return True
        except (ValueError, channel.MessageTooLargeError):
            return False
        if received is not None:
            refuse(received[1])
        return received is not None and not isinstance(received[0], Ended)

    def stop(self) -> None:
        if self.server is not None:
            self.server.control.close()  # the end of its socket is its end
        if self.mine is not None:
            self.mine.close()
            self.mine = None


class Forks:
    """All children of one worker. Safe to use from many threads."""

    def __init__(self, settings: ForkSettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._first: tuple[Server, subprocess.Popen[bytes]] | None = None
        self._warm: OrderedDict[str, _Warm] = OrderedDict()
        self._seconds: OrderedDict[str, float | None] = OrderedDict()
        """How long the import of each file takes; None while somebody finds out."""
        self._calls: dict[str, int] = {}
        self._known = threading.Condition(self._lock)

    def start(self) -> None:
        """Starts the server, so that it is warm when the first task comes."""
        self._main()

    def call(
        self,
        work: str,
        request: dict[str, Any],
        *,
        listener: Listener,
        checks: Checks,
        code: CodePlace | None = None,
        grace: float = 0.0,
        connect: bool = False,
        separate: str | None = None,
        began: Callable[[str, int], None] | None = None,
        connected: Callable[[Callable[[dict[str, Any]], None]], None] | None = None,
    ) -> CallEnd:
        """Has a child do *work*, and follows it to its end.

        When *checks* raises, the child is sent SIGTERM, has *grace* seconds, is ended with all that it has started,
        and the exception goes on. With *connect* the child can be a client of Spark Connect at once. *separate*
        names a parent for calls that are not to be children of the first one. *began* is called with the call's id and
        its process. *connected* is given a way to tell the
        child more while it works. Raises ServerGone, ImportFailed.
        """
        if connected is not None:
            assert code is not None  # noqa: S101
            whole = {**request, "work": work, "code": code.as_request()}
            call = Call(self._main(), whole, listener, checks, grace, self.settings)
            call.connected = connected
            return call.run()
        whole = {**request, "work": work, "code": code.as_request() if code is not None else None}

        def ready(server: Server) -> Call:
            made = Call(server, whole, listener, checks, grace, self.settings)
            made.began = began or made.began
            return made

        if connect or separate is not None:
            content = "" if code is None else f" {code.name} {code.digest()}"
            key = f"connect{content}" if connect else f"separate {separate}"
            with self._warmed(key, code if connect else None, listener, checks, connect=connect) as server:
                return ready(server).run()
        if code is None:
            return ready(self._main()).run()
        return self._call_code(code, ready, listener, checks)

    def _call_code(
        self, code: CodePlace, ready: Callable[[Server], Call], listener: Listener, checks: Checks
    ) -> CallEnd:
        name = f"{code.name} "
        seconds = self._import_seconds(name, checks)
        if seconds is not None and self._is_worth_a_parent(name, seconds):
            with self._warmed(name + code.digest(), code, listener, checks) as server:
                return ready(server).run()
        call = ready(self._main())
        call.imported = lambda found: self._note_seconds(name, found)
        try:
            return call.run()
        finally:
            if seconds is None:
                self._note_seconds(name, None)

    def _is_worth_a_parent(self, name: str, seconds: float) -> bool:
        """Whether the file is to have a parent of its own: one that imports quickly, only as long as there is room."""
        with self._lock:
            calls = self._calls[name] = self._calls.get(name, 0) + 1
            if seconds >= WARM_FROM_SECONDS or any(key.startswith(name) for key in self._warm):
                return True
            held = sum(warm.megabytes for warm in self._warm.values())
            return calls >= WARM_FROM_CALLS and held < self.settings.memory_megabytes

    def _import_seconds(self, name: str, checks: Checks) -> float | None:
        """How long the file's import takes; None if the caller is the one to find out."""
        while True:
            with self._known:
                if name not in self._seconds:
                    self._seconds[name] = None
                    return None
                if (found := self._seconds[name]) is not None:
                    self._seconds.move_to_end(name)
                    return found
                self._known.wait(POLL_SECONDS)
            checks.check()

    def _note_seconds(self, name: str, found: float | None) -> None:
        """Takes note of how long an import took; None: whoever tried it did not find out."""
        with self._known:
            if found is not None:
                self._seconds[name] = found
            elif self._seconds.get(name) is None:
                self._seconds.pop(name, None)
            while len(self._seconds) > MAX_KNOWN_FILES:
                self._calls.pop(self._seconds.popitem(last=False)[0], None)
            self._known.notify_all()

    def _main(self) -> Server:
        with self._lock:
            if self._first is not None and self._first[1].poll() is None:
                return self._first[0]
            self._stop_warm()
            if self._first is not None:
                self._first[0].control.close()
            self._first = self._started()
            return self._first[0]

    def _started(self) -> tuple[Server, "subprocess.Popen[bytes]"]:
        mine, theirs = channel.pair()
        argv = [self.settings.python, "-P", "-m", "tidemill.activities.work.fork_server", str(theirs.fileno())]
        with theirs, self._log() as printed:
            process = subprocess.Popen(
                [*argv, *self.settings.preload],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                pass_fds=[theirs.fileno()],
                env=environment_of(self.settings),
                start_new_session=True,
            )
        return Server(mine, lambda: process.poll() is None), process

    @contextmanager
    def _log(self) -> Iterator[int]:
        path = self.settings.log
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > LARGEST_SERVER_LOG:
            path.replace(path.with_suffix(".log.1"))
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            yield opened
        finally:
            os.close(opened)

    @contextmanager
    def _warmed(
        self, key: str, code: CodePlace | None, listener: Listener, checks: Checks, *, connect: bool = False
    ) -> Iterator[Server]:
        """The parent in which *code* is imported, started unless it is there, kept as long as the block."""
        main = self._main()
        with self._lock:
            warm = self._warm.get(key)
            if warm is not None and warm.settled.is_set() and (warm.server is None or not warm.alive()):
                warm.stop()
                warm = None
            if mine := warm is None:
                warm = self._warm[key] = _Warm()
            assert warm is not None  # noqa: S101
            self._warm.move_to_end(key)
            warm.users += 1
            spare = self._spare()
        for other in spare:
            other.stop()
        try:
            if mine:
                self._warm_up(main, warm, code, listener, checks, connect=connect)
            while not warm.settled.wait(POLL_SECONDS):
                checks.check()
            if warm.failure is not None:
                raise ImportFailed(warm.failure)
            if warm.server is None:
                raise ServerGone
            for secret in warm.masks:
                listener.mask(secret)
            yield warm.server
        finally:
            with self._lock:
                warm.users -= 1
                warm.used_at = time.monotonic()

    def _warm_up(
        self,
        main: Server,
        warm: _Warm,
        code: CodePlace | None,
        listener: Listener,
        checks: Checks,
        *,
        connect: bool,
    ) -> None:
        mine, theirs = channel.pair()
        control, their_control = channel.pair()
        request = {"work": "serve", "connect": connect, "code": code.as_request() if code is not None else None}
        id_ = uuid.uuid4().hex
        try:
            with theirs, their_control, self._log() as printed:
                channel.send(mine, {**request, **settings_of(self.settings)})
                main.send({"fork": id_}, (theirs.fileno(), printed, their_control.fileno()))
            warm.mine = mine
            self._await_ready(main, warm, control, listener, checks)
        finally:
            if warm.server is None:  # it may hang in its import
                control.close()
                with suppress(ServerGone):
                    main.send({"kill": id_})
            mine.setblocking(False)
            warm.settled.set()

    def _await_ready(
        self, main: Server, warm: _Warm, control: socket.socket, listener: Listener, checks: Checks
    ) -> None:
        assert warm.mine is not None  # noqa: S101
        deadline = time.monotonic() + STARTUP_TIMEOUT_SECONDS
        while main.alive():
            if select.select([warm.mine], [], [], POLL_SECONDS)[0]:
                try:
                    message, descriptors = receive(warm.mine) or (Ended(ended=-9), [])
                except (ValueError, channel.MessageTooLargeError):  # the file's own doing
                    message, descriptors = Ended(ended=-9), []
                match message:
                    case Ready():
                        warm.server, warm.megabytes = Server(control, warm.alive), message.megabytes
                        return
                    case Secret():
                        warm.masks.append(message.mask)
                    case Query() if len(descriptors) == 1:
                        reply(descriptors, listener.answer(message.ask))
                    case Query():
                        refuse(descriptors)
                    case Answered(answer=Failed(failure=failure)):
                        warm.failure = failure
                        return
                    case Answered():
                        warm.failure = _ended_importing(Ended(ended=0))
                        return
                    case Ended() | Refused():
                        warm.failure = _ended_importing(message)
                        return
            checks.check()
            if time.monotonic() > deadline:
                return

    def _spare(self) -> list[_Warm]:
        """Takes parents that nobody uses off the list, the least recently used first, until few enough are left."""
        held = sum(warm.megabytes for warm in self._warm.values())
        too_old = time.monotonic() - IDLE_SECONDS
        spare = []
        for key, warm in [(key, warm) for key, warm in self._warm.items() if not warm.users]:
            if held > self.settings.memory_megabytes or warm.used_at < too_old:
                held -= warm.megabytes
                spare.append(self._warm.pop(key))
        return spare

    def _stop_warm(self) -> None:
        for warm in self._warm.values():
            warm.stop()
        self._warm.clear()

    def close(self) -> None:
        """Ends every child and the server."""
        with self._lock:
            self._stop_warm()
            if self._first is None:
                return
            server, process = self._first
            self._first = None
            server.control.close()
            try:
                process.wait(END_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ended_importing(message: Ended | Refused) -> Failure:
    if isinstance(message, Refused):
        end = message.refused
    else:
        end = f"signal {-message.ended}" if message.ended < 0 else f"exit code {message.ended}"
    return Failure(error_type="ImportError", message=f"importing the DAG file ended its process ({end})")
