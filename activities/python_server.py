"""Holds one DAG file imported, and forks a child for each call of one of its functions.

A program of its own, so that user code never runs in a worker, yet a call costs a fork and not an
interpreter's start. Requests come as JSON lines on standard input, answers go out as JSON lines;
everything that the file prints goes elsewhere. The end of standard input is the worker's end:
then every child is killed.

Requests: `{"id", "attempt", "folder", "log"}` starts one, `{"kill": id}` ends one. With "connect" a request is
for a Spark Connect client, with "parse" for the parse of a DAG file. For those there are servers without a file.
Answers: `{"ready": true}` or `{"failure": ...}` first, then `{"id", "code"}` for each that ended.
"""

import contextlib
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

import psutil

from ..model.attempts import TaskAttempt
from ..model.authoring.dags import DAG
from .dag_import import import_dags
from .isolated_call import describe_failure, perform
from .names import MARK
from .parse_child import parse_within_limits
from .secrets import mask_output
from .spark import connect_child
from .supervisor import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl, write_json

WITH_CONNECT = "connect"


class Server:
    """One imported DAG file and the children that run its functions."""

    def __init__(self, dags: list[DAG], answers: int) -> None:
        self._dags = dags
        self._answers = answers
        self._children: dict[int, str] = {}

    def serve(self, wake: int) -> None:
        buffer = b""
        while True:
            readable, _, _ = select.select([sys.stdin.fileno(), wake], [], [])
            if wake in readable:
                os.read(wake, 4096)
                self._reap()
            if sys.stdin.fileno() in readable:
                chunk = os.read(sys.stdin.fileno(), 1 << 16)
                if not chunk:
                    return self._kill_all()
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    self._obey(json.loads(line))

    def _obey(self, request: dict[str, Any]) -> None:
        if "kill" in request:
            for pid, id_ in self._children.items():
                if id_ == request["kill"]:
                    _kill_group(pid)
                    os.kill(pid, signal.SIGKILL)  # it may not have a group of its own yet
            return
        pid = os.fork()
        if pid == 0:
            self._be_child(request)
        self._children[pid] = request["id"]

    def _be_child(self, request: dict[str, Any]) -> None:
        code, me = 1, os.getpid()
        try:
            os.setsid()
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.environ[MARK] = request["id"]
            log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for source, target in ((nothing, 0), (log, 1), (log, 2)):
                os.dup2(source, target)
            os.close(self._answers)
            mask_output()
            result = self._result(request)
            if os.getpid() != me:  # the user's code has forked, and this is the one too many
                os._exit(0)
            if result is not None:
                write_json(Path(request["folder"]) / "result.json", result)
            code = 0
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _result(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """What goes into `result.json`; None where that has been written already."""
        if request["parse"] is not None:
            return parse_within_limits(request["parse"])
        if request["connect"] is not None:
            connect_child.main(Path(request["folder"]), request["connect"])
            return None
        return perform(self._dags, TaskAttempt.model_validate(request["attempt"]))

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                id_ = self._children.pop(pid, None)
                _kill_group(pid)
                self._end_orphans()
                if id_ is not None:
                    self._tell({"id": id_, "code": os.waitstatus_to_exitcode(status)})

    def _end_orphans(self) -> None:
        """Ends what ended children have left: daemons that fell to this process. Their own children fall to it next.

        Where no file's functions are run, nobody else can have left any.
        """
        active = {*self._children.values()}
        for orphan in _direct_children():
            if orphan not in self._children and (not self._dags or _mark_of(orphan) not in active):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(orphan, signal.SIGKILL)

    def _kill_all(self) -> None:
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def _tell(self, answer: dict[str, Any]) -> None:
        tell(self._answers, answer)


def tell(answers: int, answer: dict[str, Any]) -> None:
    os.write(answers, json.dumps(answer).encode() + b"\n")


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _direct_children() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    return [process.pid for process in psutil.Process().children()]


def _mark_of(pid: int) -> str | None:
    """The request that the process *pid* belongs to."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).environ().get(MARK)
    return None


def main(path: str, warm: str, *roots: str) -> None:
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.dup(sys.stdout.fileno())
    os.set_inheritable(answers, False)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the file prints is not an answer
    try:
        if warm == WITH_CONNECT:
            connect_child.preload()
        dags = import_dags(Path(path), [Path(root) for root in roots]) if path else []
    except BaseException as error:
        tell(answers, {"failure": describe_failure(error).model_dump(mode="json")})
        return
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write)
    tell(answers, {"ready": True})
    Server(dags, answers).serve(wake_read)


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)
