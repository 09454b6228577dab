"""The files that a Spark task names: what spark-submit is given for them, and what is refused before Spark begins."""

from pathlib import Path
from typing import Any

import pytest
from spark_starts import KUBERNETES, YARN, conf_of, start
from support import dag
from temporalio.exceptions import ApplicationError
from tidemill.activities.bundles.files import referenced
from tidemill.activities.spark.command import spark_submit
from tidemill.activities.spark.kubernetes import LARGEST
from tidemill.activities.spark.shipping import application_there, archive
from tidemill.activities.spark.standalone import Standalone
from tidemill.worker.local.validation import check_path

LOCAL: dict[str, Any] = {"master": "local[2]"}
STANDALONE = {"master": "spark://h:7077", "deploy_mode": "cluster"}
IMAGE = {"spark.kubernetes.container.image": "registry.example/tidemill:1"}


@pytest.mark.parametrize("options", [LOCAL, YARN, KUBERNETES])
@pytest.mark.parametrize("jar", ["local:///opt/spark/examples.jar", "s3a://b/x.jar", "hdfs:///apps/x.jar"])
def test_a_jar_may_be_a_url(tmp_path: Path, options: dict[str, Any], jar: str) -> None:
    assert spark_submit(start(tmp_path, options, application=jar, java_class="a.B"))[-2] == jar


@pytest.mark.parametrize("options", [LOCAL, STANDALONE])
def test_a_script_is_a_file_of_the_drivers_host(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "there.py").touch()
    for name in (f"local://{tmp_path}/there.py", f"file://{tmp_path}/there.py", f"{tmp_path}/there.py"):
        assert spark_submit(start(tmp_path, options, application=name))[-2] == f"{tmp_path}/there.py"


@pytest.mark.parametrize("options", [LOCAL, STANDALONE])
def test_a_script_that_is_on_no_disk_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ApplicationError, match=r"'s3a://b/x.py' is not on a disk.* as local:///path/there.py"):
        spark_submit(start(tmp_path, options, application="s3a://b/x.py"))


def test_a_key_in_a_connection_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = '{"conn_type": "yarn", "extra": {"deploy-mode": "cluster", "principal": "a@B", "keytab": "Zm9v"}}'
    monkeypatch.setenv("AIRFLOW_CONN_KEYED", connection)
    with pytest.raises(ApplicationError, match="Name its file as keytab of the task"):
        start(tmp_path, {"conn_id": "keyed"})
    assert start(tmp_path, {"conn_id": "keyed", "keytab": "/etc/etl.keytab"}).options.principal == "a@B"


@pytest.mark.parametrize("name", ["job#1.py", "v1:job.py"])
def test_a_file_that_is_there_may_have_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert spark_submit(start(tmp_path, LOCAL, application=str(tmp_path / name)))[-2] == str(tmp_path / name)


@pytest.mark.parametrize("options", [YARN, KUBERNETES])
def test_a_container_is_sent_a_file_and_knows_those_of_its_image(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "mine.py").write_text("print(1)")
    sent = start(tmp_path, options, application=f"file://{tmp_path}/mine.py")
    assert application_there(sent)[0] == f"{sent.driver_folder}/application/mine.py"
    assert application_there(start(tmp_path, options, application="local:///opt/x.py"))[0] == "/opt/x.py"
    with pytest.raises(ApplicationError, match="is not on a disk"):
        archive(start(tmp_path, options, application="hdfs:///apps/x.py"), LARGEST)


@pytest.mark.parametrize("fields", [{"application": "nope.py"}, {"application": "nope.jar", "java_class": "a.B"}])
def test_an_application_that_is_not_there_ends_the_task_before_spark_begins(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    with pytest.raises(ApplicationError, match=r"application: 'nope\.\w+' is not at /dags/nope.* beside the DAG file"):
        spark_submit(start(tmp_path, LOCAL, **fields))


@pytest.mark.parametrize("options", [LOCAL, STANDALONE, YARN, KUBERNETES])
def test_a_file_of_properties_that_is_not_there_is_named(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ApplicationError, match=r"properties_file: 'no/such.conf' cannot be read at /dags/no/such.conf"):
        spark_submit(start(tmp_path, {**options, "properties_file": "no/such.conf"}, application="local:///x.py"))


@pytest.mark.parametrize(("options", "line"), [
    (KUBERNETES, "spark.kubernetes.namespace=jobs"),
    (KUBERNETES, "  spark.kubernetes.driver.podTemplateFile  pod.yaml"),
    (YARN, "spark.yarn.tags: mine"),
])  # fmt: skip
def test_what_is_read_from_conf_is_not_passed_over_in_a_file(
    tmp_path: Path, options: dict[str, Any], line: str
) -> None:
    (tmp_path / "my.conf").write_text(f"spark.a=1\n{line}\n")
    with pytest.raises(ApplicationError, match=r"properties_file: spark\.\S+ is read from conf only. Set it there"):
        spark_submit(start(tmp_path, {**options, "properties_file": str(tmp_path / "my.conf")}))


def test_a_namespace_counts_in_client_mode_too(tmp_path: Path) -> None:
    options = {"master": "k8s://https://h:6443", "namespace": "jobs", "conf": IMAGE}
    conf = conf_of(spark_submit(start(tmp_path, options, application="local:///x.py", java_class="a.B")))
    assert conf["spark.kubernetes.namespace"] == "jobs"


def test_what_the_master_starts_a_driver_with(tmp_path: Path) -> None:
    """Spark takes a memory of 2048 for bytes there, and its driver's JVM runs before its own spark-submit is read."""
    options = {**STANDALONE, "driver_memory": "2048", "driver_class_path": "/opt/x.jar:/opt/y.jar"}
    asked = Standalone(start(tmp_path, options, application="/opt/x.py", env={"REGION": "eu"})).request()
    assert asked["sparkProperties"]["spark.driver.memory"] == "2048m"
    assert asked["sparkProperties"]["spark.driver.extraClassPath"] == "/opt/x.jar:/opt/y.jar"
    told = asked["environmentVariables"]
    assert (told["REGION"], told["AIRFLOW_CTX_DAG_ID"], told["AIRFLOW_CTX_TASK_ID"]) == ("eu", "sales", "load")


@pytest.mark.parametrize(("options", "prefix"), [
    (YARN, "spark.yarn.appMasterEnv."), (KUBERNETES, "spark.kubernetes.driverEnv."),
])  # fmt: skip
def test_a_container_is_told_whom_it_runs_for(tmp_path: Path, options: dict[str, Any], prefix: str) -> None:
    conf = conf_of(spark_submit(start(tmp_path, options, application="local:///x.py")))
    assert conf[f"{prefix}AIRFLOW_CTX_DAG_ID"] == "sales"


def test_the_version_of_a_dag_has_all_files_that_its_tasks_name(tmp_path: Path) -> None:
    """But for keys: versions are kept for long, and read by the tasks of others."""
    options = {
        "py_files": ["a.zip"], "archives": ["env.tar.gz#environment"], "files": ["b.txt"], "jars": ["c.jar"],
        "driver_class_path": "d.jar:e.jar", "properties_file": "f.conf",
        "conf": {"spark.kubernetes.driver.podTemplateFile": "h.yaml"},
    }  # fmt: skip
    options["keytab"] = "g.keytab"
    task = {"kind": "spark_submit", "task_id": "t", "application": "main.py", "spark": options}
    wanted = {"a.zip", "env.tar.gz", "b.txt", "c.jar", "d.jar", "e.jar", "f.conf", "h.yaml", "main.py"}
    (tmp_path / "team").mkdir()
    for name in (*wanted, "g.keytab"):
        (tmp_path / "team" / name).touch()
    assert referenced([dag("d", [task])], tmp_path, "team/dag.py") == {f"team/{name}" for name in wanted}


MISSING = """
from tidemill import DAG, SparkPipelinesOperator, spark_sql, spark_submit
with DAG("d", template_searchpath="more"):
    spark_submit("gone", "apps/no.py", jars=["no.jar", "https://host/x.jar", "/opt/x.jar", "lib/*.jar"])
    spark_submit("there", "apps/yes.py", py_files=["{{ ds }}.py"], archives=["env.tar.gz#env"])
    spark_sql("found", "in_more.sql")
    spark_sql("lost", "totals.sql")
    spark_sql("text", "select 1")
    SparkPipelinesOperator("pipeline")
"""


def test_files_that_are_not_there_are_said_at_validation(tmp_path: Path) -> None:
    (tmp_path / "dag.py").write_text(MISSING)
    for name in ("apps/yes.py", "env.tar.gz", "more/in_more.sql"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [notice.notice.partition(" is not in ")[0] for notice in check_path(tmp_path / "dag.py").notices]
    assert found == [
        "DAG 'd', task 'gone': application: 'apps/no.py'",
        "DAG 'd', task 'gone': jars: 'no.jar'",
        "DAG 'd', task 'lost': sql: 'totals.sql'",
        "DAG 'd', task 'pipeline': pipeline_spec: 'spark-pipeline.yml'",
    ]


def test_a_name_that_cannot_be_looked_at_breaks_no_file(tmp_path: Path) -> None:
    task = f"spark_submit('t', 'x.py', jars=['{'x' * 300}.jar'])"
    (tmp_path / "dag.py").write_text(f"from tidemill import DAG, spark_submit\nwith DAG('d'):\n    {task}\n")
    found = check_path(tmp_path / "dag.py")
    assert [notice.notice.partition(" is not in ")[0] for notice in found.notices] == [
        "DAG 'd', task 't': application: 'x.py'"
    ]
    assert not found.errors
