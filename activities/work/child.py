"""What a fork does from its first moment to its last: takes its place, does its work, answers."""

import contextlib
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import psutil

from ...model.spec.tasks import FOLDERS
from ..masking import PROCESS_MASKER
from ..names import MARK, OF_KIND
from ..processes import channel
from ..processes.answers import ChildAnswer, Failed
from ..processes.memory import be_ended_first
from ..processes.supervisor import PR_SET_PDEATHSIG, prctl
from ..secrets import ask_worker, mask_names
from . import bash, function, logs, mail, params, parse, templates, timetable, watch, webhook
from .dag_code import Code
from .failures import describe_failure, print_failure
from .job import Job

CLONE_NEWNET = 0x40000000


def be_fork_server(job: Job) -> ChildAnswer:
    """Imports what the request says, and forks children from then on."""
    if job.request.get("connect"):
        from . import connect

        connect.preload()
    try:
        code = job.imported() if job.request["code"] is not None else None
    except BaseException as error:
        print_failure(error)
        return Failed(failure=describe_failure(error))
    job.tell(ready=True, megabytes=_private_megabytes())
    job.channel.close()
    job.serve(job.control[0], code)
    os._exit(0)


def _connect(job: Job) -> ChildAnswer:
    from . import connect

    return connect.run(job)


def _airflow(job: Job) -> ChildAnswer:
    from .airflow import task

    return task.run(job)


def _airflow_triggers(job: Job) -> ChildAnswer:
    from .airflow import triggers

    return triggers.run(job)


WORKS: dict[str, Callable[[Job], ChildAnswer]] = {
    "airflow": _airflow,
    "airflow_triggers": _airflow_triggers,
    "bash": bash.run,
    "bash_function": bash.run_function,
    "command": bash.run_command,
    "connect": _connect,
    "function": function.run,
    "params": params.run,
    "parse": parse.run,
    "render": templates.run,
    "serve": be_fork_server,
    "timetable": timetable.run,
    "watch": watch.run,
    "webhook": webhook.run,
    "mail": mail.run,
}
"""By the name that a request gives: what the child does."""


def work_named(name: str) -> Callable[[Job], ChildAnswer]:
    """Return what a child does, by its name in `WORKS` or that of a kind of task that is a folder."""
    kind = name.removeprefix(OF_KIND)
    if kind == name:
        return WORKS[name]
    work: Callable[[Job], ChildAnswer] = import_module(f"{FOLDERS[kind][0]}.work").run
    return work


def run(
    id_: str,
    mine: socket.socket,
    output: int,
    code: Code | None,
    control: Sequence[socket.socket],
    serve: Callable[[socket.socket, Code | None], None],
) -> int:
    """Does what the channel says. The exit code; what came of it has been answered."""
    files_log = os.dup(1)
    _take_place(output)
    received = channel.receive(mine)
    if received is None:
        return 1
    job = Job(id_, received[0], mine, code, control, serve, files_log)
    _use_settings(job)
    me = os.getpid()
    answer = work_named(job.request["work"])(job)
    if os.getpid() != me:  # the user's code has forked, and this is the one too many
        os._exit(0)
    sys.stdout.flush()
    sys.stderr.flush()
    job.answer(answer)
    return 0


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
    PROCESS_MASKER.clear()
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
