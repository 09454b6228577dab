"""A real API of Kubernetes on loopback, whose pods are processes.

etcd, kube-apiserver and its controllers are one program, built from their Go modules by
`make clusters`, which takes minutes once.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from tidemill.activities.processes.supervised import start_supervised, stop
from tidemill.activities.spark.command import spark_home
from tidemill.activities.worker_context import find_java
from tidemill.worker.app.dev import free_port

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "build" / "kubelite"
SOURCE = Path(__file__).parent / "kubelite"
OPERATOR = ROOT / "build" / "spark-operator"
"""The Kubeflow Spark operator, and the definitions of its resources."""
RESOURCE = "sparkapplications.sparkoperator.k8s.io"
NAMESPACE, ACCOUNT = "team-a", "spark"
OF = "tidemill/dag_id"
CONTROLLERS = (
    "serviceaccount-controller,root-ca-certificate-publisher-controller,garbage-collector-controller,"
    "resourcequota-controller,namespace-controller,clusterrole-aggregation-controller"
)


def missing() -> str | None:
    """Why there can be no such cluster here."""
    if os.geteuid() != 0:
        return "needs root and the right to mount"
    if not PROGRAM.exists() or shutil.which("kubectl") is None or shutil.which("openssl") is None:
        return "Kubernetes' API is not built, or kubectl is not here: make clusters"
    return None


def operator_missing() -> str | None:
    """Why there can be no Spark operator in such a cluster here."""
    if (OPERATOR / ".ready").exists():
        return missing()
    return missing() or "the Spark operator is not built: make clusters"


@dataclass(frozen=True)
class KubernetesCluster:
    """Where it is, and who may do all there."""

    server: str
    kubeconfig: Path
    home: Path
    """Where its files are."""
    servers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """Its processes, by name."""

    @contextmanager
    def without_api(self) -> Iterator[None]:
        """Its API server is killed, and started again after the block; what runs goes on."""
        stop(self.servers["apiserver"])
        try:
            yield
        finally:
            argv = json.loads((self.home / "apiserver" / "command.json").read_text())["argv"]
            log = self.home / "apiserver-again.log"
            self.servers["apiserver"] = start_supervised(self.home / "apiserver", argv, log, dict(os.environ))
            deadline = time.monotonic() + 120
            while not self.serves("pods"):
                assert time.monotonic() < deadline, f"Kubernetes' API did not start again: see {log}"
                time.sleep(0.2)

    def kubectl(self, *words: str, given: str | None = None) -> str:
        """What `kubectl` prints."""
        argv = ["kubectl", "--kubeconfig", str(self.kubeconfig), "--namespace", NAMESPACE, *words]
        return subprocess.run(argv, input=given, capture_output=True, text=True, check=True).stdout

    def serves(self, kind: str) -> bool:
        """Whether the API knows objects of *kind*."""
        try:
            self.kubectl("get", kind)
        except subprocess.CalledProcessError:
            return False
        return True

    def names(self, kind: str) -> list[str]:
        """The names of all objects of *kind* in the namespace."""
        return self.kubectl("get", kind, "--output", "jsonpath={.items[*].metadata.name}").split()

    def pods(self, dag_id: str, *phases: str) -> list[str]:
        """The names of pods of the DAG's drivers that are in one of *phases*, or in any."""
        listed = json.loads(self.kubectl("get", "pods", "--output", "json"))["items"]
        mine = [pod for pod in listed if pod["metadata"].get("annotations", {}).get(OF) == dag_id]
        return [pod["metadata"]["name"] for pod in mine if not phases or pod["status"]["phase"] in phases]

    def running(self, dag_id: str) -> list[str]:
        """The names of the DAG's pods that have not ended."""
        return self.pods(dag_id, "Pending", "Running")

    def options(self, *hidden: Path, image_has_tidemill: bool = False, **more: Any) -> dict[str, Any]:
        """A task's options; *hidden*: folders that are empty for its driver, as is this repository."""
        folders = [path for path in sorted(ROOT.iterdir()) if path.is_dir() and not path.name.startswith(".venv")]
        checkout = [ROOT / "tests"] if image_has_tidemill else folders
        hide = {"spark.kubernetes.driver.annotation.tidemill.test/hide": ":".join(map(str, [*hidden, *checkout]))}
        return {
            "master": f"k8s://{self.server}",
            "deploy_mode": "cluster",
            "namespace": NAMESPACE,
            "driver_memory": "512m",
            "executor_memory": "512m",
            "num_executors": 1,
            "conf": {
                "spark.kubernetes.container.image": "any",
                "spark.kubernetes.authenticate.driver.serviceAccountName": ACCOUNT,
                "spark.kubernetes.driver.request.cores": "100m",
                "spark.kubernetes.executor.request.cores": "100m",
                "spark.sql.shuffle.partitions": 2,
                **hide,
            },
            **more,
        }


@contextmanager
def kubernetes_cluster(folder: Path) -> Iterator[KubernetesCluster]:
    """A cluster with a namespace and an account that may run Spark in it; it ends with the block."""
    folder.mkdir(parents=True)
    api, etcd, peers, kubelet = (free_port() for _ in range(4))
    server, token = f"https://127.0.0.1:{api}", secrets.token_hex(16)
    _make_keys(folder)
    (folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    (folder / "tokens.csv").chmod(0o600)
    cluster = KubernetesCluster(server, _kubeconfig(folder, server, token), folder)
    with ExitStack() as started:

        def start(name: str, *argv: str, **variables: str) -> None:
            (folder / name).mkdir()
            environment = {**os.environ, **variables}
            cluster.servers[name] = start_supervised(folder / name, [*argv], folder / f"{name}.log", environment)
            started.callback(lambda: stop(cluster.servers[name]))

        keys = {name: str(folder / name) for name in ("server.crt", "server.key", "sa.pub", "sa.key", "tokens.csv")}
        start(
            "etcd", str(PROGRAM), "etcd", str(folder / "data"), f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peers}"
        )
        start(
            "apiserver", str(PROGRAM), "apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd}", "--bind-address=127.0.0.1", f"--secure-port={api}",
            f"--tls-cert-file={keys['server.crt']}", f"--tls-private-key-file={keys['server.key']}",
            f"--token-auth-file={keys['tokens.csv']}", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys['sa.pub']}", f"--service-account-signing-key-file={keys['sa.key']}",
            "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
            "--kubelet-preferred-address-types=InternalIP", "--allow-privileged=true", "--profiling=false",
        )  # fmt: skip
        _wait_for(folder, server, token)
        start(
            "controllers", str(PROGRAM), "controllers", f"--kubeconfig={cluster.kubeconfig}",
            f"--service-account-private-key-file={keys['sa.key']}", f"--root-ca-file={folder / 'ca.crt'}",
            "--leader-elect=false", "--use-service-account-credentials=false", "--secure-port=0",
            f"--controllers={CONTROLLERS}",
        )  # fmt: skip
        java = find_java()
        assert java is not None
        image = {
            "SPARK_HOME": str(spark_home()),
            "PYSPARK_PYTHON": sys.executable,
            "JAVA_HOME": str(java.parent.parent),
        }
        entrypoint = shutil.copy(SOURCE / "entrypoint.sh", folder)  # where a pod finds it that does not see these tests
        start(
            "kubelet", sys.executable, str(SOURCE / "kubelet.py"), server, str(folder / "ca.crt"), token,
            str(folder / "pods"), str(entrypoint), str(kubelet), **image,
        )  # fmt: skip
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("create", "serviceaccount", ACCOUNT)
        cluster.kubectl(
            "create", "rolebinding", "spark", "--clusterrole=edit", f"--serviceaccount={NAMESPACE}:{ACCOUNT}"
        )
        yield cluster


@dataclass
class SparkOperator:
    """The Kubeflow Spark operator of a cluster's namespace, which can be ended and started again."""

    cluster: KubernetesCluster
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    def options(self, *hidden: Path, **more: Any) -> dict[str, Any]:
        """A task's options, as those of the cluster."""
        return self.cluster.options(*hidden, submit_with="spark-operator", **more)

    def start(self) -> None:
        """Start it, and return when it is ready."""
        self.starts += 1
        folder, health, server = (
            self.cluster.home / f"operator-{self.starts}",
            free_port(),
            urlsplit(self.cluster.server),
        )
        folder.mkdir()
        # It leaves templates in a folder of its own where it is killed.
        apart = 'mkdir -p /tmp/spark && mount -t tmpfs none /tmp/spark && exec "$@"'
        argv = [
            "unshare", "--mount", "sh", "-c", apart, "sh",
            str(OPERATOR / "operator"), "controller", "start", f"--namespaces={NAMESPACE}",
            f"--health-probe-bind-address=127.0.0.1:{health}",
        ]  # fmt: skip
        java = find_java()
        assert java is not None
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
            "SPARK_HOME": str(spark_home()),
            "JAVA_HOME": str(java.parent.parent),
        }
        self.process = start_supervised(folder, argv, folder.with_suffix(".log"), environment)
        deadline = time.monotonic() + 120
        while True:
            with suppress(httpx.HTTPError):
                if httpx.get(f"http://127.0.0.1:{health}/readyz").status_code == 200:
                    return
            assert time.monotonic() < deadline, f"the operator did not start: see the log beside {folder}"
            time.sleep(0.2)

    def stop(self) -> None:
        """End it at once, with the spark-submit that it runs."""
        if self.process is not None:
            stop(self.process)
            self.process = None


@contextmanager
def spark_operator(cluster: KubernetesCluster) -> Iterator[SparkOperator]:
    """A Spark operator for the cluster's namespace; it ends with the block."""
    cluster.kubectl("create", "--filename", str(OPERATOR / "definitions"))
    deadline = time.monotonic() + 60
    while not cluster.serves(RESOURCE):
        assert time.monotonic() < deadline, f"the API does not serve {RESOURCE}"
        time.sleep(0.2)
    operator = SparkOperator(cluster)
    try:
        operator.start()
        yield operator
    finally:
        operator.stop()


def _make_keys(folder: Path) -> None:
    """An authority, the server's certificate, and the keys of service accounts."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    request = ("req", "-newkey", "rsa:2048", "-nodes")
    openssl(*request, "-x509", "-keyout", "ca.key", "-out", "ca.crt", "-days", "30", "-subj", "/CN=test-authority",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign")  # fmt: skip
    openssl(*request, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=kube-apiserver")
    names = "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc\nextendedKeyUsage=serverAuth\n"
    (folder / "names").write_text(names)
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30",
            "-out", "server.crt", "-extfile", "names")  # fmt: skip
    openssl("genrsa", "-out", "sa.key", "2048")
    openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")


def _kubeconfig(folder: Path, server: str, token: str) -> Path:
    path = folder / "kubeconfig"

    def config(*words: str) -> None:
        subprocess.run(["kubectl", "--kubeconfig", str(path), "config", *words], check=True, capture_output=True)

    config("set-cluster", "it", f"--server={server}", f"--certificate-authority={folder / 'ca.crt'}", "--embed-certs")
    config("set-credentials", "admin", f"--token={token}")
    config("set-context", "it", "--cluster=it", "--user=admin")
    config("use-context", "it")
    return path


def _wait_for(folder: Path, server: str, token: str, within: float = 120) -> None:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    deadline = time.monotonic() + within
    while True:
        try:
            headers = {"Authorization": f"Bearer {token}"}
            if httpx.get(f"{server}/readyz", verify=context, headers=headers).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        assert time.monotonic() < deadline, f"Kubernetes' API did not start: see the logs in {folder}"
        time.sleep(0.2)
