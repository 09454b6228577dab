"""YARN in cluster mode, through spark-submit and the `yarn` command."""

import re
import subprocess
from collections.abc import Callable, Sequence

from ..attempts.watch import handed_over
from .clusters import Life, Status
from .starts import SparkStart

Run = Callable[[Sequence[str]], str]
"""Runs a command and returns what it prints; raises OSError if it fails."""

PATIENCE = 60
_APPLICATION = re.compile(r"application_\d+_\d+")
_STATE = re.compile(r"^\s*(State|Final-State) : (\S+)", re.MULTILINE)
WAITING = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")
ENDED = ("FINISHED", "FAILED", "KILLED")


def run_tool(argv: Sequence[str]) -> str:
    """Runs a cluster's own command-line tool."""
    try:
        done = subprocess.run([*argv], capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OSError(f"{argv[0]} cannot be run on this worker: {error}. Install and configure it here") from None
    if done.returncode:
        raise OSError(f"{' '.join(argv[:3])} failed: {(done.stderr or done.stdout).strip()[-1000:]}")
    return done.stdout


class Yarn:
    """The attempt is known by its application tag, which YARN keeps for ended applications, too."""

    def __init__(self, work: SparkStart, launch: Callable[[], str], run: Run = run_tool) -> None:
        self._tag = f"tidemill-{work.attempt.uuid.hex}"
        self._launch = launch
        self._run = run

    def find(self) -> str | None:
        listed = self._run(["yarn", "application", "-list", "-appStates", "ALL", "-appTags", self._tag])
        found = _APPLICATION.search(listed)
        return found[0] if found else None

    def submit(self) -> str:
        found = _APPLICATION.search(self._launch()) or _APPLICATION.search(self.find() or "")
        if found is None:
            raise handed_over("spark-submit ended, and YARN does not list the application")
        return found[0]

    def status(self, application_id: str) -> Status:
        try:
            told = dict(_STATE.findall(self._run(["yarn", "application", "-status", application_id])))
        except OSError as error:
            if "doesn't exist" in str(error):
                return Status(Life.UNKNOWN, str(error))
            raise
        state = told.get("State", "UNDEFINED")
        words = f"{state}, {told.get('Final-State', 'UNDEFINED')}"
        if state in ENDED:
            return Status(Life.ENDED, words, succeeded=told.get("Final-State") == "SUCCEEDED")
        return Status(Life.WAITING if state in WAITING else Life.RUNNING, words)

    def kill(self, application_id: str) -> None:
        self._run(["yarn", "application", "-kill", application_id])
