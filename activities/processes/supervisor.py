"""Stands between a worker and a command, so that nothing of the command outlives the worker.

A program of its own, started by path with `command.json`'s folder as its argument and a pipe
from the worker as its standard input. The pipe's end is the worker's end, however it came about:
then every descendant of the command is killed, also those that left its process group or session
(they become children of this process, a child subreaper). What happened is left in files:

- `claim.json`: the supervisor's and the command's pid and start time, for another worker to find;
- `exit.json`: how the command ended, written once.

Only psutil and the standard library: it starts once for every attempt.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 2.0
LEFT_AFTER_SECONDS = 10.0
POLL_SECONDS = 0.02


def prctl(option: int, value: int) -> None:
    # Linux only; elsewhere descendants that change their session can get away.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def hide_memory() -> None:
    """Keeps other processes of this user from reading this one's memory and environment."""
    prctl(PR_SET_DUMPABLE, 0)


def die_with_parent() -> None:
    """Between fork and exec: the command goes when this process is killed, too."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """All or nothing, also when this process is killed half way."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


def kill_descendants(grace: float = GRACE_SECONDS) -> None:
    """Ends every descendant: asks first, then does not ask. One that cannot be ended is left in the end."""
    me = psutil.Process()
    deadline = time.monotonic() + grace
    terminated: set[int] = set()
    while processes := me.children(recursive=True):
        force = time.monotonic() > deadline
        if time.monotonic() > deadline + LEFT_AFTER_SECONDS:
            return
        for process in processes:
            with contextlib.suppress(psutil.Error):
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if force:
                    process.kill()
                elif process.pid not in terminated:
                    terminated.add(process.pid)
                    process.terminate()
        reap()
        time.sleep(POLL_SECONDS)


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def follow(child: subprocess.Popen[bytes]) -> int | None:
    """The command's exit code; None when the worker went first."""
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], POLL_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 1024):
            return None
        code = child.poll()
        if code is not None:
            return code


def main(folder: Path) -> None:
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker decides, also on the terminal's Ctrl-C
    command = json.loads((folder / "command.json").read_text())
    started = time.time()
    with contextlib.ExitStack() as opened:
        log = opened.enter_context(Path(command["log"]).open("ab")) if command["log"] else None
        try:
            child = subprocess.Popen(
                command["argv"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT if log is not None else None,
                cwd=command["cwd"],
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        except OSError as error:
            write_json(folder / "exit.json", {"code": 127, "error": str(error), "started": started, "ended": started})
            return
        claim = {"supervisor": os.getpid(), "supervisor_started": psutil.Process().create_time(), "command": child.pid}
        write_json(folder / "claim.json", claim)
        signal.signal(signal.SIGTERM, lambda *_: os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno()))
        code = follow(child)
        kill_descendants()
        if code is not None:
            write_json(folder / "exit.json", {"code": code, "started": started, "ended": time.time()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
