"""Where an attempt keeps its files, and what an earlier try of the same attempt left there.

An attempt (one try_number of a task in a run) may be started more than once: when its worker
dies, Temporal hands it to another. The folder is what makes the second start safe: a result that
is there is returned, not made again, and a process that still runs is ended before a new one starts.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ..model.attempts import TaskAttempt

XCOM_LIMIT = 64 * 1024 * 1024
"""The most bytes that a task's results may have, also where they are not kept in history."""


@dataclass(frozen=True)
class AttemptFolder:
    """The files of one attempt, on the host that runs it."""

    path: Path
    log: Path
    """Everything that the attempt printed, in Airflow's layout of log files."""

    @classmethod
    def of(cls, home: Path, attempt: TaskAttempt, part: str = "") -> "AttemptFolder":
        """The folder of *attempt*; *part* names a part of its work that has results of its own."""
        # A run that is run again has its old run_id and tries, but no claim on what the old ones left.
        poke = f"poke={attempt.poke}" if attempt.poke > 1 else ""
        path = home / "attempts" / attempt.path / attempt.execution / poke / part
        folder = cls(path, home / "logs" / f"{attempt.path}.log")
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.log.parent.mkdir(parents=True, exist_ok=True)
        return folder

    def read(self, name: str) -> dict[str, Any] | None:
        """The JSON file *name*; None if it is not there."""
        try:
            return dict(json.loads((self.path / name).read_text()))
        except FileNotFoundError:
            return None

    def write(self, name: str, content: Any) -> None:
        temporary = self.path / f"{name}.tmp"
        temporary.write_text(json.dumps(content))
        temporary.replace(self.path / name)

    def forget(self) -> None:
        """Makes room for another start of the attempt; the log stays and is added to."""
        for name in ("claim.json", "exit.json", "result.json", "progress.json", "xcom.json"):
            (self.path / name).unlink(missing_ok=True)

    def end_earlier_start(self) -> bool:
        """Ends what an earlier start left running here. True if there was something."""
        claim = self.read("claim.json")
        if claim is None:
            return False
        supervisor = find_process(claim["supervisor"], claim["supervisor_started"])
        if supervisor is None:
            return False
        supervisor.terminate()  # it ends its descendants first
        supervisor.wait(timeout=30)
        return True


def find_process(pid: int, started: float) -> psutil.Process | None:
    """The process *pid* if it is still the one that started at *started* (seconds since 1970)."""
    try:
        process = psutil.Process(pid)
        if abs(process.create_time() - started) < 0.1 and process.status() != psutil.STATUS_ZOMBIE:
            return process
    except psutil.NoSuchProcess:
        pass
    return None
