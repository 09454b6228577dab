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

    @task.spark_sql(**SPARK)
    def named(ds=None):
        return f"select 'numbers' as name, '{ds}' as day"

    @task
    def keep(found, name, rows=None, params=None):
        Path(params["lake"]).mkdir(exist_ok=True)
        Path(params["lake"], "results.json").write_text(json.dumps({**found, "rows": rows, "named": name[0]["name"]}))

    if SPARK.get("master", "").startswith("sc:"):  # a driver of its own for each would take long
        counted = spark_sql("counted", "counted.sql", **SPARK)
        of_sql = spark_sql("of_sql", "select id from range(7)", output="{{ params.lake }}/of_sql", **SPARK)
        of_sql >> keep(doubled(10), named(), counted.output)
    else:
        keep(doubled(10), named())
