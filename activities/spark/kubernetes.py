"""Kubernetes in cluster mode, through spark-submit and `kubectl`."""

import json
from collections.abc import Callable

from .clusters import Life, Status
from .starts import SparkStart
from .yarn import Run, run_tool


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
