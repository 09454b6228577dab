"""Spark as Airflow's users submit it, with the operators of its provider."""

from airflow.providers.apache.spark.operators.spark_sql import SparkSqlOperator
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

with DAG("spark_jobs", schedule=None, params={"rows": 3}):
    submit = SparkSubmitOperator(
        task_id="submit",
        application="spark_apps/count.py",
        application_args=["{{ params.rows }}", "{{ ds }}"],
        conf={"spark.ui.enabled": "false"},
        driver_memory="512m",
        name="rows-of-{{ ds }}",
        verbose=True,
        retries=1,
    )
    submit >> SparkSqlOperator(task_id="sql", sql="SELECT 1 AS one")
    SparkSubmitOperator(task_id="as_it_is", application="spark_apps/count.py", on_failure_callback=print)
    SparkSubmitOperator(task_id="other_binary", application="spark_apps/count.py", spark_binary="spark3-submit")
