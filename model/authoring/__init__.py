"""How a DAG file is written: Airflow's words, building what `model.spec` holds."""
