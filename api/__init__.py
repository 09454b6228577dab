"""The web: Airflow's REST API and user interface on tidemill. Knows Temporal only by `worker.client`."""
