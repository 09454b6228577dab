"""What is done with DAG files without a service: run, checked, brought over from Airflow."""
