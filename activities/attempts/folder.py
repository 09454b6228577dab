"""Where an attempt keeps its files, and what an earlier start of the same attempt left there.

An attempt (one try_number of a task in a run) may be started more than once: when its worker
dies, Temporal hands it to another. The folder is what makes the second start safe: a result that
is there is returned, not made again, and a process that still runs is ended before a new one starts.

Where tasks run as another user there are two folders: the worker's own, and below it the one that the task's processes
work in. Nothing that a worker does follows what is in the second one further than what the task itself could do.
"""

import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ...model.run.attempts import TaskAttempt
from ..processes.call import end_left
from ..processes.users import RunAs, acting_as, make_folder, owner_of, read_left

HOST = os.uname().nodename
CLAIM, RESULT, EXIT = "claim.json", "result.json", "exit.json"
END_TIMEOUT_SECONDS = 5.0
WORK = "work"


@dataclass(frozen=True)
class AttemptFolder:
    """The files of one attempt, on the host that runs it."""

    path: Path
    """The worker's own: which process has the attempt, and its outcome."""
    log: Path
    """Everything that the attempt printed, in Airflow's layout of log files."""
    user: RunAs | None = None
    """Who the task's processes run as; None: the worker's own user."""

    @classmethod
    def of(cls, home: Path, attempt: TaskAttempt, part: str = "", run_as: RunAs | None = None) -> "AttemptFolder":
        """The folder of *attempt*; *part* names a part of its work that has results of its own."""
        # A run that is run again has its old run_id and tries, but no claim on what the old ones left.
        poke = f"poke={attempt.poke}" if attempt.poke > 1 else ""
        path = home / "attempts" / attempt.path / attempt.execution / poke / part
        return cls(path, home / "logs" / f"{attempt.path}.log", run_as)

    @property
    def work(self) -> Path:
        """Where the task's processes leave what is theirs: apart, where they are another user's."""
        return self.path if self.user is None else self.path / WORK

    def make(self) -> "AttemptFolder":
        """Makes the folders, and the log's, if they are not there."""
        make_folder(self.path)
        if self.user is not None:
            make_folder(self.work, self.user)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        return self

    def read(self, name: str) -> dict[str, Any] | None:
        """The worker's own JSON file *name*; None if it is not there, or not whole: its writer was killed then."""
        return read_left(self.path / name, None if self.user is None else RunAs(os.geteuid(), os.getegid()))

    def left(self, name: str) -> dict[str, Any] | None:
        """The JSON file *name* that the task's processes have left; None if there is none of theirs."""
        with acting_as(self.user):
            return read_left(self.work / name, self.user)

    def ending(self, name: str) -> dict[str, Any] | None:
        """How an earlier start has ended, of the worker's own file *name* or what its processes have left there."""
        return self.read(name) or (None if self.user is None else self.left(name))

    def write(self, name: str, content: Any) -> None:
        """Puts a file of the worker's own there, whole."""
        write_whole(self.path / name, json.dumps(content))

    def hand_over(self, name: str, text: str) -> Path:
        """Puts a file there for the task's processes, whole, that only they read."""
        with acting_as(self.user):
            return write_whole(self.work / name, text)

    def forget(self) -> None:
        """Makes room for another start of the attempt; the log stays and is added to."""
        for folder, user in ((self.path, None), (self.work, self.user)):
            for name in (CLAIM, EXIT, RESULT, "progress.json", "figures.json", "xcom.json"):
                with acting_as(user), suppress(OSError):
                    (folder / name).unlink()

    def remove(self) -> None:
        """Removes the folder, when nobody will ask for what is in it."""
        for depth in ("", "*/", "*/*/"):  # those of its pokes, and of the parts of its work
            for work in self.path.glob(f"{depth}{WORK}"):
                if WORK not in work.relative_to(self.path).parts[:-1]:
                    with suppress(OSError), acting_as(owner_of(work)):
                        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(self.path, ignore_errors=True)

    def claim(self, call: str, pid: int) -> None:
        """Takes note of the process that has the attempt, for another start to end it."""
        try:
            started = psutil.Process(pid).create_time()
        except psutil.NoSuchProcess:
            return
        with suppress(OSError):  # as where the disk is full: the work goes on
            self.write(CLAIM, {"supervisor": pid, "supervisor_started": started, "host": HOST, "call": call})

    def end_earlier_start(self) -> bool:
        """Ends what an earlier start left running on this host. True if there was something."""
        claim = self.read(CLAIM)
        if claim is None or claim.get("host", HOST) != HOST:
            return False
        first = find_process(claim["supervisor"], claim["supervisor_started"])
        if first is None or (self.user is not None and first.uids().real not in (self.user.uid, os.geteuid())):
            return False
        first.terminate()  # one that runs a command ends its descendants first
        try:
            first.wait(timeout=30 if "call" not in claim else END_TIMEOUT_SECONDS)
        except psutil.TimeoutExpired:
            first.kill()
        if "call" in claim:
            end_left(claim["call"], claim["supervisor"], self.user)
        return True


def write_whole(path: Path, text: str, mode: int = 0o600) -> Path:
    """Puts a file there, whole, by default one that only its owner reads. Follows no link that a task may have left."""
    temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(opened, "wb", buffering=0) as file:
        written, data = 0, text.encode()
        while written < len(data):
            written += file.write(data[written:]) or 0
    return temporary.replace(path)


def find_process(pid: int, started: float) -> psutil.Process | None:
    """The process *pid* if it is still the one that started at *started* (seconds since 1970)."""
    try:
        process = psutil.Process(pid)
        if abs(process.create_time() - started) < 0.1 and process.status() != psutil.STATUS_ZOMBIE:
            return process
    except psutil.NoSuchProcess:
        pass
    return None
