"""What a container of YARN has printed: asked of its node, or of where YARN has gathered it after the end."""

import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any

import httpx

from ..worker_context import find_java
from .command import spark_home

END_OF_LOG = 64 * 1024
"""In bytes: as much is read of what a driver prints that still runs."""
WHOLE_LOG = 4 * 2**20
"""In bytes: as much, from its end, is read of one that has ended."""
PATIENCE = 10.0
GATHERING_TIMEOUT = 60.0
_CONTAINER = re.compile(r"(https?://[^/]+)/node/containerlogs/(container_\w+)/")
_HEADS = re.compile(r"(?m)^(?:Container: |LogAggregationType: |=+$|LogType:|LogLastModifiedTime:|LogLength:).*\n?")


def log_of(app: Mapping[str, Any], name: str) -> str:
    """Return what the driver of an ended application has printed to *name*, `stdout` or `stderr`. Raises OSError."""
    try:
        return container_log(app, name, WHOLE_LOG)
    except OSError as of_node:
        try:
            return _gathered(str(app["id"]), name)
        except OSError as error:
            raise OSError(f"{of_node}; {error}") from None


def container_log(app: Mapping[str, Any], name: str, limit: int) -> str:
    """Return the last *limit* bytes of a log of the driver's container, asked of its node. Raises OSError."""
    found = _CONTAINER.match(str(app.get("amContainerLogs", "")))
    if found is None:
        raise OSError(f"YARN does not say where the log of {app['id']} is")
    url = f"{found[1]}/ws/v1/node/containers/{found[2]}/logs/{name}"
    kept = b""
    try:
        query = {"size": str(-limit), "user.name": str(app["user"])}
        with httpx.stream("GET", url, params=query, timeout=PATIENCE) as answer:
            answer.raise_for_status()
            for part in answer.iter_bytes():  # an older node answers with all of it
                kept = (kept + part)[-limit:]
    except httpx.HTTPError as error:
        raise OSError(f"{url}: {error}") from None
    return kept.decode(errors="replace")


def _gathered(application_id: str, name: str) -> str:
    """Return what YARN has gathered of the driver's log, as `yarn logs` prints it. Raises OSError."""
    java = find_java()
    if java is None:
        raise OSError("Java is not there to ask for YARN's gathered logs")
    settings = os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR") or ""
    argv = [str(java), "-cp", f"{settings}:{spark_home() / 'jars'}/*", "org.apache.hadoop.yarn.client.cli.LogsCLI"]
    argv += ["-applicationId", application_id, "-am", "1", "-log_files", name, "-size", str(-WHOLE_LOG)]
    try:
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=GATHERING_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise OSError(f"`yarn logs` of {application_id} took more than {GATHERING_TIMEOUT:g} s") from None
    if ended.returncode != 0 or "LogContents:" not in ended.stdout:
        raise OSError(f"`yarn logs` of {application_id}: {ended.stderr.strip()[-300:]}")
    contents = ended.stdout.partition("LogContents:")[2].partition("\nEnd of LogType:")[0]
    return _HEADS.sub("", contents).lstrip("\n")
