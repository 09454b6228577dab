"""Kubernetes: what is asked of its API and of spark-submit, what a driver's pod is given, and what comes of it.

The API is a model of what `kubectl` does here; `make clusters` asks a real one (tests/clusters).
"""

import base64
import json
import os
import subprocess
import sys
import zipfile
import zlib
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from kubernetes_api import Object, begun
from spark_starts import KUBERNETES, conf_of
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from tidemill.activities.spark import cluster as cluster_module
from tidemill.activities.spark import kubectl as kubectl_module
from tidemill.activities.spark import kubernetes as kubernetes_module
from tidemill.activities.spark.causes import is_refusal
from tidemill.activities.spark.client import driver_environment
from tidemill.activities.spark.clusters import AppState
from tidemill.activities.spark.command import DRIVER, spark_submit
from tidemill.activities.spark.driver_lines import DriverLines
from tidemill.activities.spark.kubernetes import GIVEN_UP, LARGEST, Kubernetes
from tidemill.activities.spark.pod import status_of
from tidemill.activities.spark.shipping import ARCHIVE, archive
from tidemill.activities.spark.starts import cluster_name


def test_the_command_line(tmp_path: Path) -> None:
    work, _, _ = begun(tmp_path, env={"REGION": "eu"})
    argv = spark_submit(work)
    conf = conf_of(argv)
    assert conf["spark.kubernetes.driver.pod.name"] == cluster_name(work) == f"tidemill-{work.attempt.uuid.hex}"
    assert conf["spark.kubernetes.namespace"] == "pipelines"
    assert conf["spark.kubernetes.submission.waitAppCompletion"] == "false"
    assert conf["spark.kubernetes.driverEnv.REGION"] == "eu"
    folder = f"/tmp/tidemill-{work.attempt.uuid.hex}"
    assert conf["spark.tidemill.result"] == f"{folder}/xcom.json"
    application = f"{folder}/application/load.py"
    assert argv[-4:] == ["local:///opt/tidemill/driver.py", "/opt/tidemill/attempt.zip", application, "2024-01-01"]


def test_what_begins_a_branch_is_sent_where_there_is_a_table(tmp_path: Path) -> None:
    work, _, _ = begun(tmp_path, table="lake.db.orders")
    sent = zipfile.ZipFile(BytesIO(archive(work, LARGEST)))
    assert "driver_tables.py" in sent.namelist()
    assert work.staged_table is not None
    assert json.loads(sent.read("plan.json"))["table"]["branch"] == work.staged_table.branch


def test_an_application_of_the_image_is_not_sent(tmp_path: Path) -> None:
    work, _, _ = begun(tmp_path, application="local:///app/load.py")
    assert spark_submit(work)[-2:] == ["/app/load.py", "2024-01-01"]
    assert zipfile.ZipFile(BytesIO(archive(work, LARGEST))).namelist() == [
        "driver_figures.py",
        "attempt.json",
        "plan.json",
    ]


def test_the_pod_is_given_all_that_its_driver_needs_and_is_owned_by_it(tmp_path: Path) -> None:
    work, api, kubernetes = begun(tmp_path)
    assert kubernetes.find() is None
    assert kubernetes.submit() == kubernetes.find() == cluster_name(work)
    kept = api.config_map(cluster_name(work))
    assert kept["data"] == {DRIVER.name: DRIVER.read_text()}
    packed = zipfile.ZipFile(BytesIO(base64.b64decode(kept["binaryData"][ARCHIVE])))
    assert packed.read("application/load.py") == b"print('loads')"
    assert json.loads(packed.read("plan.json"))["ships"] == work.attempt.uuid.hex
    template = json.loads(Path(conf_of(spark_submit(work))["spark.kubernetes.driver.podTemplateFile"]).read_text())
    assert template["metadata"]["ownerReferences"][0]["uid"] == kept["metadata"]["uid"]
    [volume] = template["spec"]["volumes"]
    assert volume["configMap"]["name"] == kept["metadata"]["name"]
    assert {item["key"] for item in volume["configMap"]["items"]} == {*kept["data"], *kept["binaryData"]}


def test_a_template_of_the_users_is_kept(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(
        "spec:\n  nodeSelector: {disk: fast}\n  containers:\n  - {name: sidecar}\n  - {name: driver}\n"
    )
    template = {
        "spark.kubernetes.driver.podTemplateFile": str(tmp_path / "pod.yaml"),
        "spark.kubernetes.driver.podTemplateContainerName": "driver",
    }
    work, _, kubernetes = begun(tmp_path, {**KUBERNETES, "conf": {**KUBERNETES["conf"], **template}})
    kubernetes.submit()
    made = json.loads(Path(conf_of(spark_submit(work))["spark.kubernetes.driver.podTemplateFile"]).read_text())
    assert made["spec"]["nodeSelector"] == {"disk": "fast"}
    assert [[*one] for one in made["spec"]["containers"]] == [["name"], ["name", "volumeMounts"]]


def test_code_that_is_too_large_to_be_sent_is_refused_with_the_remedy(tmp_path: Path) -> None:
    _, _, kubernetes = begun(tmp_path)
    (tmp_path / "dags" / "load.py").write_bytes(b"#" + base64.b64encode(os.urandom(1_500_000)))
    with pytest.raises(ApplicationError, match=r"local:///path/there\.py"):
        kubernetes.submit()


def test_a_driver_in_a_folder_of_its_own_runs_what_it_was_sent(tmp_path: Path) -> None:
    """The driver's side itself, as the pod starts it, below spark-submit or not: Spark is only imported."""
    work, api, kubernetes = begun(tmp_path)
    (tmp_path / "dags" / "load.py").write_text(
        "import json, pathlib, sys\n"
        "pathlib.Path(__file__).parents[1].joinpath('xcom.json').write_text(json.dumps(['x' * 5000, sys.argv[1]]))"
    )
    kubernetes.submit()
    kept = api.config_map(cluster_name(work))
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / DRIVER.name).write_text(kept["data"][DRIVER.name])
    (mounted / ARCHIVE).write_bytes(base64.b64decode(kept["binaryData"][ARCHIVE]))
    argv = [*spark_submit(work)[-2:]]
    ran = subprocess.run(
        [sys.executable, mounted / DRIVER.name, mounted / ARCHIVE, *argv], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    api.printed = [f"2026-01-01T00:00:{n:02}Z {line}" for n, line in enumerate(ran.stdout.splitlines())]
    api.pod(cluster_name(work), "Succeeded")
    assert kubernetes.status(cluster_name(work)).succeeded
    outcome = work.earlier_result()
    assert outcome is not None
    assert outcome.xcom == {"return_value": ["x" * 5000, "2024-01-01"]}


def test_what_the_driver_prints_is_in_the_log_once_and_what_it_tells_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_module, "LOG_EVERY", -1)
    work, api, kubernetes = begun(tmp_path)
    kubernetes.submit()
    pod, uuid = cluster_name(work), work.attempt.uuid.hex
    told = "eJyrVkrOLFayUlAqLU4tUqoFAC0cBWA="  # something of another attempt's
    api.printed = [
        "2026-01-01T00:00:00Z one",
        "2026-01-01T00:00:01Z two",
        f"2026-01-01T00:00:02Z tidemill:{uuid}:progress:1/2:a",
    ]
    api.pod(pod, "Running")
    kubernetes.status(pod)
    other = f"tidemill:{'0' * 32}:result:1/1:{told}"
    api.printed += [f"2026-01-01T00:00:03Z tidemill:{uuid}:progress:2/2:b", f"2026-01-01T00:00:04Z {other}"]
    kubernetes.status(pod)
    Kubernetes(work, lambda: "", api).status(pod)  # of another start
    lines = [line.split()[-1] for line in work.folder.log.read_text().splitlines() if line.strip()]
    assert [line for line in lines if line in ("one", "two") or "tidemill:" in line] == ["one", "two", other]
    assert work.earlier_result() is None


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
@pytest.mark.parametrize(("code", "succeeded"), [(0, True), (3, False)])
def test_beside_other_containers_the_drivers_own_says_how_it_went(
    tmp_path: Path, phase: str, code: int, succeeded: bool
) -> None:
    """A side car goes on, and kubectl reads the log of the first container unless it is told which."""
    work, api, kubernetes = begun(tmp_path)
    name = kubernetes.submit()
    mounted = [{"name": "tidemill", "mountPath": "/opt/tidemill"}]
    containers = [{"name": "shipper"}, {"name": "driver", "volumeMounts": mounted}]
    ended = {"name": "driver", "state": {"terminated": {"exitCode": code, "reason": "Done"}}}
    statuses = [{"name": "shipper", "state": {"running": {}}}, ended]
    api.pod(name, "Running", status={"phase": phase, "containerStatuses": statuses}, spec={"containers": containers})
    api.logs_of = "driver"
    result = base64.b64encode(zlib.compress(b'{"outcome": {}}')).decode()
    api.printed = [f"2026-01-01T00:00:00Z tidemill:{work.attempt.uuid.hex}:result:1/1:{result}"]
    status = kubernetes.status(name)
    assert (status.life, status.succeeded) == (AppState.ENDED, succeeded)
    assert (f"the driver has ended: Done, exit code {code}" in status.message) is (phase == "Running")
    assert work.earlier_result() is not None


def test_an_end_empties_what_was_sent_and_leaves_it_to_the_pod(tmp_path: Path) -> None:
    work, api, kubernetes = begun(tmp_path)
    kubernetes.submit()
    api.pod(cluster_name(work), "Failed")
    assert kubernetes.status(cluster_name(work)).life is AppState.ENDED
    kept = api.config_map(cluster_name(work))
    assert "data" not in kept
    assert kept["metadata"]["ownerReferences"][0]["uid"] == api.objects["pod", cluster_name(work)]["metadata"]["uid"]


def test_nothing_begins_for_an_attempt_that_was_given_up(tmp_path: Path) -> None:
    """Whether it had something there or not; a worker that wakes up makes nothing anew."""
    for submits in (False, True):
        work, api, kubernetes = begun(tmp_path)
        if submits:
            kubernetes.submit()
        assert kubernetes.give_up()
        kubernetes.kill(cluster_name(work))
        assert "data" not in api.config_map(cluster_name(work))
        assert GIVEN_UP in api.config_map(cluster_name(work))["metadata"]["labels"]
        with pytest.raises(ApplicationError, match="given up"):
            Kubernetes(work, lambda: pytest.fail("it was submitted"), api).submit()


def test_the_end_of_a_pod_that_is_given_up_lets_nothing_begin(tmp_path: Path) -> None:
    """Between SIGTERM and its removal it has failed: whoever looks then, keeps what holds others back."""
    work, api, kubernetes = begun(tmp_path)
    kubernetes.submit()
    kubernetes.give_up()
    api.pod(cluster_name(work), "Failed")
    kubernetes.status(cluster_name(work))
    Kubernetes(work, lambda: "", api).status(cluster_name(work))  # of who follows it meanwhile
    kept = api.config_map(cluster_name(work))["metadata"]
    assert GIVEN_UP in kept["labels"]
    assert "ownerReferences" not in kept


def test_a_pod_whose_node_is_gone_is_lost_and_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API keeps such a pod running, or leaving, for as long as nobody of the node says otherwise."""
    work, api, kubernetes = begun(tmp_path)
    kubernetes.submit()
    leaving = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    api.pod(cluster_name(work), "Running", **leaving)
    monkeypatch.setattr(api, "printed", None)  # nor does it tell what was printed
    found = kubernetes.status(cluster_name(work))
    assert (found.life, found.message) == (AppState.RUNNING, "Running, being deleted")
    monkeypatch.setattr(kubernetes_module, "REMOVAL_TIMEOUT", -1)
    assert kubernetes.status(cluster_name(work)).life is AppState.UNKNOWN
    api.pod(cluster_name(work), "Succeeded")
    with pytest.raises(OSError, match="no log"):
        kubernetes.status(cluster_name(work))
    monkeypatch.setattr(kubernetes_module, "LOG_TIMEOUT", -1)
    assert kubernetes.status(cluster_name(work)).life is AppState.ENDED
    assert "data" in api.config_map(cluster_name(work)), "for whoever can read the log after all"


def test_a_pod_without_what_it_mounts_is_removed_and_submitted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a spark-submit that was killed between the two: it would be pending for ever, and its name would be taken."""
    monkeypatch.setattr(kubernetes_module, "SUBMISSION_TIMEOUT", 0)
    work, api, kubernetes = begun(tmp_path)
    spec = {"volumes": [{"name": "conf", "configMap": {"name": "spark-drv-conf-map"}}]}
    api.pod(cluster_name(work), "Pending", spec=spec)
    assert kubernetes.find() is None
    assert kubernetes.submit() == cluster_name(work)
    api.put("configmap", "spark-drv-conf-map", {})
    api.pod(cluster_name(work), "Pending", spec=spec)
    assert kubernetes.find() == cluster_name(work)


@pytest.mark.parametrize(("status", "life", "words"), [
    ({"phase": "Running"}, AppState.RUNNING, "Running"),
    ({"phase": "Succeeded"}, AppState.ENDED, "Succeeded"),
    ({"phase": "Failed", "reason": "Evicted", "message": "low"}, AppState.ENDED, "Failed: Evicted: low"),
    (
        {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]},
        AppState.ENDED, "Failed: OOMKilled, exit code 137",
    ),
    (
        {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "insufficient cpu"}
        ]},
        AppState.WAITING, "Pending: Unschedulable: insufficient cpu",
    ),
    (
        {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
        AppState.WAITING, "Pending: ImagePullBackOff",
    ),
])  # fmt: skip
def test_how_a_pod_stands_is_said_in_the_words_of_the_api(status: Object, life: AppState, words: str) -> None:
    found = status_of({"status": status})
    assert (found.life, found.message, found.succeeded) == (life, words, status["phase"] == "Succeeded")


@pytest.mark.parametrize(("cause", "refused"), [
    ('pods is forbidden: User "w" cannot create resource "pods" in API group "" in the namespace "a"', True),
    ('pods "x" is forbidden: error looking up service account team-a/nosuch: serviceaccount "nosuch" not found', True),
    ('pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2', False),
    ('pods "x" is forbidden: exceeded quota: q, requested: cpu=64, used: cpu=0, limited: cpu=8', True),
    ('pods "x" is forbidden: exceeded quota: q, requested: a=4,b=1, used: a=0,b=1, limited: a=2,b=1', False),
    ('pods "x" is forbidden: status unknown for quota: q, resources: limits.cpu', False),
    ("java.net.ConnectException: Connection refused", False),
    ('kubectl --request-timeout 20s failed: Error from server (Forbidden): pods "x" is forbidden: User "w"', True),
    ('Error from server (NotFound): error when creating "STDIN": namespaces "jobs" not found', True),
    ("Must specify the driver container image", True),
    ("Please specify spark.kubernetes.file.upload.path property.", True),
    ("Only one of --proxy-user or --principal can be provided.", True),
    ("Application submitted by user a to unknown queue: nosuch", True),
    ("Required executor memory (65536 MB) is above the max threshold (8192 MB) of this cluster!", True),
])  # fmt: skip
def test_what_a_cluster_refuses_for_good_fails_at_once(cause: str, refused: bool) -> None:
    assert is_refusal(cause) is refused


def test_a_quota_that_is_used_up_is_waited_for_and_a_refusal_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, api, kubernetes = begun(tmp_path)
    answers = ["exceeded quota: q, limited: pods=2", "exceeded quota: q, limited: pods=2", None]

    def launch() -> str:
        if (refusal := answers.pop(0)) is not None:
            raise OSError(f'spark-submit ended with exit code 1: pods "x" is forbidden: {refusal}')
        api.pod(cluster_name(work), "Pending")
        return ""

    monkeypatch.setattr(kubernetes, "_launch", launch)
    monkeypatch.setattr(cluster_module, "AGAIN_AFTER", 0.1)
    monkeypatch.setattr(cluster_module, "cluster_of", lambda *_: kubernetes)
    outcome = ActivityEnvironment().run(cluster_module.submit, work)
    assert outcome.submission is not None
    assert answers == []
    api.objects.clear()
    work.folder.write("submission.json", {"application_id": "x"})
    answers[:] = ["exceeded quota: q, limited: pods=2"]
    monkeypatch.setattr(cluster_module, "HOLDS_SLOT_FOR", -1.0)
    with pytest.raises(ApplicationError, match="exceeded quota") as given_back:
        ActivityEnvironment().run(cluster_module.submit, work)
    assert "SparkSubmitRefused" not in f"{given_back.value.type} {given_back.value.details}", "another start tries on"
    api.objects.clear()
    work.folder.write("submission.json", {"application_id": "x"})
    answers[:] = ['User "w" cannot create resource "pods"'] * 2
    with pytest.raises(ApplicationError, match=r"the cluster refuses it: .* is forbidden"):
        ActivityEnvironment().run(cluster_module.submit, work)


def test_what_may_not_be_looked_at_is_no_refusal_where_an_earlier_start_may_have_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The try would count as ended by itself, and nobody would end the driver that goes on."""
    work, _, kubernetes = begun(tmp_path)

    def forbidden(*_: Any) -> None:
        raise OSError('kubectl failed: pods "x" is forbidden: User "w" cannot get resource "pods"')

    monkeypatch.setattr(kubernetes, "find", forbidden)
    monkeypatch.setattr(cluster_module, "cluster_of", lambda *_: kubernetes)
    for number, kind in ((1, "SparkSubmitRefused"), (2, "Infrastructure")):
        with pytest.raises(ApplicationError) as raised:
            ActivityEnvironment().run(cluster_module.submit, replace(work, number=number))
        assert kind in f"{raised.value.type} {raised.value.details}"


@pytest.mark.parametrize(("told", "options", "wanted"), [
    ("the option", {**KUBERNETES, "namespace": "jobs"}, "jobs"),
    ("the conf", {**KUBERNETES, "namespace": None, "conf": {"spark.kubernetes.namespace": "jobs"}}, "jobs"),
    ("neither", {**KUBERNETES, "namespace": None}, "default"),
])  # fmt: skip
def test_a_pod_is_in_the_namespace_that_is_asked_for(tmp_path: Path, told: str, options: Object, wanted: str) -> None:
    work, api, kubernetes = begun(tmp_path, options)
    assert conf_of(spark_submit(work))["spark.kubernetes.namespace"] == wanted, told
    assert kubernetes.find() is None
    assert api.asked[0][api.asked[0].index("--namespace") + 1] == wanted


def test_a_driver_in_a_pod_has_a_port_and_a_python_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes refuses a container with port 0, and no image has the worker's Python."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    work, _, _ = begun(tmp_path)
    assert "spark.ui.port" not in conf_of(spark_submit(work))
    assert "PYSPARK_PYTHON" not in driver_environment(work)
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    assert driver_environment(work)["PYSPARK_PYTHON"] == "/usr/bin/python3"


def test_within_a_pod_kubectl_is_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.touch()
    monkeypatch.setattr(kubectl_module, "SERVICE_ACCOUNT", token)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    _, api, kubernetes = begun(tmp_path)
    kubernetes.find()
    assert api.asked[0][:4] == ["kubectl", "--request-timeout", "20s", "--namespace"]
    _, api, kubernetes = begun(tmp_path, {**KUBERNETES, "master": "k8s://https://elsewhere:6443"})
    kubernetes.find()
    assert api.asked[0][3:5] == ["--server", "https://elsewhere:6443"]


@pytest.mark.parametrize(
    "told", ['pods "x" already exists: AlreadyExists', 'ended with exit code 1: pods "x" already exists']
)
def test_a_pod_that_is_there_already_is_the_attempts_own(tmp_path: Path, told: str) -> None:
    def launch() -> str:
        raise OSError(told)

    work, api, _ = begun(tmp_path)
    assert Kubernetes(work, launch, api).submit() == cluster_name(work)


def test_lines_that_are_cut_or_forged_tell_nothing() -> None:
    lines = DriverLines("a" * 32)
    for line in (
        f"tidemill:{'a' * 32}:result:2/2:eJyrVipJLS5RslIqLU4tUqoFAC6jBXo=",
        f"tidemill:{'a' * 32}:result:1/1:notbase64",
        f"tidemill:{'a' * 32}:result:1/1:" + base64.b64encode(zlib.compress(b"[1]")).decode(),
    ):
        assert lines.take(line)
    assert lines.reports == {}
    assert not lines.take(f"tidemill:{'b' * 32}:result:1/1:eA==")
