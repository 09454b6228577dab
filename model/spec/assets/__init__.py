"""Data that tasks write and DAGs wait for: assets, conditions over them, and partitions (Airflow: assets)."""
