"""How a DAG file is written: Airflow's words, building what `model.dag` holds."""
