"""One day's flights, as they were recorded, into the day's partition of `flights`."""

import argparse
import json
import shutil
import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

SCHEMA = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, "
    "sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, "
    "air_time int, distance int, hour int, minute int, time_hour timestamp"
)


def unpacked(archive: Path, folder: Path) -> Path:
    """The CSV file inside *archive*, unpacked once; several runs may ask at the same time."""
    target = folder / "flights.csv"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with (
            zipfile.ZipFile(archive) as zipped,
            zipped.open("flights.csv") as packed,
            tempfile.NamedTemporaryFile(dir=folder, delete=False) as whole,
        ):
            shutil.copyfileobj(packed, whole)
        Path(whole.name).replace(target)
    return target


parser = argparse.ArgumentParser()
parser.add_argument("--day", required=True)
parser.add_argument("--lake", required=True, type=Path)
parser.add_argument("--data", required=True, type=Path)
options = parser.parse_args()

spark = SparkSession.builder.getOrCreate()
source = unpacked(options.data / "flights.csv.zip", options.lake / "raw")
year, month, day = (int(part) for part in options.day.split("-"))
flights = spark.read.csv(str(source), header=True, schema=SCHEMA, nullValue="NA")
of_day = flights.where((F.col("year") == year) & (F.col("month") == month) & (F.col("day") == day))
output = spark.conf.get("spark.tidemill.output")
of_day.coalesce(1).write.mode("overwrite").parquet(output)

count = spark.read.parquet(output).count()
Path(spark.conf.get("spark.tidemill.result")).write_text(json.dumps({"flights": count}))
spark.stop()
