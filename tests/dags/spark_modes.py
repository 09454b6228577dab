"""Functions and SQL on a Spark that the environment names."""

import json
import os
from pathlib import Path

from tidemill import DAG, spark_sql, task

SPARK = json.loads(os.environ.get("MODES_SPARK", "{}"))
DAG_ID = os.environ.get("MODES_DAG_ID", "modes")
LAKE = os.environ.get("MODES_LAKE", "lake")


def twice(value):
    return 2 * value


with DAG(DAG_ID, heartbeat_timeout=4, max_active_tasks=2, params={"lake": LAKE}) as dag:

    @task.pyspark(env={"MODES_DAG_ID": DAG_ID}, **SPARK)
    def doubled(spark, n, ds=None):
        from pyspark.sql.functions import udf

        rows = spark.range(n).select(udf(twice, "long")("id").alias("x")).collect()
        return {"doubled": sum(row.x for row in rows), "day": ds}

    counted = spark_sql("counted", "counted.sql", **SPARK)
    of_sql = spark_sql("of_sql", "select id from range(7)", output="{{ params.lake }}/of_sql", **SPARK)

    @task.spark_sql(**SPARK)
    def named(ds=None):
        return f"select 'numbers' as name, '{ds}' as day"

    @task
    def keep(found, rows, name, params=None):
        Path(params["lake"], "results.json").write_text(json.dumps({**found, "rows": rows, "named": name[0]["name"]}))

    of_sql >> keep(doubled(10), counted.output, named())
