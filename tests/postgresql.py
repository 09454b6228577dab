"""A real PostgreSQL server, where the host has one."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tidemill.worker.app.dev import free_port

FOLDERS = (*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), Path("/usr/local/bin"), Path("/usr/bin"))


@contextmanager
def postgresql() -> Iterator[str]:
    """The URL of a database of its own. Skips the test where there is no server to start.

    Its folder is none of pytest's: those are for pytest's own user alone, again whenever another session begins.
    """
    programs = next((found for found in FOLDERS if (found / "initdb").exists()), None)
    if programs is None:
        pytest.skip("PostgreSQL's server is not installed: apt-get install postgresql")
    user = _who()
    with TemporaryDirectory(prefix="tidemill-postgresql-") as folder:
        shutil.chown(folder, user)
        data, port = Path(folder, "data"), free_port()
        _do(user, [programs / "initdb", "-D", data, "-U", "tidemill", "-A", "trust", "--no-sync"])
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        _do(user, [programs / "pg_ctl", "-D", data, "-w", "-l", data / "log", "-o", options, "start"])
        try:
            yield f"postgresql://tidemill@127.0.0.1:{port}/postgres"
        finally:
            _do(user, [programs / "pg_ctl", "-D", data, "-m", "fast", "-w", "stop"])


def _who() -> str:
    """The server does not run as root: then it is as its own user, or as nobody."""
    if os.getuid() != 0:
        return pwd.getpwuid(os.getuid()).pw_name
    return "postgres" if any(one.pw_name == "postgres" for one in pwd.getpwall()) else "nobody"


def _do(user: str, command: list[object]) -> None:
    words = [str(word) for word in command]
    identity: dict[str, Any] = {}
    if os.getuid() == 0:
        identity = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
    subprocess.run(words, check=True, cwd="/", stdout=subprocess.DEVNULL, timeout=120, **identity)
