"""A pool: slots that tasks of any run and any DAG share."""
