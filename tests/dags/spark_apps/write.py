"""Writes numbers to the folder that it is given, slowly if it is told to; and notes that it was at work."""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
n, seconds, notes = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
attempt = spark.conf.get("spark.tidemill.attempt")
with notes.open("a") as file:
    file.write(f"begun {attempt}\n")
end = time.monotonic() + seconds
while time.monotonic() < end:
    spark.range(1000).selectExpr("sum(id)").collect()
    time.sleep(0.2)
spark.range(n).write.mode("append").parquet(spark.conf.get("spark.tidemill.output"))
with notes.open("a") as file:
    file.write(f"written {attempt}\n")
spark.stop()
