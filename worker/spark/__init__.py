"""Spark beside a worker: the Connect server that it keeps, and the tries that have used Spark."""
