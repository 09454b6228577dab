"""Writes the rows of a day to the output that it is given, and notes which attempt has begun, and which has written."""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
day, rows, notes = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
attempt = spark.conf.get("spark.tidemill.attempt")


def note(what: str) -> None:
    with (notes / day).open("a") as file:
        file.write(f"{what} {attempt}\n")


note("begun")
numbers = spark.range(rows).selectExpr("id", f"date'{day}' as day", f"id * day(date'{day}') as amount")
numbers.write.mode("append").parquet(spark.conf.get("spark.tidemill.output"))
time.sleep(1)
note("written")
spark.stop()
