"""Writes words as a Parquet table."""

import argparse

from pyspark.sql import SparkSession
from words import WORDS

parser = argparse.ArgumentParser()
parser.add_argument("--day")
parser.add_argument("--folder")
given = parser.parse_args()
session = SparkSession.builder.getOrCreate()
rows = [(given.day, word) for word in WORDS]
session.createDataFrame(rows, "day string, word string").write.mode("overwrite").parquet(f"{given.folder}/{given.day}")
session.stop()
