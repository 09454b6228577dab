"""What a fork does from its first moment to its last: takes its place, does its work, answers."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from ...model.errors import InvalidInputError
from ...model.run.facts import Question
from ..masking import HERE, MaskingStream
from ..names import MARK
from ..processes import channel
from ..processes.channel import ANSWER
from ..processes.memory import be_ended_first
from ..processes.supervisor import PR_SET_PDEATHSIG, prctl
from ..secrets import ask_worker, mask_names
from . import bash, files, function, logs, mail, params, parse, templates, timetable, watch, webhook
from .dag_import import Code, import_code
from .failures import describe_failure, print_failure

Answer = dict[str, Any]
CLONE_NEWNET = 0x40000000
ASKED_FOR, ASKED_EVERY = 90.0, 1.0
"""In seconds. While workers are replaced, or a workflow has other work, nobody answers for a moment."""


@dataclass
class Job:
    """What the child is to do, and the way back to its worker."""

    id: str
    request: dict[str, Any]
    channel: socket.socket
    code: Code | None = None
    """The DAG file that was imported before the fork."""
    control: Sequence[socket.socket] = field(default=())
    files_log: int = -1
    """Where DAG files print to while they are imported: it is not the task that prints."""

    def tell(self, **message: Any) -> None:
        channel.send(self.channel, message)

    def answer(self, answer: Answer) -> None:
        """Tells what has come of it; in a file where the user's code has closed the channel."""
        try:
            self.tell(answer=answer)
        except channel.MessageTooLargeError as error:
            told = f"the result is too large: {error}. Write it somewhere yourself, and return where"
            failure = {"error_type": "ResultTooLarge", "message": told, "retryable": False}
            self.tell(answer={"failure": failure})
        except OSError:
            if (folder := self.request.get("folder")) is None:
                raise
            Path(folder, ANSWER).write_text(json.dumps(answer))

    def ask(self, **question: Any) -> dict[str, Any]:
        """What the worker answers; asked again while that may come later. Raises ConnectionError if it is gone."""
        deadline = time.monotonic() + ASKED_FOR
        while (answer := self._ask(question)).get("later") and time.monotonic() < deadline:
            time.sleep(ASKED_EVERY)
        return answer

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        # An end of its own for each answer: threads and forks of the task may ask at the same time.
        mine, theirs = channel.pair()
        with mine:
            with theirs:
                channel.send(self.channel, {"ask": question}, [theirs.fileno()])
            received = channel.receive(mine)
        if received is None:
            raise ConnectionError("the worker is gone")
        return received[0]

    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def log_url(self) -> str:
        """Where people find the attempt's log."""
        return str(self.request.get("log_url", ""))

    def facts(self, question: Question) -> Any:
        """What the worker knows of a DAG or a run. Raises InvalidInputError if it cannot be asked."""
        answer = self.ask(**question.model_dump(mode="json"))
        if "error" in answer:
            raise InvalidInputError(answer["error"])
        return answer["answer"]

    def imported(self) -> Code:
        """The DAG file, imported now unless it was before. Tells the worker how long that takes."""
        if self.code is None:
            start = time.perf_counter()
            with _printing_to(self.files_log), _masked_prints():
                self.code = import_code(Path(self.request["code"]["path"]), map(Path, self.request["code"]["roots"]))
            self.tell(imported=time.perf_counter() - start)
        return self.code


def serve(job: Job) -> Answer:
    """Imports what the request says, and forks children from then on."""
    from ..processes import fork_server

    if job.request.get("connect"):
        from . import connect

        connect.preload()
    try:
        code = job.imported() if job.request["code"] is not None else None
    except BaseException as error:
        print_failure(error)
        return {"failure": describe_failure(error).model_dump(mode="json")}
    job.tell(ready=True, megabytes=_private_megabytes())
    job.channel.close()
    fork_server.serve(job.control[0], code)
    os._exit(0)


def _connect(job: Job) -> Answer:
    from . import connect

    return connect.run(job)


def _airflow(job: Job) -> Answer:
    from .airflow import task

    return task.run(job)


def _airflow_triggers(job: Job) -> Answer:
    from .airflow import triggers

    return triggers.run(job)


WORKS: dict[str, Callable[[Job], Answer]] = {
    "airflow": _airflow,
    "airflow_triggers": _airflow_triggers,
    "bash": bash.run,
    "bash_function": bash.run_function,
    "command": bash.run_command,
    "connect": _connect,
    "file": files.run,
    "function": function.run,
    "params": params.run,
    "parse": parse.run,
    "render": templates.run,
    "serve": serve,
    "timetable": timetable.run,
    "watch": watch.run,
    "webhook": webhook.run,
    "mail": mail.run,
}
"""By the name that a request gives: what the child does."""


def run(id_: str, mine: socket.socket, output: int, code: Code | None, control: Sequence[socket.socket]) -> int:
    """Does what the channel says. The exit code; what came of it has been answered."""
    files_log = os.dup(1)
    _take_place(output)
    received = channel.receive(mine)
    if received is None:
        return 1
    job = Job(id_, received[0], mine, code, control, files_log)
    _use_settings(job)
    me = os.getpid()
    answer = WORKS[job.request["work"]](job)
    if os.getpid() != me:  # the user's code has forked, and this is the one too many
        os._exit(0)
    sys.stdout.flush()
    sys.stderr.flush()
    job.answer(answer)
    return 0


@contextlib.contextmanager
def _printing_to(target: int) -> Iterator[None]:
    """Has this process print to *target* as long as the block."""
    own = os.dup(1)
    os.dup2(target, 1)
    os.dup2(target, 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(own, 1)
        os.dup2(own, 2)
        os.close(own)


@contextlib.contextmanager
def _masked_prints() -> Iterator[None]:
    """Masks what is printed where no worker does it."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(MaskingStream, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _take_place(output: int) -> None:
    os.setsid()
    be_ended_first()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)


def _use_settings(job: Job) -> None:
    """Environment, user, and what the user's code logs and looks up, as the worker says."""
    request = job.request
    wanted = request["env"]
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    os.environ[MARK] = job.id
    if (network := request.get("network")) is not None and os.getuid() == 0:
        _enter(network)
    if request.get("uid") is not None and os.getuid() != request["uid"]:
        os.setgroups([])
        os.setgid(request["gid"])
        os.setuid(request["uid"])
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user clears it
    HERE.clear()
    mask_names(request.get("masked_names", ()))
    ask_worker(job.ask, job.tell)
    logs.set_up()


def _enter(network: str) -> None:
    """Puts this process into a network namespace. Raises OSError where it cannot: it then does no work."""
    opened = os.open(network, os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(opened, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"the network namespace {network} cannot be entered")
    finally:
        os.close(opened)


def mark_of(pid: int) -> str | None:
    """The call that the process *pid* belongs to."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).environ().get(MARK)
    return None


def _private_megabytes() -> int:
    """What this process holds that it does not share with its parent."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) // 1024
    return 50
