"""A file that cannot be imported."""

from airflow.sdk import DAG

raise RuntimeError(f"no {DAG.__name__} here")
