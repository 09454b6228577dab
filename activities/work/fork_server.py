"""The warm parent: has imported tidemill once, and forks a child for everything that may run user code.

A program of its own, one for a worker. Requests come over a socket, each with a channel and a pipe
that the child inherits: the channel carries what the child is to do and what it answers, the pipe
takes all that it prints. This process reads neither, so that a request of any size delays no other.
The end of the socket is the worker's end: then every descendant is killed.

Requests: `{"fork": id}` starts a child, `{"stop": id}` sends it SIGTERM, `{"kill": id}` ends it and
its process group. When a child has ended, its channel says `{"ended": exit code}`.

A child that is to serve a DAG file imports it and then does what this process does, over a socket of its own.
"""

import contextlib
import faulthandler
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from ..processes import channel
from ..processes.supervisor import PR_SET_CHILD_SUBREAPER, prctl
from . import child
from .dag_code import Code
from .warm_up import warm_up

END_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class _Child:
    id: str
    channel: socket.socket


class ForkServer:
    """A process and the children that it has forked. *code* is what they find imported already."""

    def __init__(self, control: socket.socket, code: Code | None = None) -> None:
        self._control = control
        self._code = code
        self._children: dict[int, _Child] = {}
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._woken, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._woken)

    def serve(self) -> None:
        """Serves until the worker is gone."""
        while True:
            readable, _, _ = select.select([self._control.fileno(), self._wake], [], [])
            if self._wake in readable:
                os.read(self._wake, 4096)
                self._reap()
            if self._control.fileno() in readable:
                received = channel.receive(self._control)
                if received is None:
                    return kill_descendants()
                message, descriptors = received
                if "fork" in message:
                    self._fork(message["fork"], descriptors)
                else:
                    self._signal(message)

    def _signal(self, message: dict[str, str]) -> None:
        for pid, known in self._children.items():
            with contextlib.suppress(ProcessLookupError):
                if known.id == message.get("stop"):
                    os.kill(pid, signal.SIGTERM)
                elif known.id == message.get("kill"):
                    _kill_group(pid)
                    os.kill(pid, signal.SIGKILL)  # it may not have a group of its own yet

    def _fork(self, id_: str, descriptors: Sequence[int]) -> None:
        mine, output, *control = descriptors
        try:
            pid = os.fork()
        except OSError as error:  # no more processes, or no memory: the caller hears it, the others go on
            with socket.socket(fileno=mine) as caller:
                channel.send(caller, {"refused": str(error)})
            for descriptor in (output, *control):
                os.close(descriptor)
            return
        if pid == 0:
            self._be_child(id_, socket.socket(fileno=mine), output, control)
        for descriptor in (output, *control):
            os.close(descriptor)
        self._children[pid] = _Child(id_, socket.socket(fileno=mine))
        with contextlib.suppress(OSError):
            channel.send(self._children[pid].channel, {"pid": pid})

    def _be_child(self, id_: str, mine: socket.socket, output: int, control: Sequence[int]) -> None:
        code = 1
        try:
            self._control.close()
            for other in self._children.values():
                other.channel.close()
            os.close(self._wake)
            os.close(self._woken)
            sockets = [socket.socket(fileno=each) for each in control]
            code = child.run(id_, mine, output, self._code, sockets, serve)
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            ended = self._children.pop(pid, None)
            _kill_group(pid)
            self._end_orphans()
            if ended is not None:
                with contextlib.suppress(OSError), ended.channel:
                    channel.send(ended.channel, {"ended": os.waitstatus_to_exitcode(status)})

    def _end_orphans(self) -> None:
        """Ends what ended children have left: daemons that fell to this process. Their own children fall to it next."""
        active = {known.id for known in self._children.values()}
        for orphan in _direct_children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                # Forks of a child that goes on are of its session; what it has started elsewhere carries its mark.
                known = orphan in self._children or os.getsid(orphan) in self._children
                if not known and child.mark_of(orphan) not in active:
                    os.kill(orphan, signal.SIGKILL)


def kill_descendants() -> None:
    """Ends every descendant, at once; one that cannot be ended, such as another user's, is left."""
    deadline = time.monotonic() + END_TIMEOUT_SECONDS
    while processes := [p for p in psutil.Process().children(recursive=True) if not _is_zombie(p)]:
        if time.monotonic() > deadline:
            return
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _direct_children() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    return [process.pid for process in psutil.Process().children()]


def serve(control: socket.socket, code: Code | None = None) -> None:
    """Makes this process a fork server until its worker is gone."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    gc.collect()
    gc.freeze()  # else the first collection in each child would copy all of this process's memory
    ForkServer(control, code).serve()


def main(control: str, *preload: str) -> None:
    faulthandler.enable()  # a crash in native code says where it was called, in the log of the call
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker decides, also on the terminal's Ctrl-C
    for name in preload:
        try:
            module, _, function = name.partition(":")
            imported = importlib.import_module(module)
            if function:
                getattr(imported, function)()
        except Exception as error:
            print(f"{name} cannot be imported ahead of time: {type(error).__name__}: {error}", file=sys.stderr)
    warm_up()
    serve(socket.socket(fileno=int(control)))


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)
