"""Stands for the `tidemill` command in tests: has `server` fork it, and ends as it ends.

    python -SE launcher.py TIDEMILL SOCKET ARGUMENT...

What lives on, and everything without a server, is the real command.
"""

import json
import os
import signal
import socket
import sys

LIVES_ON = ("worker", "dev", "demo", "connect", "api-server", "health", "--version", "--help")
"""Processes of their own, or about the process itself."""


def main() -> None:
    tidemill, path, *arguments = sys.argv[1:]
    connection = socket.socket(socket.AF_UNIX)
    try:
        if not arguments or arguments[0] in LIVES_ON:
            raise FileNotFoundError
        connection.connect(path)
    except OSError:
        os.execv(tidemill, [tidemill, *arguments])
    request = {
        "arguments": [tidemill, *arguments],
        "folder": os.getcwd(),  # noqa: PTH109 - pathlib costs what this saves
        "environment": dict(os.environ),
    }
    message = json.dumps(request).encode() + b"\n"
    sent = socket.send_fds(connection, [message], [0, 1, 2])
    connection.sendall(message[sent:])
    with connection.makefile("r") as answers:
        pid = int(answers.readline())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(pid, number))
        code = int(answers.readline())
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


main()
