"""YARN and Kubernetes: what tidemill runs there and what it makes of the answers. No such cluster is here to ask."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.testing import ActivityEnvironment
from tidemill.activities.spark.clusters import Life
from tidemill.activities.spark.command import spark_submit
from tidemill.activities.spark.kubernetes import Kubernetes
from tidemill.activities.spark.starts import SparkStart
from tidemill.activities.spark.yarn import Yarn
from tidemill.activities.workplace import Workplace
from tidemill.model.run.attempts import TaskAttempt

YARN = {"master": "yarn", "deploy_mode": "cluster", "yarn_queue": "etl", "num_executors": 4, "executor_memory": "2g"}
KUBERNETES = {
    "master": "k8s://https://10.0.0.1:6443",
    "deploy_mode": "cluster",
    "namespace": "pipelines",
    "conf": {"spark.kubernetes.container.image": "registry.example/tidemill:1"},
}


def start(home: Path, spark: dict[str, Any], **fields: Any) -> SparkStart:
    """The first start of an attempt."""
    run = {
        "dag_id": "sales",
        "run_id": "scheduled__2024-01-01T00:00:00+00:00",
        "run_type": "scheduled",
        "triggered_by": "timetable",
        "run_after": "2024-01-02T00:00:00Z",
        "logical_date": "2024-01-01T00:00:00Z",
        "data_interval": {"start": "2024-01-01T00:00:00Z", "end": "2024-01-02T00:00:00Z"},
    }
    task = {"kind": "spark_submit", "task_id": "load", "application": "load.py", "application_args": ["{{ ds }}"]}
    attempt = TaskAttempt.model_validate({"run": run, "task": {**task, "spark": spark, **fields}, "try_number": 2})
    workplace = Workplace(home=home, dags_folder=Path("/dags"))
    try:
        return cast(SparkStart, ActivityEnvironment().run(SparkStart.of, attempt, workplace))
    finally:
        workplace.forks.close()


class Recorded:
    """A cluster's tool that answers what was recorded; keeps what it was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = [*answers]
        self.asked: list[list[str]] = []

    def __call__(self, argv: Sequence[str]) -> str:
        self.asked.append([*argv])
        return self.answers.pop(0)


def conf_of(argv: list[str]) -> dict[str, str]:
    """What the properties file of the command line says; nobody else may read that file."""
    path = Path(argv[argv.index("--properties-file") + 1])
    assert path.stat().st_mode & 0o777 == 0o600
    assert "--conf" not in argv
    pairs = [line.replace("\\:", ":").replace("\\=", "\0").partition("=") for line in path.read_text().splitlines()]
    return {key: value.replace("\0", "=") for key, _, value in pairs}


def test_the_command_line_on_yarn(tmp_path: Path) -> None:
    work = start(tmp_path, YARN, env={"REGION": "eu"})
    argv, tag = spark_submit(work), work.attempt.uuid.hex
    flags = " ".join(argv[1:11])
    assert flags.startswith("--master yarn --deploy-mode cluster --name sales.load scheduled__2024-01-01")
    assert "--num-executors 4" in " ".join(argv)
    assert "--queue etl" in " ".join(argv)
    conf = conf_of(argv)
    assert conf["spark.yarn.tags"] == f"tidemill-{tag}"
    assert conf["spark.yarn.maxAppAttempts"] == "1"
    assert conf["spark.yarn.submit.waitAppCompletion"] == "false"
    assert conf["spark.yarn.appMasterEnv.REGION"] == "eu"
    assert conf["spark.tidemill.data_interval_end"] == "2024-01-02T00:00:00+00:00"
    assert argv[-2:] == ["/dags/load.py", "2024-01-01"]


def test_the_command_line_on_kubernetes(tmp_path: Path) -> None:
    work = start(tmp_path, KUBERNETES, env={"REGION": "eu"})
    conf = conf_of(spark_submit(work))
    assert conf["spark.kubernetes.driver.pod.name"] == f"tidemill-{work.attempt.uuid.hex}"
    assert conf["spark.kubernetes.namespace"] == "pipelines"
    assert conf["spark.kubernetes.submission.waitAppCompletion"] == "false"
    assert conf["spark.kubernetes.driverEnv.REGION"] == "eu"


def test_another_try_has_another_identity_and_the_same_try_the_same(tmp_path: Path) -> None:
    one, again = start(tmp_path, YARN).attempt, start(tmp_path, KUBERNETES).attempt
    assert one.uuid == again.uuid
    assert one.model_copy(update={"try_number": 3}).uuid != one.uuid
    assert one.model_copy(update={"map_index": 1}).uuid != one.uuid


LISTED = """Total number of applications (application-types: [], states: [ALL] and tags: [tidemill-x]):1
                Application-Id\t    Application-Name\t    Application-Type\t      User\t     Queue\t             State
application_1700000000000_0042\tsales.load\tSPARK\thadoop\tetl\tRUNNING\tUNDEFINED\t10%\thttp://node:4040
"""
STATUS = "Application Report : \n\tApplication-Id : {id}\n\tState : {state}\n\tFinal-State : {final}\n\tQueue : etl\n"


def test_yarn_is_asked_by_tag_and_by_id(tmp_path: Path) -> None:
    work = start(tmp_path, YARN)
    run = Recorded("Total number of applications :0\n", LISTED)
    yarn = Yarn(work, lambda: "Submitted application application_1700000000000_0042", run)
    assert yarn.find() is None
    assert yarn.submit() == yarn.find() == "application_1700000000000_0042"
    listing = ["yarn", "application", "-list", "-appStates", "ALL", "-appTags"]
    assert run.asked[0] == [*listing, f"tidemill-{work.attempt.uuid.hex}"]


@pytest.mark.parametrize(
    ("state", "final", "life", "succeeded"),
    [
        ("ACCEPTED", "UNDEFINED", Life.WAITING, False),
        ("RUNNING", "UNDEFINED", Life.RUNNING, False),
        ("FINISHED", "SUCCEEDED", Life.ENDED, True),
        ("FINISHED", "FAILED", Life.ENDED, False),
        ("KILLED", "KILLED", Life.ENDED, False),
    ],
)
def test_what_yarn_says_of_an_application(tmp_path: Path, state: str, final: str, life: Life, succeeded: bool) -> None:
    run = Recorded(STATUS.format(id="application_1_1", state=state, final=final), "")
    yarn = Yarn(start(tmp_path, YARN), lambda: "", run)
    status = yarn.status("application_1_1")
    assert (status.life, status.succeeded) == (life, succeeded)
    yarn.kill("application_1_1")
    assert run.asked == [
        ["yarn", "application", "-status", "application_1_1"],
        ["yarn", "application", "-kill", "application_1_1"],
    ]


@pytest.mark.parametrize(
    ("phase", "life", "succeeded"),
    [
        ("Pending", Life.WAITING, False),
        ("Running", Life.RUNNING, False),
        ("Succeeded", Life.ENDED, True),
        ("Failed", Life.ENDED, False),
    ],
)
def test_what_kubernetes_says_of_a_pod(tmp_path: Path, phase: str, life: Life, succeeded: bool) -> None:
    work = start(tmp_path, KUBERNETES)
    pod = f"tidemill-{work.attempt.uuid.hex}"
    run = Recorded("", f"pod/{pod}\n", json.dumps({"status": {"phase": phase}}), "", "")
    kubernetes = Kubernetes(work, lambda: "", run)
    assert (kubernetes.find(), kubernetes.find()) == (None, pod)
    status = kubernetes.status(pod)
    assert (status.life, status.succeeded) == (life, succeeded)
    assert kubernetes.status(pod).life is Life.UNKNOWN
    kubernetes.kill(pod)
    kubectl = ["kubectl", "--server", "https://10.0.0.1:6443", "--namespace", "pipelines"]
    assert run.asked[0] == [*kubectl, "get", "pod", pod, "--ignore-not-found", "--output", "name"]
    assert run.asked[-1] == [*kubectl, "delete", "pod", pod, "--ignore-not-found", "--wait=false"]


def test_a_pod_that_is_there_already_is_the_attempts_own(tmp_path: Path) -> None:
    def launch() -> str:
        raise OSError('pods "tidemill-x" already exists: AlreadyExists')

    work = start(tmp_path, KUBERNETES)
    assert Kubernetes(work, launch, Recorded()).submit() == f"tidemill-{work.attempt.uuid.hex}"
