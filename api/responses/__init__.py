"""What is answered: the fields of Airflow's REST API, in its order. A field without a source here is null."""
