"""The worker's end of the Python servers: one for each version of a DAG file, started when first needed."""

import json
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import psutil

from ..model.attempts import TaskAttempt
from ..model.task_instances import Failure
from .attempt_folder import AttemptFolder
from .bundles.listing import Tree
from .dag_import import archive_of
from .names import MARK
from .supervision import POLL_EVERY, Watch, task_failed

MOST_SERVERS = 8


@dataclass(frozen=True)
class CodePlace:
    """Where a DAG file is on this host, and where modules are looked up that are not beside it."""

    path: Path
    roots: tuple[Path, ...] = ()
    is_kept: bool = False
    """Whether it is a kept copy, which never changes."""

    def digest(self) -> str:
        """Of the file and of the local modules that it imports, as they are now."""
        if self.is_kept:
            return ""
        whole = archive_of(self.path) or self.path
        root = next((root for root in self.roots if whole.is_relative_to(root)), whole.parent)
        return Tree(root).digest(self.path.relative_to(root).as_posix())


class ServerGone(Exception):  # noqa: N818
    """The server ended while a call was under way."""


class ForkServer:
    """A running `python_server` for one DAG file. Safe to use from many threads."""

    def __init__(self, code: CodePlace | None, log: Path, *, connect: bool = False) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-P", "-m", "tidemill.activities.python_server"]
        argv += [str(code.path) if code is not None else "", "connect" if connect else ""]
        argv += [str(root) for root in code.roots] if code is not None else []
        with log.open("ab") as errors:
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self._lock = threading.Lock()
        self._waiting: dict[str, Queue[dict[str, Any] | None]] = {}
        self._greeted = threading.Event()
        self._failure: Failure | None = None
        self.users = 0
        self._listener = threading.Thread(target=self._listen, daemon=True, name=f"answers of {code}")
        self._listener.start()

    def ready(self, watch: Watch) -> None:
        """Waits until the file is imported. Raises the task's failure if it cannot be."""
        while not self._greeted.wait(4 * POLL_EVERY):
            watch.check()
        if self._failure is not None:
            raise task_failed(self._failure)

    def call(
        self, attempt: TaskAttempt, folder: AttemptFolder, watch: Watch, connect: dict[str, Any] | None = None
    ) -> int:
        """Runs *attempt*'s function in a child, or what *connect* says as a client of Spark Connect.

        Returns the child's exit code. The result is in the folder.
        """
        request = {"attempt": attempt.model_dump(mode="json"), "connect": connect, "parse": None}
        return self._run(f"{attempt.path}@{id(watch)}", request, folder.path, folder.log, watch)

    def parse(self, request: dict[str, Any], folder: Path, log: Path, watch: Watch) -> int:
        """Parses a DAG file in a child, as *request* says. Returns its exit code; the result is in *folder*."""
        parsing = {"attempt": None, "connect": None, "parse": request}
        return self._run(f"parse {request['name']}@{id(watch)}", parsing, folder, log, watch)

    def _run(self, id_: str, request: dict[str, Any], folder: Path, log: Path, watch: Watch) -> int:
        answers: Queue[dict[str, Any] | None] = Queue()
        self._waiting[id_] = answers
        try:
            self._send({"id": id_, "folder": str(folder), "log": str(log), **request})
            try:
                answer = _await(answers, watch)
            except BaseException:
                self._send({"kill": id_})
                _drain(answers)
                raise
        finally:
            self._waiting.pop(id_, None)
        if answer is None:
            _end_marked(id_)
            raise ServerGone
        return int(answer["code"])

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """Ends the server and every child of it."""
        assert self._process.stdin is not None  # noqa: S101
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()

    def _send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None  # noqa: S101
        try:
            with self._lock:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise ServerGone from None

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101
        with self._process.stdout as lines:
            for line in lines:
                self._hear(json.loads(line))
        self._ended()

    def _hear(self, answer: dict[str, Any]) -> None:
        if "id" in answer:
            queue = self._waiting.get(answer["id"])
            if queue is not None:
                queue.put(answer)
            return
        if "failure" in answer:
            self._failure = Failure.model_validate(answer["failure"])
        self._greeted.set()

    def _ended(self) -> None:
        if not self._greeted.is_set():
            end = _end(self._process.wait())
            self._failure = Failure(
                error_type="ImportError", message=f"importing the DAG file ended its process ({end})"
            )
            self._greeted.set()
        for queue in [*self._waiting.values()]:
            queue.put(None)


class ForkServers:
    """The servers of one worker, by file and content; the least recently used idle one goes first."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._servers: OrderedDict[tuple[str, str, bool], ForkServer] = OrderedDict()

    @contextmanager
    def for_code(self, code: CodePlace | None, *, connect: bool = False) -> Iterator[ForkServer]:
        """The server of the file and its modules as they are now, kept as long as the block.

        With *connect* its children can be clients of Spark Connect at once. Without a file they do what needs none.
        """
        key = (str(code), code.digest() if code is not None else "", connect)
        with self._lock:
            server = self._servers.get(key)
            if server is not None and not server.alive:
                server.stop()  # others may still be about to hear that it is gone
                server = None
            if server is None:
                name = code.path.stem if code is not None else "connect" if connect else "parsing"
                server = ForkServer(code, self._home / "logs" / "dag_files" / f"{name}.log", connect=connect)
                self._servers[key] = server
            self._servers.move_to_end(key)
            server.users += 1
            spare = self._spare()
        for other in spare:
            other.stop()
        try:
            yield server
        finally:
            with self._lock:
                server.users -= 1

    @contextmanager
    def alone(self) -> Iterator[ForkServer]:
        """A server without a file that nobody else uses, as long as the block."""
        server = ForkServer(None, self._home / "logs" / "dag_files" / "alone.log")
        try:
            yield server
        finally:
            server.stop()

    def close(self) -> None:
        """Ends every server."""
        with self._lock:
            for server in self._servers.values():
                server.stop()
            self._servers.clear()

    def _spare(self) -> list[ForkServer]:
        """Takes servers that nobody uses off the list, the least recently used first, until few enough are left."""
        idle = [key for key, server in self._servers.items() if not server.users]
        return [self._servers.pop(key) for key in idle[: max(0, len(self._servers) - MOST_SERVERS)]]


def _end_marked(id_: str) -> None:
    """Ends what the call *id_* has left, where its server is no longer there to do it."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == id_:
                process.kill()


def _await(queue: "Queue[dict[str, Any] | None]", watch: Watch) -> dict[str, Any] | None:
    while True:
        watch.check()
        try:
            return queue.get(timeout=4 * POLL_EVERY)
        except Empty:
            continue


def _drain(queue: "Queue[dict[str, Any] | None]") -> None:
    try:
        queue.get(timeout=10)
    except Empty:
        return


def _end(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
