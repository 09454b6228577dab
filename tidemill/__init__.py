"""Airflow's contract, Temporal's guarantees."""
