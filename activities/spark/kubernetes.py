"""Kubernetes in cluster mode: spark-submit makes the driver's pod, and nothing of the worker's disk is in it.

An attempt has two objects, both of one name that the attempt alone determines:

- a ConfigMap with the driver's side, the plan and the code, which the pod mounts. The pod is owned by it: without it no
  pod begins, and one that is left is collected. That of an attempt that is given up stays, emptied: nothing can begin.
- the driver's pod. The API takes a name once, also after its end: however often spark-submit runs, there is one driver.

What comes of the driver is among the lines that it prints.
"""

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

from ...model.spec.tasks import SparkOptions
from ..attempts.supervision import AttemptSupervisor, infrastructure_error
from ..processes.users import acting_as
from ..secrets import new_masker
from .cluster import ClusterMode
from .clusters import AppState, Cluster, Status
from .command import DRIVER, whose
from .driver_lines import DriverLines
from .kubectl import Kubectl, Run, is_taken, run_tool
from .place import invalid
from .pod import MOUNTED_AT, driver_container, status_of, volumes_of
from .shipping import ARCHIVE, application_there, archive
from .starts import SparkStart, cluster_name

ATTEMPT, GIVEN_UP = "tidemill-attempt", "tidemill-given-up"
"""Labels: whose it is; and that nothing may begin any more."""
TEMPLATE, CONTAINER = "spark.kubernetes.driver.podTemplateFile", "spark.kubernetes.driver.podTemplateContainerName"
NOTHING_BEGINS = "the attempt was given up: nothing of it begins any more"
FIRST_POD, SEEN = "pod.json", "pod_log.json"
POD_TEMPLATE = "pod.yaml"
"""What the driver's pod is made of."""
LARGEST = 900_000
"""In bytes, of what the driver needs: a ConfigMap has 1 MiB at most, with all that is said about it."""
LOG_EVERY = 5.0
"""Seconds between looks at what a running driver has printed."""
LOG_TIMEOUT = 60.0
"""Seconds within which the log of a pod that has ended can be read, or is taken for lost."""
REMOVAL_TIMEOUT = 45.0
"""Seconds that a deleted pod has to be gone; after that nobody knows of it: its grace is 30 by default."""
SUBMISSION_TIMEOUT = 30.0
"""Seconds that spark-submit has for the objects that it makes after the pod."""


class KubernetesMode(ClusterMode):
    """Cluster mode on Kubernetes. A pod has an address of its own, and no container takes port 0."""

    has_own_python: ClassVar[bool] = True
    knows_by_name: ClassVar[bool] = True
    read_from_conf: ClassVar[tuple[str, ...]] = ("spark.kubernetes.namespace", TEMPLATE)
    conf: ClassVar[Mapping[str, str]] = {}

    def cluster(self, start: SparkStart, launch: Callable[..., str], supervisor: AttemptSupervisor) -> Cluster:
        """Return the attempt's pod."""
        return Kubernetes(start, launch, supervisor=supervisor)

    def driver_folder(self, start: SparkStart) -> str:
        """Return a folder in the container, where nobody else is."""
        return f"/tmp/{cluster_name(start)}"  # noqa: S108

    def application(self, start: SparkStart) -> list[str]:
        """Return the driver's side and its archive, as the pod mounts them."""
        return [f"local://{MOUNTED_AT}/{DRIVER.name}", f"{MOUNTED_AT}/{ARCHIVE}", *application_there(start)]

    def identity(self, start: SparkStart) -> dict[str, str]:
        """Return the pod's name, template, labels, annotations and environment."""
        env, pod = start.variables, "spark.kubernetes.driver"
        return {
            "spark.kubernetes.namespace": namespace_of(start.options),
            f"{pod}.pod.name": cluster_name(start),
            f"{pod}.podTemplateFile": str(start.folder.work / POD_TEMPLATE),
            f"{pod}.label.{ATTEMPT}": start.attempt.uuid.hex,
            **{f"{pod}.annotation.tidemill/{name}": value for name, value in whose(start).items()},
            "spark.kubernetes.submission.waitAppCompletion": "false",
            **{f"spark.kubernetes.driverEnv.{name}": value for name, value in env.items()},
        }


def namespace_of(options: SparkOptions) -> str:
    """The Kubernetes namespace of driver and executors: the option, else the conf, else Spark's default."""
    return options.namespace or str(options.conf.get("spark.kubernetes.namespace", "default"))


class Kubernetes:
    """The attempt is its driver's pod."""

    def __init__(
        self,
        start: SparkStart,
        launch: Callable[[], str],
        run: Run = run_tool,
        supervisor: AttemptSupervisor | None = None,
    ) -> None:
        self._work, self._supervisor = start, supervisor
        self._pod = cluster_name(start)
        self._api = Kubectl(start.options.master or "", namespace_of(start.options), run)
        self._launch = launch
        self._lines = DriverLines(start.attempt.uuid.hex)
        self._container: str | None = None
        self._looked_at = 0.0
        self._leaving_since: float | None = None
        self._seen: AppState | None = None
        """How the pod stood when it was last there."""
        self._silent_since: float | None = None
        self._is_given_up = False

    def find(self) -> str | None:
        """Return the attempt's pod. One whose spark-submit was ended before it had made all is removed."""
        began, removed = time.monotonic(), False
        while (pod := self._api.get("pod", self._pod)) is not None:
            if status_of(pod).life is not AppState.WAITING or self._has_all(pod):
                return self._pod
            if time.monotonic() - began > SUBMISSION_TIMEOUT + REMOVAL_TIMEOUT:
                raise OSError(f"pod {self._pod} is not gone {REMOVAL_TIMEOUT:g} s after it was removed")
            if time.monotonic() - began > SUBMISSION_TIMEOUT and not removed:
                self._api.delete("pod", self._pod)
                removed = True
            if self._supervisor is not None:
                self._supervisor.check({"cluster": f"waits for what pod {self._pod} has to mount"})
            time.sleep(1)
        return None

    def _has_all(self, pod: dict[str, Any]) -> bool:
        return all(self._api.get("configmap", name) is not None for name in volumes_of(pod))

    def submit(self) -> str:
        """Have the driver's pod made, if it is not there."""
        pod = self._template(self._files())
        self._work.folder.hand_over(POD_TEMPLATE, json.dumps(pod))
        try:
            self._launch()
        except OSError as error:
            if not is_taken(error):
                raise
        return self._pod

    def _files(self) -> dict[str, Any]:
        """Return the attempt's ConfigMap, made if it is not there. Raises where the attempt was given up."""
        data = {} if self._work.is_java else {ARCHIVE: base64.b64encode(archive(self._work, LARGEST)).decode()}
        content = {**self._config_map(), "data": {DRIVER.name: DRIVER.read_text()}, "binaryData": data}
        try:
            return self._api.create(content)
        except FileExistsError:
            found = self._api.get("configmap", self._pod)
        if found is None or GIVEN_UP in found["metadata"].get("labels", {}):
            raise infrastructure_error(NOTHING_BEGINS)
        return found

    def _config_map(self, **labels: str) -> dict[str, Any]:
        named = {"name": self._pod, "labels": {ATTEMPT: self._work.attempt.uuid.hex, **labels}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named}

    def _template(self, owner: dict[str, Any] | None) -> dict[str, Any]:
        """Return the pod's template, with what the user's own says, owned by the ConfigMap *owner*."""
        pod = template_of(self._work, TEMPLATE)
        if owner is not None:
            pod.setdefault("metadata", {})["ownerReferences"] = [owner_reference(owner)]
        keys = (DRIVER.name,) if self._work.is_java else (DRIVER.name, ARCHIVE)
        with_files(pod, self._pod, keys, self._container_of_template())
        return pod

    def _container_of_template(self) -> str:
        """Return which container of a template the driver is; empty: the first one."""
        return str(self._work.options.conf.get(CONTAINER, ""))

    def status(self, application_id: str) -> Status:
        """Return how the pod stands; what its driver has told until now is in the attempt's folder then."""
        pod = self._api.get("pod", application_id)
        if pod is None:  # what was seen here, and had not ended by itself, others have deleted
            taken = self._seen in (AppState.WAITING, AppState.RUNNING)
            return Status(AppState.UNKNOWN, "there is no such pod", is_disruption=taken)
        if not self._is_given_up and self._is_another(pod):
            return Status(AppState.UNKNOWN, "another pod has its name now: what it was is not known any more")
        self._container = driver_container(pod)
        status = self._unless_lost(pod, status_of(pod))
        if status.life is not AppState.UNKNOWN:
            self._seen = status.life
        if self._is_given_up:
            return status
        if status.life is AppState.ENDED:
            if self._has_read_log(whole=True):
                self._let_go(pod)
        elif status.life is AppState.RUNNING and time.monotonic() - self._looked_at > LOG_EVERY:
            with suppress(OSError):  # its node does not answer, say: what the API knows of the pod counts
                self._read_log()
        return status

    def _is_another(self, pod: dict[str, Any]) -> bool:
        """Return whether *pod* is none that was seen first; keep in mind the first one. Whoever ends it ends any."""
        uid, first = pod["metadata"].get("uid"), self._first_pod()
        if first is None:
            with suppress(OSError):  # a full disk, say: how the pod stands counts
                self._work.folder.write(FIRST_POD, {"uid": uid})
        return first not in (None, uid)

    def _first_pod(self) -> str | None:
        """Return the uid of the pod that was seen first of this attempt on this host; None before that."""
        return (self._work.folder.read(FIRST_POD) or {}).get("uid")

    def _unless_lost(self, pod: dict[str, Any], status: Status) -> Status:
        """Return *status*, or that nobody knows the pod: one whose node is gone is deleted, and stays for ever."""
        if "deletionTimestamp" not in pod.get("metadata", {}) or status.life is AppState.ENDED:
            return status
        now = time.monotonic()
        self._leaving_since = self._leaving_since or now
        if now - self._leaving_since > REMOVAL_TIMEOUT:
            words = f"{status.message}, deleted and not gone: its node does not answer"
            return replace(status, life=AppState.UNKNOWN, message=words)
        return replace(status, message=f"{status.message}, being deleted")

    def _has_read_log(self, *, whole: bool) -> bool:
        """Return whether the log of a pod that has ended could be read. Raises OSError as long as it may be, yet."""
        try:
            self._read_log(whole=whole)
        except OSError:
            now = time.monotonic()
            self._silent_since = self._silent_since or now
            if now - self._silent_since < LOG_TIMEOUT:
                raise
            return False
        return True

    def _read_log(self, *, whole: bool = False) -> None:
        """Add what the driver has printed since the last look to the attempt's log; keep what it tells.

        *whole*: what it tells is looked for from its beginning, as an earlier look may have ended in its midst.
        """
        self._looked_at = time.monotonic()
        folder = self._work.folder
        seen = (folder.read(SEEN) or {}).get("since", "")
        text = self._api.logs(self._pod, self._container, None if whole else seen or None)
        lines = [line.partition(" ") for line in text.splitlines()]
        printed = [(at, text) for at, _, text in lines if not self._lines.take(text) and at > seen]
        for about, content in self._lines.reports.items():
            if whole or about != "result":  # how it went is told when the pod has ended
                folder.hand_over(f"{about}.json", json.dumps(content))
        if printed:
            with self._work.worker_context.log_at(folder.log, new_masker()) as log:
                log.feed("".join(f"{text}\n" for _, text in printed).encode())
            folder.write(SEEN, {"since": printed[-1][0]})

    def _let_go(self, pod: dict[str, Any]) -> None:
        """Empty the ConfigMap of a driver that has told how it went; it goes with the pod from now on."""
        content = self._config_map()
        content["metadata"]["ownerReferences"] = [owner_reference({"apiVersion": "v1", "kind": "Pod", **pod})]
        try:
            kept = self._api.get("configmap", self._pod)
            if kept is None or GIVEN_UP in kept["metadata"].get("labels", {}) or "data" not in kept:
                return
            # Nobody may have given the attempt up in between: that has to stay.
            content["metadata"]["resourceVersion"] = kept["metadata"].get("resourceVersion", "")
            self._api.replace(content)
        except OSError:
            return  # it is no matter of the task's

    def give_up(self) -> bool:
        """Keep any driver of the attempt from beginning: none can mount what is no longer there."""
        self._is_given_up = True
        emptied = self._config_map(**{GIVEN_UP: "true"})
        try:
            self._api.create(emptied)
        except FileExistsError:
            self._api.replace(emptied)
        return True

    def kill(self, application_id: str) -> None:
        """Have the pod removed, and with it what Spark has made for it."""
        self._api.delete("pod", application_id)


def owner_reference(owner: dict[str, Any]) -> dict[str, Any]:
    """Return what names *owner*, an object as the API has it, as the owner of another."""
    named = owner["metadata"]
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": named["name"], "uid": named["uid"]}


def template_of(start: SparkStart, property_: str) -> dict[str, Any]:
    """Return the pod that the user's own template describes, which *property_* of the conf names; empty without one.

    Fails the task where it describes none.
    """
    if property_ not in start.options.conf:
        return {}
    name = str(start.options.conf[property_])
    try:
        import yaml
    except ModuleNotFoundError:
        raise invalid(f"{property_} needs pyyaml on the worker: pip install pyyaml") from None
    try:
        with acting_as(start.folder.user):
            pod = yaml.safe_load(start.file(name).read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise invalid(f"{property_} = {name!r} cannot be read: {error}") from None
    if not isinstance(pod, dict):
        raise invalid(f"{property_} = {name!r} describes no pod. Write one, or leave it out")
    return pod


def with_files(pod: dict[str, Any], name: str, keys: Sequence[str], container: str) -> None:
    """Have the template *pod* mount *keys* of the ConfigMap *name*."""
    pod.setdefault("apiVersion", "v1")
    pod.setdefault("kind", "Pod")
    spec = pod.setdefault("spec", {})
    items = [{"key": key, "path": key} for key in keys]
    spec.setdefault("volumes", []).append({"name": "tidemill", "configMap": {"name": name, "items": items}})
    containers = spec.setdefault("containers", [])
    if not containers:
        containers.append({"name": container or "spark-kubernetes-driver"})
    chosen = next((one for one in containers if one.get("name") == container), containers[0])
    chosen.setdefault("volumeMounts", []).append({"name": "tidemill", "mountPath": MOUNTED_AT, "readOnly": True})
