"""Asks for a table that is not there."""

from pyspark.sql import SparkSession

SparkSession.builder.getOrCreate().sql("select * from nowhere").collect()
