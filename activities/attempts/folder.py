"""Where an attempt keeps its files, and what an earlier start of the same attempt left there.

An attempt (one try_number of a task in a run) may be started more than once: when its worker
dies, Temporal hands it to another. The folder is what makes the second start safe: a result that
is there is returned, not made again, and a process that still runs is ended before a new one starts.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ...model.run.attempts import TaskAttempt

HOST = os.uname().nodename


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
        return cls(path, home / "logs" / f"{attempt.path}.log")

    def make(self) -> "AttemptFolder":
        """Makes the folder, and the log's, if they are not there."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        return self

    def read(self, name: str) -> dict[str, Any] | None:
        """The JSON file *name*; None if it is not there, or not whole: its writer was killed then."""
        try:
            return dict(json.loads((self.path / name).read_text()))
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def write(self, name: str, content: Any) -> None:
        self.write_text(name, json.dumps(content))

    def write_text(self, name: str, text: str) -> Path:
        """Puts a file there, whole, that only its owner reads. Follows no link that a task may have left."""
        temporary = self.path / f"{name}.{os.urandom(8).hex()}"
        opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(opened, "w", encoding="utf-8") as file:
            file.write(text)
        return temporary.replace(self.path / name)

    def forget(self) -> None:
        """Makes room for another start of the attempt; the log stays and is added to."""
        for name in ("claim.json", "exit.json", "result.json", "progress.json", "xcom.json"):
            (self.path / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Removes the folder, when nobody will ask for what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def end_earlier_start(self) -> bool:
        """Ends what an earlier start left running on this host. True if there was something."""
        claim = self.read("claim.json")
        if claim is None or claim.get("host", HOST) != HOST:
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
