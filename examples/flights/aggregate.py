"""One day's departures per carrier and airport, into the day's partition of `delays`."""

import argparse
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

parser = argparse.ArgumentParser()
parser.add_argument("--day", required=True)
parser.add_argument("--lake", required=True, type=Path)
options = parser.parse_args()

spark = SparkSession.builder.getOrCreate()
clean = spark.read.parquet(str(options.lake / "clean" / f"day={options.day}"))
delays = clean.groupBy("carrier", "origin").agg(
    F.count("*").alias("flights"),
    F.sum(F.when(~F.col("cancelled"), 1).otherwise(0)).alias("flown"),
    F.coalesce(F.sum("dep_delay"), F.lit(0.0)).alias("delay_minutes"),
    F.round(F.avg("wind_speed"), 2).alias("wind_speed"),
)
delays.orderBy("carrier", "origin").coalesce(1).write.mode("overwrite").json(spark.conf.get("spark.tidemill.output"))
spark.stop()
