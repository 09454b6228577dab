"""An Airflow DAG of Spark jobs; of the file that it was, only the lines that import have changed.

`spark-submit` with its lists as texts, the provider's connection, SQL from a file, and a function with a session.
"""

from datetime import datetime
from tempfile import gettempdir

from tidemill import DAG, SparkSqlOperator, SparkSubmitOperator, task

FOLDER = f"{gettempdir()}/ported_spark"

with DAG(
    dag_id="ported_spark",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    tags=["ported"],
    default_args={"owner": "lake", "retries": 0},
) as dag:
    prepare = SparkSubmitOperator(
        task_id="prepare",
        conn_id="spark_default",
        application="spark_apps/prepare.py",
        name="prepare-{{ ds }}",
        application_args=["--day", "{{ ds }}", "--folder", "{{ params.folder }}"],
        py_files="spark_apps/words.py",
        files="spark_apps/prepare.py,spark_apps/words.py",
        conf={"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"},
        driver_memory="1g",
        verbose=False,
        status_poll_interval=1,
        params={"folder": FOLDER},
    )
    counted = SparkSqlOperator(
        task_id="counted",
        conn_id="spark_default",
        sql="sql/words.sql",
        master="local[2]",
        verbose=False,
        params={"folder": FOLDER},
    )

    @task.pyspark(conn_id="spark_default")
    def check(spark, rows):
        spark.createDataFrame([(row["word"], row["n"]) for row in rows], "word string, n long").show()
        return sum(row["n"] for row in rows)

    prepare >> counted
    check(counted.output)
