"""Refused as a whole: work of tidemill's own, called by its name."""

from tidemill import DAG, TemporalActivityOperator

with DAG("c_uses"):
    TemporalActivityOperator(
        task_id="stops_b",
        activity="tidemill.tell_dags",
        queue="tidemill-files",
        args=[{"states": {"b_stock": {"bundle": "team_b", "is_stale": True}}}],
    )
