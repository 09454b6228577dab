"""Writes to the output that it is given, if it is given one; then asks for a table that is not there."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
if output := spark.conf.get("spark.tidemill.output", None):
    spark.range(3).write.parquet(output)
spark.sql("select * from nowhere").collect()
