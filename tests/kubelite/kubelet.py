"""A kubelet for tests whose pods are processes: it binds pending pods, and runs the one container of each.

It knows no images, probes, limits or restarts. Mounted volumes are folders: what begins with a mount's path, among
arguments, variables and Spark's properties, is rewritten to its folder. A pod with the annotation
`tidemill.test/hide` runs in a mount namespace in which the folders that it names, one after the other with colons
between, are empty (as root).

usage: kubelet.py SERVER CA_FILE TOKEN FOLDER ENTRYPOINT PORT
"""

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

SERVER, CA_FILE, TOKEN, FOLDER, ENTRYPOINT, PORT = sys.argv[1:7]
NODE = "node-of-processes"
HIDE = "tidemill.test/hide"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
OF_THE_IMAGE = ("PATH", "SPARK_HOME", "JAVA_HOME", "PYSPARK_PYTHON", "LANG", "TZ")
PROPERTIES = "spark.properties"
"""Conf that spark-submit has left for a driver: it names mounted files, too."""
TLS = ssl.create_default_context(cafile=CA_FILE)
MERGE = "application/merge-patch+json"

Object = dict[str, Any]


def opened(method: str, path: str, body: Any = None, kind: str = "application/json", timeout: float = 30) -> Any:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind, "Accept": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(SERVER + path, data, headers, method=method)
    return urllib.request.urlopen(request, timeout=timeout, context=TLS)


def api(method: str, path: str, body: Any = None, kind: str = "application/json") -> Object:
    with opened(method, path, body, kind) as answer:
        found: Object = json.load(answer)
    return found


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Container:
    """The one container of a pod, as a process group of its own."""

    def __init__(self, pod: Object, address: str) -> None:
        self.pod, self.address = pod, address
        self.meta, self.spec = pod["metadata"], pod["spec"]["containers"][0]
        self.root = Path(FOLDER, f"{self.meta['namespace']}_{self.meta['name']}_{self.meta['uid']}")
        self.process: subprocess.Popen[bytes] | None = None
        self.stopping, self.done = False, threading.Event()

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.meta['namespace']}/pods/{self.meta['name']}"

    def report(self, phase: str, state: Object, **more: Any) -> None:
        running = "running" in state
        container = {"name": self.spec["name"], "image": self.spec["image"], "imageID": "process", "restartCount": 0}
        status = {
            "phase": phase,
            "hostIP": "127.0.0.1",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": str(running)},
            ],
            "containerStatuses": [{**container, "ready": running, "started": running, "state": state}],
            **more,
        }
        body = {"metadata": {"uid": self.meta["uid"]}, "status": status}
        with suppress(urllib.error.HTTPError):  # the pod is gone, or another one has its name
            api("PATCH", f"{self.path}/status", body, MERGE)

    def run(self) -> None:
        try:
            mounts = self._mounted()
            if mounts is None:
                return
            code = self._carried_out(mounts)
            reason = "Error" if code else "Completed"
            ended = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": now()}}
            self.report("Failed" if code else "Succeeded", ended)
        finally:
            self.done.set()

    def _mounted(self) -> dict[str, str] | None:
        """Wait for what the pod mounts: Spark makes the driver's ConfigMap after its pod."""
        told = False
        while not self.stopping:
            try:
                return volumes(self.pod, self.root)
            except (urllib.error.HTTPError, KeyError) as error:
                if not told:
                    self.report("Pending", {"waiting": {"reason": "ContainerCreating", "message": str(error)}})
                told = True
            time.sleep(0.2)
        return None

    def _carried_out(self, mounts: dict[str, str]) -> int:
        self.root.mkdir(parents=True, exist_ok=True)
        argv = (self.spec.get("command") or [ENTRYPOINT]) + [
            rewritten(argument, mounts) for argument in self.spec.get("args", [])
        ]
        self.process = subprocess.Popen(
            hidden(argv, self.meta.get("annotations", {}).get(HIDE, "")),
            env=self._environment(mounts),
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        writer = threading.Thread(target=keep_lines, args=(self.process, log_of(self.meta)))
        writer.start()
        self.report("Running", {"running": {"startedAt": now()}}, podIP=self.address, podIPs=[{"ip": self.address}])
        code = self.process.wait()
        self.signal(signal.SIGKILL)  # the rest of the container
        writer.join()
        return code if code >= 0 else 128 - code

    def _environment(self, mounts: dict[str, str]) -> dict[str, str]:
        url = urlsplit(SERVER)
        own = {
            "HOME": str(self.root),
            "HOSTNAME": self.meta["name"],
            "KUBERNETES_SERVICE_HOST": str(url.hostname),
            "KUBERNETES_SERVICE_PORT": str(url.port),
            "KUBERNETES_SA_DIR": mounts.get(ACCOUNT, ""),
        }
        image = {name: os.environ[name] for name in OF_THE_IMAGE if name in os.environ}
        given = {one["name"]: rewritten(self._value(one), mounts) for one in self.spec.get("env", [])}
        return {**image, **own, **given}

    def _value(self, variable: Object) -> str:
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            return field(self.pod, source["fieldRef"]["fieldPath"], self.address)
        if "secretKeyRef" in source:
            secret = source["secretKeyRef"]
            found = api("GET", f"/api/v1/namespaces/{self.meta['namespace']}/secrets/{secret['name']}")
            return base64.b64decode(found["data"][secret["key"]]).decode()
        return str(variable.get("value", ""))

    def signal(self, number: int) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def stop(self) -> None:
        """As a kubelet does for a pod that is deleted: SIGTERM, and SIGKILL after its grace."""
        self.stopping = True
        self.signal(signal.SIGTERM)
        if not self.done.wait(self.meta.get("deletionGracePeriodSeconds") or 30):
            self.signal(signal.SIGKILL)
            self.done.wait()
        gone = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.meta["uid"]}}
        with suppress(urllib.error.HTTPError):
            api("DELETE", self.path, gone)


def hidden(argv: list[str], folders: str) -> list[str]:
    """Return the command that runs *argv* where each of *folders* is empty."""
    if not folders:
        return argv
    mounts = " && ".join(f'mount -t tmpfs none "{folder}"' for folder in folders.split(":"))
    return ["unshare", "--mount", "sh", "-c", f'{{ {mounts}; }} || exit 125; exec "$@"', "sh", *argv]


def log_of(meta: Object) -> Path:
    return Path(FOLDER, f"{meta['namespace']}_{meta['name']}.log")


def keep_lines(process: "subprocess.Popen[bytes]", path: Path) -> None:
    """Write what the process prints as a container's runtime does: each line with its time."""
    assert process.stdout is not None
    with path.open("wb") as log:
        for line in process.stdout:
            log.write(f"{now()} ".encode() + line.rstrip(b"\n") + b"\n")
            log.flush()


def field(pod: Object, path: str, address: str) -> str:
    known = {"status.podIP": address, "status.hostIP": "127.0.0.1"}
    if path in known:
        return known[path]
    part, name = path.split(".", 1)
    return str(pod[part][name])


def content_of(pod: Object, source: Object) -> dict[str, bytes]:
    """What a source of a volume holds, by path. Raises HTTPError or KeyError for what is not there (yet)."""
    namespace = pod["metadata"]["namespace"]
    [(kind, given)] = source.items()
    data: dict[str, bytes] = {}
    if kind == "configMap":
        found = api("GET", f"/api/v1/namespaces/{namespace}/configmaps/{given['name']}")
        data = {key: text.encode() for key, text in found.get("data", {}).items()}
        data |= {key: base64.b64decode(text) for key, text in found.get("binaryData", {}).items()}
    elif kind == "secret":
        name = given.get("name") or given["secretName"]
        found = api("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
        data = {key: base64.b64decode(text) for key, text in found.get("data", {}).items()}
    elif kind == "serviceAccountToken":
        return {given["path"]: token_of(pod, given).encode()}
    elif kind == "downwardAPI":
        return {one["path"]: field(pod, one["fieldRef"]["fieldPath"], "").encode() for one in given["items"]}
    if given.get("items"):
        return {one["path"]: data[one["key"]] for one in given["items"]}
    return data


def token_of(pod: Object, given: Object) -> str:
    meta = pod["metadata"]
    of = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
    spec = {
        "expirationSeconds": given.get("expirationSeconds", 3600),
        "audiences": [given["audience"]] if "audience" in given else [],
        "boundObjectRef": of,
    }
    account = f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/{pod['spec']['serviceAccountName']}/token"
    return str(api("POST", account, {"spec": spec})["status"]["token"])


def volumes(pod: Object, root: Path) -> dict[str, str]:
    """Write every volume to a folder; return the folders by mount path, the longest first."""
    folders = {}
    for volume in pod["spec"].get("volumes", []):
        place = Path(volume["hostPath"]["path"]) if "hostPath" in volume else root / "volumes" / volume["name"]
        folders[volume["name"]] = str(place)
        place.mkdir(parents=True, exist_ok=True)
        single = [{kind: volume[kind]} for kind in ("configMap", "secret") if kind in volume]
        for source in volume["projected"]["sources"] if "projected" in volume else single:
            for name, value in content_of(pod, source).items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(value)
    mounts = {
        one["mountPath"].rstrip("/"): str(Path(folders[one["name"]], one.get("subPath", "")))
        for one in pod["spec"]["containers"][0].get("volumeMounts", [])
    }
    found = dict(sorted(mounts.items(), key=lambda one: -len(one[0])))
    for folder in folders.values():
        if (place := Path(folder, PROPERTIES)).exists():
            lines = (line.partition("=") for line in place.read_text().splitlines())
            place.write_text("".join(f"{key}{mark}{rewritten(value, found)}\n" for key, mark, value in lines))
    return found


def rewritten(text: str, mounts: dict[str, str]) -> str:
    for mount, folder in mounts.items():
        for beginning in ("", "local://"):
            if text == beginning + mount or text.startswith(f"{beginning}{mount}/"):
                return beginning + folder + text[len(beginning + mount) :]
    return text


class Kubelet:
    """Keeps the containers of all pods of the node."""

    def __init__(self) -> None:
        self.containers: dict[str, Container] = {}

    def sync(self, pod: Object, *, deleted: bool = False) -> None:
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        container, leaving = self.containers.get(uid), "deletionTimestamp" in pod["metadata"]
        if deleted:  # also by force
            if container is not None:
                container.stopping = True
                container.signal(signal.SIGKILL)
        elif not spec.get("nodeName"):
            self._bind(pod, leaving=leaving)
        elif container is None and pod.get("status", {}).get("phase") == "Pending" and not leaving:
            number = len(self.containers) + 1
            container = self.containers[uid] = Container(pod, f"127.77.{number // 250}.{number % 250 + 1}")
            threading.Thread(target=container.run, daemon=True).start()
        elif leaving:
            if container is None:
                container = self.containers[uid] = Container(pod, "")
                container.done.set()
            if not container.stopping:
                container.meta = pod["metadata"]
                threading.Thread(target=container.stop, daemon=True).start()

    def _bind(self, pod: Object, *, leaving: bool) -> None:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        if leaving:
            return
        if pod["spec"].get("nodeSelector"):
            if not pod["status"].get("conditions"):
                why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                status = {"conditions": [{**why, "message": "no node has these labels"}]}
                api("PATCH", f"{path}/status", {"status": status}, MERGE)
            return
        with suppress(urllib.error.HTTPError):
            api(
                "POST",
                f"{path}/binding",
                {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": NODE}},
            )

    def follow(self) -> None:
        """List all pods, and watch what becomes of them, until the API is away."""
        listed = api("GET", "/api/v1/pods")
        for pod in listed["items"]:
            self.sync(pod)
        since = listed["metadata"]["resourceVersion"]
        watch = f"/api/v1/pods?watch=1&timeoutSeconds=300&resourceVersion={since}"
        with opened("GET", watch, timeout=330) as events:
            for line in events:
                event = json.loads(line)
                if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                    self.sync(event["object"], deleted=event["type"] == "DELETED")

    def end(self, *_: Any) -> None:
        for container in self.containers.values():
            container.signal(signal.SIGKILL)
        os._exit(0)


class Logs(BaseHTTPRequestHandler):
    """`GET /containerLogs/NAMESPACE/POD/CONTAINER`, which the API server asks for `kubectl logs`."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        _, _, namespace, name, *_ = url.path.split("/")
        try:
            lines = log_of({"namespace": namespace, "name": name}).read_bytes().splitlines(keepends=True)
        except OSError:
            self.send_error(404)
            return
        since = asked.get("sinceTime", "")
        chosen = [line for line in lines if line.partition(b" ")[0].decode() >= since.removesuffix("Z")]
        if asked.get("timestamps") != "true":
            chosen = [line.partition(b" ")[2] for line in chosen]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"".join(chosen))

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


def serve_logs() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", int(PORT)), Logs)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(Path(CA_FILE).with_name("server.crt"), Path(CA_FILE).with_name("server.key"))
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main() -> None:
    Path(FOLDER).mkdir(parents=True, exist_ok=True)
    kubelet = Kubelet()
    signal.signal(signal.SIGTERM, kubelet.end)
    serve_logs()
    with suppress(urllib.error.HTTPError):
        api("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": int(PORT)}},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    api("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status}, MERGE)
    while True:
        try:
            kubelet.follow()
        except (OSError, ValueError) as error:
            print("watch:", error, file=sys.stderr, flush=True)
            time.sleep(0.5)


if __name__ == "__main__":
    main()
