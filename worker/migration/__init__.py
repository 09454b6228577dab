"""Moving from an Airflow to tidemill: what its DAG files need, and what its metadata database knows."""
