"""The web: Airflow's REST API and user interface on tidemill. Asks Temporal by `worker.client`."""
