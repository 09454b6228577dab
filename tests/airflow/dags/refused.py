"""What is refused, or cannot be kept, is raised in the task that asked for it."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Connection, Param, Variable, task
from airflow.sdk.exceptions import AirflowSkipException

STARTS = datetime(2026, 1, 1)

with DAG("takes_a_number", schedule=None, start_date=STARTS, params={"n": Param(1, type="integer")}):

    @task
    def nothing():
        pass

    nothing()

with DAG("refused_triggers", schedule=None, start_date=STARTS):
    WAITS = {"wait_for_completion": True, "poke_interval": 1}
    TriggerDagRunOperator(task_id="gone", trigger_dag_id="no_such_dag")
    TriggerDagRunOperator(task_id="conf", trigger_dag_id="takes_a_number", conf={"n": "not a number"})
    TriggerDagRunOperator(task_id="infinite", trigger_dag_id="takes_a_number", conf={"n": float("inf")})
    TriggerDagRunOperator(task_id="wait", trigger_dag_id="no_such_dag", **WAITS)
    TriggerDagRunOperator(task_id="defer", trigger_dag_id="no_such_dag", deferrable=True, **WAITS)
    TriggerDagRunOperator.partial(task_id="mapped", trigger_dag_id="takes_a_number").expand(conf=[{"n": "x"}])

with DAG("refused_values", schedule=None, start_date=STARTS):

    @task
    def large():
        Variable.set("large", "x" * 2_000_000)

    @task
    def named():
        Variable.set("ü" * 100, "v")

    @task
    def broken():
        return Variable.get("broken", default="D")

    @task
    def broken_in_template(value):
        return value

    @task
    def unreadable():
        return Connection.get("unreadable")

    @task
    def state(task_state_store):
        task_state_store.set("large", "x" * 2_000_000)

    large()
    named()
    broken()
    broken_in_template("{{ var.value.get('broken', 'D') }}")
    unreadable()
    state()

with DAG("undecodable", schedule=None, start_date=STARTS):
    NAME = os.fsdecode(b"caf\xe9.csv")

    def counted(what):
        with Path(os.environ["TEST_OUT"], what).open("a") as file:
            file.write("x")

    @task
    def raises():
        counted("raises")
        raise ValueError(f"cannot read {NAME}")

    @task
    def skips():
        counted("skips")
        raise AirflowSkipException(f"no {NAME}")

    @task
    def returns():
        counted("returns")
        return [NAME]

    @task
    def pushes(ti):
        counted("pushes")
        ti.xcom_push("k", {NAME: 1})

    raises(), skips(), returns(), pushes()

with DAG("sets_a_cursor", schedule=None, start_date=STARTS, params={"to": "", "delete": False}):

    @task
    def move(params):
        if params["to"]:
            Variable.set("cursor", params["to"], description="the last day")
        elif params["delete"]:
            Variable.delete("cursor")
        return Variable.get("cursor", default=None)

    move()
