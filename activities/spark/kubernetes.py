"""Kubernetes in cluster mode, through spark-submit and `kubectl`."""

import json
import subprocess
from collections.abc import Callable, Sequence

from .clusters import Life, Status
from .starts import SparkStart

Run = Callable[[Sequence[str]], str]
"""Runs a command and returns what it prints; raises OSError if it fails."""

PATIENCE = 60


def run_tool(argv: Sequence[str]) -> str:
    """Runs a cluster's own command-line tool."""
    try:
        done = subprocess.run([*argv], capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OSError(f"{argv[0]} cannot be run on this worker: {error}. Install and configure it here") from None
    if done.returncode:
        raise OSError(f"{' '.join(argv[:3])} failed: {(done.stderr or done.stdout).strip()[-1000:]}")
    return done.stdout


def pod_of(work: SparkStart) -> str:
    """The name of the attempt's driver pod."""
    return f"tidemill-{work.attempt.uuid.hex}"


class Kubernetes:
    """The attempt is its driver's pod: a name that the attempt alone determines, and that exists at most once."""

    def __init__(self, work: SparkStart, launch: Callable[[], str], run: Run = run_tool) -> None:
        self._pod = pod_of(work)
        server = (work.options.master or "").removeprefix("k8s://")
        server = server if "://" in server else f"https://{server}"  # as Spark reads it
        self._kubectl = ["kubectl", "--server", server, "--namespace", work.options.namespace or "default"]
        self._launch = launch
        self._run = run

    def find(self) -> str | None:
        told = self._run([*self._kubectl, "get", "pod", self._pod, "--ignore-not-found", "--output", "name"])
        return self._pod if told.strip() else None

    def submit(self) -> str:
        try:
            self._launch()
        except OSError as error:
            if "AlreadyExists" not in str(error):
                raise
        return self._pod

    def status(self, application_id: str) -> Status:
        get = [*self._kubectl, "get", "pod", application_id, "--ignore-not-found", "--output", "json"]
        told = self._run(get)
        if not told.strip():
            return Status(Life.UNKNOWN, "there is no such pod")
        status = json.loads(told)["status"]
        phase = str(status.get("phase"))
        reason = f": {status['reason']}" if status.get("reason") else ""
        lives = {"Pending": Life.WAITING, "Succeeded": Life.ENDED, "Failed": Life.ENDED}
        return Status(lives.get(phase, Life.RUNNING), phase + reason, succeeded=phase == "Succeeded")

    def kill(self, application_id: str) -> None:
        self._run([*self._kubectl, "delete", "pod", application_id, "--ignore-not-found", "--wait=false"])
