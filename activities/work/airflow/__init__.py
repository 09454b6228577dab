"""What a child does that has imported Airflow: reads its DAG files, runs their tasks by Airflow's own Task SDK."""
