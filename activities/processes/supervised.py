"""Servers that live as long as the process that starts them, such as the embedded Temporal server."""

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

STOP_TIMEOUT = 30.0
SUPERVISOR = Path(__file__).with_name("supervisor.py")

log = logging.getLogger(__name__)


def start_supervised(
    folder: Path, command: list[str], log_file: Path | None, env: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Starts *command* below a supervisor that outlives neither it nor this process. Without a log it prints here."""
    for name in ("claim.json", "exit.json"):
        (folder / name).unlink(missing_ok=True)
    (folder / "command.json").write_text(json.dumps({"argv": command, "cwd": str(folder), "log": str(log_file or "")}))
    return subprocess.Popen(
        [sys.executable, "-I", str(SUPERVISOR), str(folder)],
        stdin=subprocess.PIPE,
        env=None if env is None else dict(env),
    )


def stop(supervisor: "subprocess.Popen[bytes]") -> None:
    """Ends the supervisor and with it every descendant; returns when they are gone."""
    assert supervisor.stdin is not None  # noqa: S101
    supervisor.stdin.close()
    try:
        supervisor.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        log.error("supervisor %s does not end; killing it", supervisor.pid)
        supervisor.kill()
        supervisor.wait()
