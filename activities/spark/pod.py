"""A driver's pod as Kubernetes' API shows it: how it stands, and why it waits or has ended."""

from datetime import datetime, timedelta
from typing import Any

from .clusters import AppState, Status

MOUNTED_AT = "/opt/tidemill"
"""Where a driver finds its side of tidemill."""
LIVES = {"Pending": AppState.WAITING, "Succeeded": AppState.ENDED, "Failed": AppState.ENDED}


def status_of(pod: dict[str, Any]) -> Status:
    """Return how the *pod* stands, in Kubernetes' own words."""
    status = pod.get("status", {})
    phase = str(status.get("phase"))
    why = _why(status)
    words = f"{phase}: {why}" if why else phase
    ended = _end_of_driver(pod)
    disrupted = _is_disrupted(pod, ended)
    if ended is None:
        life = LIVES.get(phase, AppState.RUNNING)
        return Status(life, words, succeeded=phase == "Succeeded", is_disruption=disrupted)
    code = ended.get("exitCode")
    if phase == "Running":  # others in its pod go on
        words = f"the driver has ended: {ended.get('reason', 'Error')}, exit code {code}"
    return Status(AppState.ENDED, words, succeeded=code == 0, is_disruption=disrupted)


def _is_disrupted(pod: dict[str, Any], ended: dict[str, Any] | None) -> bool:
    """Return whether others than the pod are why it ends; of a node without disk or memory it may be why itself.

    They have deleted it before its driver has ended, or say so in its conditions.
    """
    status, meta = pod.get("status", {}), pod.get("metadata", {})
    if status.get("reason") == "Evicted":
        return False
    if (deletion := meta.get("deletionTimestamp")) is not None:
        # It says when the pod has to be gone: so long after somebody has asked for it.
        requested_at = datetime.fromisoformat(deletion) - timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
        if ended is None:
            return status.get("phase") not in ("Succeeded", "Failed")
        return datetime.fromisoformat(ended["finishedAt"]) >= requested_at if ended.get("finishedAt") else False
    targets = (one for one in status.get("conditions", ()) if one.get("type") == "DisruptionTarget")
    return any(one.get("status") == "True" for one in targets)


def driver_container(pod: dict[str, Any]) -> str | None:
    """Return the name of the container that the driver runs in, beside others; None where none is known as it."""
    for container in pod.get("spec", {}).get("containers", ()):
        if any(mount.get("mountPath") == MOUNTED_AT for mount in container.get("volumeMounts", ())):
            return str(container["name"])
    return None


def _end_of_driver(pod: dict[str, Any]) -> dict[str, Any] | None:
    name = driver_container(pod)
    for container in pod.get("status", {}).get("containerStatuses", ()):
        if name is not None and container.get("name") == name:
            ended: dict[str, Any] | None = container.get("state", {}).get("terminated")
            return ended
    return None


def _why(status: dict[str, Any]) -> str:
    """Return what the API says of the reason, the most telling first; empty where there is nothing to say."""
    for container in status.get("containerStatuses", ()):
        state = container.get("state", {})
        if (ended := state.get("terminated")) is not None and ended.get("exitCode"):
            return f"{ended.get('reason', 'Error')}, exit code {ended['exitCode']}"
        if (waiting := state.get("waiting")) is not None and waiting.get("reason"):
            return _words(waiting["reason"], waiting.get("message"))
    if status.get("reason"):  # of the pod as a whole, such as Evicted
        return _words(status["reason"], status.get("message"))
    for condition in status.get("conditions", ()):
        if condition.get("status") == "False" and condition.get("type") == "PodScheduled":
            return _words(condition.get("reason", ""), condition.get("message"))
    return ""


def _words(reason: str, message: str | None) -> str:
    return f"{reason}: {message}" if message else reason


def volumes_of(pod: dict[str, Any]) -> list[str]:
    """Return the names of the ConfigMaps that the *pod* has to mount before it begins."""
    volumes = pod.get("spec", {}).get("volumes", ())
    return [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
