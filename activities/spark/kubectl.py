"""`kubectl`: what is asked of Kubernetes' API, beside what spark-submit does there."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

PATIENCE = 60
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


class Run(Protocol):
    """Runs a command and returns what it prints; raises OSError if it fails."""

    def __call__(self, argv: Sequence[str], given: str | None = None) -> str: ...


def run_tool(argv: Sequence[str], given: str | None = None) -> str:
    """Run a cluster's own command-line tool; *given* is what it reads. Raises OSError with what it said."""
    try:
        done = subprocess.run(
            [*argv], input=given, capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OSError(f"{argv[0]} cannot be run on this worker: {error}. Install and configure it here") from None
    if done.returncode:
        raise OSError(f"{' '.join(argv[:3])} failed: {(done.stderr or done.stdout).strip()[-1000:]}")
    return done.stdout


def _is_own(server: str) -> bool:
    """Return whether *server* is the API of the cluster that this pod is in."""
    host = urlsplit(server).hostname or ""
    return host == os.environ.get("KUBERNETES_SERVICE_HOST") or host.split(".")[0] == "kubernetes"


class Kubectl:
    """Asks the API that *master* names (as Spark reads it) about what is in *namespace*."""

    def __init__(self, master: str, namespace: str, run: Run) -> None:
        server = master.removeprefix("k8s://")
        server = server if "://" in server else f"https://{server}"
        # Within a pod kubectl is somebody by its service account, unless it is told a server.
        where = [] if SERVICE_ACCOUNT.exists() and _is_own(server) else ["--server", server]
        self._argv = ["kubectl", "--request-timeout", f"{PATIENCE // 3}s", *where, "--namespace", namespace]
        self._run = run

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return the object as the API has it; None if there is none."""
        output = self._run([*self._argv, "get", kind, name, "--ignore-not-found", "--output", "json"])
        found: dict[str, Any] | None = json.loads(output) if output.strip() else None
        return found

    def create(self, content: dict[str, Any]) -> dict[str, Any]:
        """Make the object; return it as the API has it. Raises FileExistsError where its name is taken."""
        try:
            output = self._run([*self._argv, "create", "--output", "json", "--filename", "-"], json.dumps(content))
        except OSError as error:
            if is_taken(error):
                raise FileExistsError(str(error)) from None
            raise
        made: dict[str, Any] = json.loads(output)
        return made

    def replace(self, content: dict[str, Any]) -> None:
        """Put *content* in the place of the object of its name."""
        self._run([*self._argv, "replace", "--filename", "-"], json.dumps(content))

    def delete(self, kind: str, name: str) -> None:
        """Have the object removed; return before it is gone. One that is not there is left alone."""
        self._run([*self._argv, "delete", kind, name, "--ignore-not-found", "--wait=false"])

    def logs(self, pod: str, container: str | None, since: str | None) -> str:
        """Return what *container* of the pod has printed, each line with its time, from *since* on (RFC 3339).

        None: its only one.
        """
        chosen = ["--container", container] if container is not None else []
        later = [f"--since-time={since}"] if since is not None else []
        return self._run([*self._argv, "logs", pod, *chosen, "--timestamps", *later])


def is_taken(error: OSError) -> bool:
    """Return whether the API has refused a name that is there already."""
    return "AlreadyExists" in str(error) or "already exist" in str(error)
