"""Counts to a number and tells what it was told of its run."""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
how, n = sys.argv[1], int(sys.argv[2])
if how == "python_error":
    [][n]
if how == "sql_error":
    spark.sql("select nothing from nowhere")
if how == "udf_error":
    from pyspark.sql.functions import udf

    spark.range(10).select(udf(lambda x: 1 // (x - 5))("id")).collect()
if how == "slow":
    spark.sparkContext.setJobDescription("being slow")
    spark.sparkContext.parallelize(range(n), n).foreach(lambda _: time.sleep(1))
if how == "stubborn":
    while True:
        try:
            time.sleep(1)
        except BaseException:
            continue
told = {key: value for key, value in spark.sparkContext.getConf().getAll() if key.startswith("spark.tidemill.")}
answer = {"sum": spark.range(n).selectExpr("sum(id)").first()[0], "args": sys.argv[1:], "told": told}
Path(spark.conf.get("spark.tidemill.result")).write_text(json.dumps(answer))
spark.stop()
