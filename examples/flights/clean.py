"""One day's flights with the weather of their hour, into the day's partition of `clean`."""

import argparse
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

WEATHER = (
    "origin string, year int, month int, day int, hour int, temp double, dewp double, humid double, wind_dir int, "
    "wind_speed double, wind_gust double, precip double, pressure double, visib double, time_hour timestamp"
)

parser = argparse.ArgumentParser()
parser.add_argument("--day", required=True)
parser.add_argument("--lake", required=True, type=Path)
parser.add_argument("--data", required=True, type=Path)
options = parser.parse_args()

spark = SparkSession.builder.getOrCreate()
flights = spark.read.parquet(str(options.lake / "flights" / f"day={options.day}"))
weather = spark.read.csv(str(options.data / "weather.csv"), header=True, schema=WEATHER, nullValue="NA").select(
    "origin", "year", "month", "day", "hour", "temp", "wind_speed", "precip", "visib"
)
# A left join: a day without weather (31 December has none) keeps its flights.
joined = flights.join(weather.dropDuplicates(["origin", "year", "month", "day", "hour"]),
                      ["origin", "year", "month", "day", "hour"], "left")  # fmt: skip
clean = joined.select(
    "origin",
    "dest",
    "carrier",
    "flight",
    F.col("dep_time").isNull().alias("cancelled"),
    F.col("dep_delay").cast("double").alias("dep_delay"),
    "temp",
    "wind_speed",
    "precip",
    "visib",
)
clean.coalesce(1).write.mode("overwrite").parquet(spark.conf.get("spark.tidemill.output"))
spark.stop()
