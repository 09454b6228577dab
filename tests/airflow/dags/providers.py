"""Operators and hooks of Airflow's providers, with real servers."""

from __future__ import annotations

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.amazon.aws.operators.s3 import S3CreateObjectOperator
from airflow.providers.amazon.aws.sensors.s3 import S3KeySensor
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.providers.http.operators.http import HttpOperator
from airflow.providers.smtp.operators.smtp import EmailOperator
from airflow.sdk import DAG, task

with DAG("http_provider", schedule=None):
    asked = HttpOperator(
        task_id="asks", http_conn_id="web", endpoint="/hello", method="GET", response_filter=lambda r: r.json()["said"]
    )
    deferred = HttpOperator(task_id="defers", http_conn_id="web", endpoint="/slow", method="GET", deferrable=True)

    @task
    def both(one, other):
        return [one, other]

    both(asked.output, deferred.output)

with DAG("sql_provider", schedule=None):
    made = SQLExecuteQueryOperator(
        task_id="makes", conn_id="rows", sql=["CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (1), (2)"]
    )
    read = SQLExecuteQueryOperator(task_id="reads", conn_id="rows", sql="SELECT SUM(n) FROM t WHERE n < {{ 10 }}")
    made >> read

with DAG("postgres_provider", schedule=None):
    made = SQLExecuteQueryOperator(
        task_id="makes", conn_id="base", sql=["CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (1), (2)"]
    )
    read = SQLExecuteQueryOperator(task_id="reads", conn_id="base", sql="SELECT SUM(n) FROM t WHERE n < {{ 10 }}")
    made >> read

with DAG("mail_provider", schedule=None):
    EmailOperator(
        task_id="tells",
        conn_id="post",
        from_email="dags@example.com",
        to="data@example.com",
        subject="{{ run_id }}",
        html_content="<p>It is there</p>",
    )

with DAG("s3_provider", schedule=None):
    write = S3CreateObjectOperator(
        task_id="writes", aws_conn_id="lake", s3_bucket="lake", s3_key="{{ dag.dag_id }}/rows.csv", data="1,2\n"
    )
    wait = S3KeySensor(
        task_id="waits",
        aws_conn_id="lake",
        bucket_key="s3://lake/s3_provider/rows.csv",
        poke_interval=1,
        deferrable=True,
    )

    @task
    def listed():
        return S3Hook("lake").list_keys("lake", prefix="s3_provider/")

    write >> wait >> listed()

with DAG("kubernetes_provider", schedule=None):
    KubernetesPodOperator(
        task_id="pod", name="pod", image="busybox", cmds=["echo"], arguments=["{{ ds }}"], deferrable=True
    )
