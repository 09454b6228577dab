"""The Kubeflow Spark operator: what its SparkApplication says, what it refuses, and an operator that is away or ends.

What holds of every mode is in test_spark_modes.py and test_spark_kills.py.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes_cluster import RESOURCE, KubernetesCluster, SparkOperator
from spark_clusters import ON_DAY, rows, told, writing
from spark_starts import KUBERNETES, start
from support import Stack, dag, eventually, stack
from temporalio.exceptions import ApplicationError
from tidemill.activities.spark import kubernetes as kubernetes_module
from tidemill.activities.spark import spark_operator as operator_module
from tidemill.activities.spark.causes import is_refusal
from tidemill.activities.spark.clusters import AppState
from tidemill.activities.spark.starts import SparkStart, cluster_name
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.tasks import SparkOptions
from tidemill.model.states import RunState

BY_OPERATOR = {**KUBERNETES, "submit_with": "spark-operator"}
DAY = TriggerRequest.model_validate(ON_DAY)


class Api:
    """What `kubectl` finds and changes; every SparkApplication that is made gets the *status* of an operator."""

    def __init__(self, status: dict[str, Any] | None = None) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.status = status or {}

    def __call__(self, argv: Sequence[str], given: str | None = None) -> str:
        words = [*argv][[*argv].index("--namespace") + 2 :]
        match words:
            case ["get", kind, name, *_]:
                found = self.objects.get((kind, name))
                return "" if found is None else json.dumps(found)
            case ["create", *_]:
                content = json.loads(given or "")
                kind = RESOURCE if content["kind"] == "SparkApplication" else content["kind"].lower()
                content["metadata"]["uid"] = f"uid of {kind}"
                more = {"status": self.status} if kind == RESOURCE else {}
                self.objects[kind, content["metadata"]["name"]] = {**content, **more}
                return json.dumps(content)
            case ["replace", *_]:
                content = json.loads(given or "")
                self.objects[content["kind"].lower(), content["metadata"]["name"]] |= content
                return ""
            case ["logs", *_]:
                return ""
            case ["delete", kind, name, *_]:
                self.objects.pop((kind, name), None)
                return ""
        raise AssertionError(words)

    def put(self, kind: str, name: str, **content: Any) -> None:
        self.objects[kind, name] = {"metadata": {"name": name, "uid": "uid"}, **content}


def begun(home: Path, api: Api, **fields: Any) -> tuple[SparkStart, operator_module.SparkOperator]:
    (home / "dags").mkdir(exist_ok=True)
    (home / "dags" / "load.py").write_text("print('loads')")
    fields.setdefault("application", str(home / "dags" / "load.py"))
    work = start(home, {**BY_OPERATOR, **fields.pop("spark", {})}, **fields)
    return work, operator_module.SparkOperator(work, lambda: "", api)


def test_the_spark_application_has_all_that_spark_submit_would_be_given(tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "executor.yaml").write_text("spec: {nodeSelector: {disk: fast}}\n")
    spark = {
        "driver_memory": "2g",
        "executor_memory": "4g",
        "num_executors": 3,
        "jars": ["local:///jars/a.jar"],
        "packages": ["org.example:lib:1.0"],
        "proxy_user": "ada",
        "conf": {
            "spark.kubernetes.container.image": "image",
            "spark.kubernetes.executor.podTemplateFile": str(tmp_path / "dags" / "executor.yaml"),
        },
    }
    api = Api({"applicationState": {"state": "SUBMITTED"}})
    work, operator = begun(tmp_path, api, spark=spark, env={"REGION": "eu"})
    assert operator.submit() == cluster_name(work)
    made = api.objects[RESOURCE, cluster_name(work)]
    assert made["metadata"]["ownerReferences"][0]["kind"] == "ConfigMap"
    assert made["metadata"]["annotations"]["tidemill/dag_id"] == "sales"
    spec = made["spec"]
    assert spec["type"] == "Python"
    assert spec["mainApplicationFile"] == "local:///opt/tidemill/driver.py"
    assert spec["arguments"][-1] == "2024-01-01"
    assert spec["restartPolicy"] == {"type": "Never"}
    assert spec["proxyUser"] == "ada"
    assert spec["deps"] == {"jars": ["local:///jars/a.jar"], "packages": ["org.example:lib:1.0"]}
    assert spec["driver"]["podName"] == cluster_name(work)
    assert spec["driver"]["memory"] == "2048m"
    assert spec["driver"]["template"]["spec"]["volumes"][0]["configMap"]["name"] == cluster_name(work)
    assert "ownerReferences" not in spec["driver"]["template"].get("metadata", {}), "the operator says whose it is"
    assert spec["executor"]["instances"] == 3
    assert spec["executor"]["template"]["spec"]["nodeSelector"] == {"disk": "fast"}
    assert spec["sparkConf"]["spark.kubernetes.driverEnv.REGION"] == "eu"
    assert spec["sparkConf"]["spark.tidemill.attempt"] == work.attempt.uuid.hex
    assert not {key for key in spec["sparkConf"] if key.endswith("podTemplateFile")}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"spark": {"jars": ["a.jar"]}}, "jars: 'a.jar'"),
        ({"spark": {"py_files": ["/home/a.zip"]}}, "py_files: '/home/a.zip'"),
        ({"spark": {"properties_file": "spark.conf"}}, "properties_file"),
        ({"spark": {"keytab": "a.keytab", "principal": "a"}}, "principal"),
        ({"application": "job.jar"}, "application: 'job.jar'"),
        ({"spark": {"conf": {"spark.hadoop.fs.s3a.secret.key": "x"}}}, "spark.hadoop.fs.s3a.secret.key"),
        ({"spark": {"conf": {"spark.kubernetes.driverEnv.DB_PASSWORD": "x"}}}, "driverEnv.DB_PASSWORD"),
        ({"spark": {"conf": {"spark.kubernetes.authenticate.driver.oauthToken": "x"}}}, "oauthToken"),
        ({"env": {"API_TOKEN": "x"}}, "driverEnv.API_TOKEN"),
        ({"spark": {"conf": {"spark.kubernetes.driver.podTemplateContainerName": "mine"}}}, "mine"),
        ({"spark": {"conf": {"spark.kubernetes.executor.podTemplateContainerName": "mine"}}}, "mine"),
    ],
)
def test_what_stays_on_the_worker_is_refused_with_its_name(tmp_path: Path, fields: dict[str, Any], named: str) -> None:
    api = Api()
    _, operator = begun(tmp_path, api, **fields)
    with pytest.raises(ApplicationError) as raised:
        operator.submit()
    assert named in str(raised.value)
    assert raised.value.non_retryable
    assert api.objects == {}, "nothing has begun"


def test_a_value_of_a_secret_that_the_cluster_gives_is_no_secret(tmp_path: Path) -> None:
    conf = {
        "spark.kubernetes.driver.secretKeyRef.PASSWORD": "secret:key",
        "spark.kubernetes.driver.secrets.a-secret": "/mnt",
        "spark.kubernetes.authenticate.driver.mounted.oauthTokenFile": "/token",
    }
    _, operator = begun(tmp_path, Api({"applicationState": {"state": "SUBMITTED"}}), spark={"conf": conf})
    operator.submit()


@pytest.mark.parametrize("master", ["local[2]", "yarn", "spark://h:7077"])
def test_the_operator_is_on_kubernetes_only(master: str) -> None:
    with pytest.raises(ValueError, match=r"submit_with 'spark-operator' needs master k8s://"):
        SparkOptions(master=master, submit_with="spark-operator")


def test_a_submission_that_failed_is_the_operators_sentence_and_is_removed(tmp_path: Path) -> None:
    why = 'failed to run spark-submit: 26/11/28 WARN x\nMessage: pods "x" is forbidden: no right.'
    api = Api({"applicationState": {"state": "SUBMISSION_FAILED", "errorMessage": why}})
    work, operator = begun(tmp_path, api)
    with pytest.raises(OSError, match=r'^pods "x" is forbidden: no right\.$'):
        operator.submit()
    assert (RESOURCE, cluster_name(work)) not in api.objects
    assert operator.find() is None


def test_a_pod_that_an_operator_has_left_half_made_is_removed_and_submitted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was ended in the midst; the next one says that the name is taken."""
    monkeypatch.setattr(kubernetes_module, "SUBMISSION_TIMEOUT", 0.1)
    taken = {"applicationState": {"state": "FAILED", "errorMessage": "driver pod already exist"}}
    api = Api(taken)
    work, operator = begun(tmp_path, api)
    volumes = {"volumes": [{"configMap": {"name": "what-was-not-made"}}]}
    api.put("pod", cluster_name(work), status={"phase": "Pending"}, spec=volumes)
    with pytest.raises(OSError, match="already exist"):
        operator.submit()
    assert ("pod", cluster_name(work)) not in api.objects
    assert operator.find() is None, "it is asked for again"
    api.put("pod", cluster_name(work), status={"phase": "Running"}, spec={})
    assert operator.submit() == cluster_name(work), "one that was made whole is the attempt's"


def test_a_pod_that_is_gone_is_not_asked_for_again(tmp_path: Path) -> None:
    """It has run, and may have written: the try is lost."""
    gone = {"applicationState": {"state": "FAILED", "errorMessage": "driver pod not found"}, "executionAttempts": 1}
    work, operator = begun(tmp_path, Api(gone))
    operator.submit()
    assert operator.find() == cluster_name(work)
    status = operator.status(cluster_name(work))
    assert status.life is AppState.UNKNOWN
    assert status.message == "there is no such pod, and its SparkApplication is FAILED: driver pod not found"


@pytest.mark.parametrize("why", ["driver pod already exist", "no rights"])
def test_a_driver_that_runs_though_its_submission_is_said_to_have_failed_goes_on(tmp_path: Path, why: str) -> None:
    """The operator was ended before its note, or had a conflict with another's."""
    api = Api({"applicationState": {"state": "FAILED", "errorMessage": why}})
    work, operator = begun(tmp_path, api)
    api.put(RESOURCE, cluster_name(work), status=api.status)
    api.put("pod", cluster_name(work), status={"phase": "Running"}, spec={})
    assert operator.find() == cluster_name(work)
    assert (RESOURCE, cluster_name(work)) in api.objects
    del api.objects["pod", cluster_name(work)]
    assert operator.find() == (cluster_name(work) if "exist" in why else None), "what has run may have written"


def test_an_application_that_is_suspended_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_module, "HOLDS_SLOT_FOR", 0.0)
    _, operator = begun(tmp_path, Api({"applicationState": {"state": "SUSPENDED"}}))
    with pytest.raises(OSError, match=r"Spark operator of namespace pipelines: it is SUSPENDED, and somebody has to"):
        operator.submit()
    assert operator.find() is None


def test_a_second_driver_of_the_same_name_is_not_taken_for_the_first(tmp_path: Path) -> None:
    """Somebody has had the operator submit it again."""
    api = Api()
    work, operator = begun(tmp_path, api)
    api.put("pod", cluster_name(work), status={"phase": "Running"}, spec={})
    assert operator.status(cluster_name(work)).life is AppState.RUNNING
    api.objects["pod", cluster_name(work)]["metadata"]["uid"] = "another"
    _, follower = begun(tmp_path, api)
    assert follower.status(cluster_name(work)).life is AppState.UNKNOWN, "nor by the next worker of this host"
    _, ender = begun(tmp_path, api)
    ender.give_up()
    assert ender.status(cluster_name(work)).life is AppState.RUNNING, "whoever ends it waits for any"
    del api.objects["pod", cluster_name(work)]
    api.put(RESOURCE, cluster_name(work), status={"applicationState": {"state": "SUSPENDED"}})
    assert follower.find() == cluster_name(work), "it has begun: it is not waited for as one that has not"


def test_what_is_given_up_while_it_is_asked_for_leaves_nothing(tmp_path: Path) -> None:
    api = Api()
    work, operator = begun(tmp_path, api)
    _, another = begun(tmp_path, api)

    def create(argv: Sequence[str], given: str | None = None) -> str:
        if "SparkApplication" in (given or ""):
            another.give_up()
        return api(argv, given)

    operator = operator_module.SparkOperator(work, lambda: "", create)
    with pytest.raises(ApplicationError, match="the attempt was given up"):
        operator.submit()
    assert (RESOURCE, cluster_name(work)) not in api.objects


def test_the_driver_among_other_containers_is_the_one_that_the_operator_takes(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("spec: {containers: [{name: sidecar}, {name: spark-kubernetes-driver}]}\n")
    conf = {"spark.kubernetes.driver.podTemplateFile": str(tmp_path / "pod.yaml")}
    api = Api({"applicationState": {"state": "SUBMITTED"}})
    work, operator = begun(tmp_path, api, spark={"conf": conf})
    operator.submit()
    pod = api.objects[RESOURCE, cluster_name(work)]["spec"]["driver"]["template"]
    assert [[*one] for one in pod["spec"]["containers"]] == [["name"], ["name", "volumeMounts"]]


NO_OPERATOR = 'kubectl failed: error: the server doesn\'t have a resource type "sparkapplications"'
NO_KIND = 'kubectl failed: error: resource mapping not found: no matches for kind "SparkApplication"'
NO_RIGHTS = "kubectl failed: Error from server (Forbidden): sparkapplications is forbidden: User cannot create"


@pytest.mark.parametrize(
    ("asked", "made", "told"),
    [
        (NO_OPERATOR, NO_KIND, "this cluster has none. Install it"),
        (
            NO_RIGHTS,
            NO_RIGHTS,
            "this worker may make no SparkApplication. Give it the rights in deploy/kubernetes/spark",
        ),
    ],
)
def test_a_cluster_without_the_operator_or_without_rights_is_said_once(
    tmp_path: Path, asked: str, made: str, told: str
) -> None:
    """What is refused has nothing there to be ended: the try fails with this alone."""
    api = Api()

    def refusing(argv: Sequence[str], given: str | None = None) -> str:
        if RESOURCE in argv or "SparkApplication" in (given or ""):
            raise OSError(made if "create" in argv else asked)
        return api(argv, given)

    work, _ = begun(tmp_path, api)
    operator = operator_module.SparkOperator(work, lambda: "", refusing)
    assert operator.find() is None
    with pytest.raises(OSError, match=f"submit_with 'spark-operator': {told}") as raised:
        operator.submit()
    assert is_refusal(str(raised.value))
    assert operator.give_up()
    assert operator.find() is None
    operator.kill(cluster_name(work))


def test_without_rights_a_later_start_does_not_know_what_an_earlier_one_has_made(tmp_path: Path) -> None:
    api = Api()

    def refusing(argv: Sequence[str], given: str | None = None) -> str:
        if RESOURCE in argv:
            raise OSError(NO_RIGHTS)
        return api(argv, given)

    work, _ = begun(tmp_path, api)
    later = operator_module.SparkOperator(replace(work, number=2), lambda: "", refusing)
    with pytest.raises(OSError, match="is forbidden"):
        later.find()
    with pytest.raises(OSError, match="is forbidden"):
        later.give_up()


@pytest.fixture
async def spark(server: str, spark_home: Path, operator: SparkOperator) -> Any:
    async with stack(server, spark_home) as made:
        yield made
    if operator.process is None:  # of a test that has failed while it was away
        await asyncio.to_thread(operator.start)


@pytest.mark.spark
@pytest.mark.thorough
async def test_a_refusal_is_the_apis_sentence_and_leaves_nothing(
    spark: Stack, operator: SparkOperator, kubernetes: KubernetesCluster
) -> None:
    options = operator.options(spark.home.resolve())
    options["conf"]["spark.kubernetes.authenticate.driver.serviceAccountName"] = "nosuch"
    sql = {"kind": "spark_sql", "task_id": "ask", "sql": "SELECT 1", "spark": options}
    before = kubernetes.names(RESOURCE)
    details = await spark.run_once(dag("operator_refused", [sql]), **ON_DAY)
    failure = details.tasks[0].attempts[0].failure
    assert failure is not None
    assert failure.error_type == "SparkSubmitRefused"
    assert "error looking up service account team-a/nosuch" in failure.message
    assert kubernetes.names(RESOURCE) == before


@pytest.mark.spark
@pytest.mark.thorough
async def test_an_operator_that_is_away_and_one_that_is_killed_make_one_driver(
    spark: Stack, operator: SparkOperator, kubernetes: KubernetesCluster, tmp_path: Path
) -> None:
    dag_id = "operator_away"
    operator.stop()
    await spark.tidemill.dags.register(writing(dag_id, operator.options(spark.home.resolve()), tmp_path))
    run = await spark.tidemill.runs.trigger(dag_id, DAY)
    await eventually(
        lambda: spark.tidemill.runs.describe(dag_id, run.run_id),
        lambda found: "waits for the Spark operator" in str((found.tasks[0].progress or {}).get("cluster")),
    )
    await asyncio.to_thread(operator.start)
    await eventually(lambda: asyncio.to_thread(kubernetes.pods, dag_id), bool)
    operator.stop()  # before it has noted that it has submitted
    await asyncio.to_thread(operator.start)
    details = await spark.finished(dag_id, run.run_id)
    assert details.state is RunState.SUCCESS, told(details)
    assert rows(tmp_path) == 40
    [pod] = kubernetes.pods(dag_id)
    kubernetes.kubectl("delete", RESOURCE, pod)
    await eventually(lambda: asyncio.to_thread(kubernetes.pods, dag_id), lambda left: not left)
    await eventually(lambda: asyncio.to_thread(kubernetes.names, "configmap"), lambda left: pod not in left)


@pytest.mark.spark
@pytest.mark.thorough
async def test_what_is_cancelled_before_the_operator_has_it_never_begins(
    spark: Stack, operator: SparkOperator, kubernetes: KubernetesCluster, tmp_path: Path
) -> None:
    dag_id = "operator_cancelled"
    before = kubernetes.names(RESOURCE)
    operator.stop()
    await spark.tidemill.dags.register(writing(dag_id, operator.options(spark.home.resolve()), tmp_path))
    run = await spark.tidemill.runs.trigger(dag_id, DAY)
    seen = await eventually(
        lambda: spark.tidemill.runs.describe(dag_id, run.run_id),
        lambda found: "waits for the Spark operator" in str((found.tasks[0].progress or {}).get("cluster")),
    )
    await spark.tidemill.client.get_workflow_handle(seen.run.workflow_id).cancel()
    await spark.finished(dag_id, run.run_id)
    assert kubernetes.names(RESOURCE) == before
    await asyncio.to_thread(operator.start)
    after = writing("operator_after", operator.options(spark.home.resolve()), tmp_path)
    assert (await spark.run_once(after, **ON_DAY)).state is RunState.SUCCESS, "by now it has all that there is"
    assert kubernetes.pods(dag_id) == []
