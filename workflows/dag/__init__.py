"""The durable life of a DAG."""
