"""A PySpark function beside a plain one that uses its result."""

from tidemill import DAG, task

with DAG("sparkling", heartbeat_timeout=4) as dag:

    @task.pyspark(master="local[2]", driver_memory="1g")
    def rows(spark, n, ds=None):
        return {"n": spark.range(n).count(), "ds": ds}

    @task
    def double(found):
        return found["n"] * 2

    double(rows(21))
