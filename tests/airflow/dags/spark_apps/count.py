"""Counts rows."""

import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print("counted", spark.range(int(sys.argv[1])).count(), sys.argv[2])
spark.stop()
