"""Asks Spark, notes its session in a file, waits until another is there, and asks again unless told otherwise."""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

asked, go, last = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
session = SparkSession.builder.getOrCreate()
session.range(10).collect()
with asked.open("a") as notes:
    notes.write(f"{session.client._session_id}\n")
while not go.exists():
    time.sleep(0.1)
if last == "asks":
    print(session.range(20).count())
