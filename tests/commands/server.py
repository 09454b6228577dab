"""Runs `tidemill` commands for tests in forks of one process that has imported them: a start costs a second else.

    python server.py SOCKET

`launcher` is the other side: it sends its arguments, folder, environment and open files. What lives on (`worker` and
the like) is started by the launcher as a process of its own.
"""

import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from tidemill.worker import __main__, cli


def import_all() -> None:
    """Imports every room of the command line, so that no fork has to."""
    for module in pkgutil.iter_modules(cli.__path__, f"{cli.__name__}."):
        importlib.import_module(module.name)


def run(request: dict[str, object], files: list[int]) -> None:
    """Is the command: never returns."""
    for there, here in enumerate(files):
        os.dup2(here, there)
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(dict(request["environment"]))  # type: ignore[call-overload]
    sys.argv = list(request["arguments"])  # type: ignore[call-overload]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    __main__.main()


def attend(connection: socket.socket) -> None:
    """Has a fork run what is asked for; says its process id, and then its exit code. It ends with who asks."""
    message, files, _, _ = socket.recv_fds(connection, 1 << 22, 3)
    while not message.endswith(b"\n"):
        message += connection.recv(1 << 22)
    if (pid := os.fork()) == 0:
        connection.close()
        run(json.loads(message), files)
    for file in files:
        os.close(file)
    connection.sendall(f"{pid}\n".encode())
    ended = os.pidfd_open(pid)
    ready, _, _ = select.select([ended, connection], [], [])
    if ended not in ready:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def main() -> None:
    path, parent = Path(sys.argv[1]), os.getppid()
    import_all()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path.with_suffix(".new")))
    listening.listen(64)
    path.with_suffix(".new").rename(path)  # there as soon as it answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, which ends this
    listening.settimeout(1)
    while os.getppid() == parent:
        with suppress(TimeoutError):
            connection, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                connection.setblocking(True)
                attend(connection)
                os._exit(0)
            connection.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


if __name__ == "__main__":
    main()
