"""Spark options: what is refused before anything runs, and what connections and tasks come to together."""

from typing import Any

import pytest
from support import dag
from tidemill.activities.secrets import Connection
from tidemill.activities.spark.modes import MODES
from tidemill.activities.spark.place import of_connection
from tidemill.model.errors import InvalidInputError
from tidemill.model.spec.tasks import SparkMode, SparkOptions


def spark_dag(**spark: Any) -> Any:
    task = {"kind": "spark_submit", "task_id": "load", "application": "load.py", "spark": spark}
    return dag("options", [task])


@pytest.mark.parametrize(
    ("spark", "told"),
    [
        ({"master": "spak://host:7077"}, "none that Spark knows"),
        ({"master": "local[2]", "deploy_mode": "cluster"}, "needs a cluster"),
        ({"driver_memory": "lots"}, "'lots' is no size of memory"),
        ({"conf": {"sql.shuffle.partitions": 4}}, "Write 'spark.sql.shuffle.partitions'"),
        ({"packages": ["org.apache.iceberg"]}, "group:artifact:version"),
        ({"master": "sc://host:15002", "driver_memory": "2g"}, "driver_memory: a Connect server has that set"),
        ({"executors": 3}, "no such field"),
        ({"conf": {"spark.submit.deployMode": "cluster"}}, "Set deploy_mode instead"),
        ({"conf": {"spark.master": "yarn"}}, "Set master instead"),
    ],
)
def test_options_that_cannot_work_are_refused_at_registration(spark: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told.replace("(", r"\(")) as refused:
        spark_dag(**spark)
    assert "task 'load'" in str(refused.value)


def test_a_java_application_is_refused_where_nobody_could_tell_how_it_went() -> None:
    options = {"master": "spark://host:7077", "deploy_mode": "cluster"}
    task = {"kind": "spark_submit", "task_id": "load", "application": "a.jar", "spark": options}
    with pytest.raises(InvalidInputError, match="cannot be run in mode standalone-cluster"):
        dag("java", [task])


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, SparkMode.CLIENT),
        ({"master": "local[4]"}, SparkMode.CLIENT),
        ({"master": "yarn", "deploy_mode": "client"}, SparkMode.CLIENT),
        ({"master": "spark://h:7077", "deploy_mode": "cluster"}, SparkMode.STANDALONE),
        ({"master": "yarn", "deploy_mode": "cluster"}, SparkMode.YARN),
        ({"master": "k8s://https://h:6443", "deploy_mode": "cluster"}, SparkMode.KUBERNETES),
        ({"master": "sc://h:15002"}, SparkMode.CONNECT),
    ],
)
def test_the_master_and_the_deploy_mode_say_where_it_runs(options: dict[str, Any], mode: SparkMode) -> None:
    assert SparkOptions.model_validate(options).mode is mode
    assert mode in MODES


def test_a_task_says_more_than_its_connection() -> None:
    connection = SparkOptions(master="yarn", deploy_mode="cluster", driver_memory="4g", conf={"spark.a": "1"})
    merged = SparkOptions(driver_memory="8g", conf={"spark.b": True}).over(connection)
    assert merged.model_dump() == {
        "master": "yarn",
        "deploy_mode": "cluster",
        "driver_memory": "8g",
        "conf": {"spark.a": "1", "spark.b": True},
    }


def test_a_task_that_sizes_its_driver_also_runs_where_that_is_set_already() -> None:
    mine = SparkOptions(driver_memory="8g", yarn_queue="etl", namespace="jobs", conf={"spark.a": "1"})
    merged = mine.over(SparkOptions(master="sc://h:15002"))
    assert merged.model_dump() == {"master": "sc://h:15002", "conf": {"spark.a": "1"}}


@pytest.mark.parametrize("field", ["py_files", "jars", "packages", "proxy_user", "keytab", "properties_file"])
def test_code_and_who_one_is_are_not_passed_over_on_a_connect_server(field: str) -> None:
    value: Any = {"packages": ["a:b:1"], "py_files": ["a.zip"], "jars": ["a.jar"]}.get(field, "etl")
    with pytest.raises(ValueError, match=f"{field}: a Connect server has that set"):
        SparkOptions.model_validate({field: value}).over(SparkOptions(master="sc://h:15002"))


def test_an_airflow_connection_says_all_that_it_says() -> None:
    extra = '{"deploy-mode": "cluster", "properties-file": "/etc/spark/jobs.conf"}'
    options = of_connection(Connection.read("s", f'{{"conn_type": "yarn", "extra": {extra}}}'))
    assert options.properties_file == "/etc/spark/jobs.conf"


def test_memory_of_a_driver_includes_what_spark_adds() -> None:
    assert SparkOptions(driver_memory="1g").driver_megabytes == 1024 + 384
    assert SparkOptions(driver_memory="10g").driver_megabytes == 10240 + 1024
    assert SparkOptions(conf={"spark.driver.memory": "512m"}).driver_megabytes == 512 + 384
