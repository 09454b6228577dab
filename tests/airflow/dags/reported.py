"""What people have reported of Airflow and its kin, one DAG each: what a task is given is written to a file."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

from airflow.providers.standard.operators.python import PythonOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.providers.standard.sensors.external_task import ExternalTaskSensor
from airflow.sdk import DAG, Asset, Param, task, task_group

OUT = Path(os.environ.get("TEST_OUT", "/tmp"))
STARTS = datetime(2026, 1, 1)


def note(name, value):
    with (OUT / name).open("a") as file:
        file.write(json.dumps(value, sort_keys=True) + "\n")


def told(context):
    ti, run = context["ti"], context["dag_run"]
    of_run = [run.state.value, run.start_date > run.run_after]
    note(f"{ti.dag_id}.told", [ti.task_id, ti.map_index, ti.try_number, str(ti.state), context["reason"], *of_run])


with DAG("kwargs_of_results", schedule=None, start_date=STARTS):

    @task
    def rows():
        return [{"a": 1, "b": 2}, {"a": 3, "b": 4}]

    @task
    def pair(a, b):
        note("pair", [a, b])

    @task_group
    def both(a, b):
        pair.override(task_id="in_group")(a, b)

    found = rows()
    pair.expand_kwargs(found)
    pair.override(task_id="changed").expand_kwargs(found.map(lambda row: {"a": row["b"], "b": row["a"]}))
    PythonOperator.partial(task_id="classic", python_callable=lambda a, b: note("pair", [a, b])).expand_kwargs(
        found.map(lambda row: {"op_kwargs": row})
    )
    both.expand_kwargs(found)

with DAG("values_in_groups", schedule=None, start_date=STARTS):

    @task
    def take(name, value):
        note(name, value)
        return value

    @task_group
    def of_two(value):
        first = take.override(task_id="first")("first", value)
        return take.override(task_id="second")("second", first)

    take.override(task_id="after")("after", of_two.expand(value=[["a", "b"], [4], ["z"]]))

with DAG("pushed_before_a_failure", schedule=None, start_date=STARTS):

    @task
    def load(ti=None):
        ti.xcom_push("rejected", [f"row {n:06d}" for n in range(200)])
        for n in range(12):
            ti.xcom_push(f"k{n:02d}", n)
        raise ValueError("200 rows were rejected")

    @task(trigger_rule="all_done")
    def report(ti=None):
        rejected = ti.xcom_pull(task_ids="load", key="rejected")
        note(
            "report", [len(rejected), rejected[-1], [ti.xcom_pull(task_ids="load", key=f"k{n:02d}") for n in range(12)]]
        )

    load() >> report()

with DAG("failed_in_its_middle", schedule=None, start_date=STARTS, on_failure_callback=told):

    @task(retries=1, retry_delay=timedelta(milliseconds=10))
    def broken():
        raise ValueError("broken")

    @task
    def other(n=0):
        return n

    other.override(task_id="a")() >> broken() >> other.override(task_id="z_last")()

with DAG("failed_in_one_index", schedule=None, start_date=STARTS, on_failure_callback=told):

    @task
    def third(n):
        if n == 1:
            raise ValueError("the second")

    third.expand(n=[0, 1, 2])
    other.override(task_id="fine")()

with DAG("succeeded", schedule=None, start_date=STARTS, on_success_callback=told):
    other.override(task_id="only")()

with DAG("no_number", schedule=None, start_date=STARTS):

    @task
    def returns():
        return {"nan": float("nan")}

    @task
    def pushes(ti=None):
        ti.xcom_push("x", float("inf"))

    returns(), pushes()

with DAG("conf_of_the_run_before", schedule=None, start_date=STARTS):

    @task
    def cursor(ti=None, dag_run=None):
        before = ti.get_previous_dagrun()
        note("cursor", [(run.conf, run.triggering_user_name) for run in (before, dag_run) if run is not None])

    cursor()

with DAG(
    "formats",
    schedule=None,
    start_date=STARTS,
    params={
        "day": Param("2026-01-01", type="string", format="date"),
        "at": Param("2026-01-01T00:00:00+00:00", type="string", format="date-time"),
        "for": Param("PT1H", type="string", format="duration"),
    },
):
    other.override(task_id="only")()

with DAG("slow", schedule=None, start_date=STARTS, max_active_runs=1):

    @task
    def waits_for_a_file():
        import time

        while not (OUT / "go_on").exists():
            time.sleep(0.1)

    waits_for_a_file()

with DAG("waits_for_a_queued_run", schedule=None, start_date=STARTS):
    about = {"external_dag_id": "slow", "external_task_id": "waits_for_a_file", "poke_interval": 1, "timeout": 300}
    ExternalTaskSensor(task_id="rescheduled", mode="reschedule", **about)
    ExternalTaskSensor(task_id="deferred", deferrable=True, **about)

with DAG("writes_by_reference", schedule=None, start_date=STARTS):
    other.override(task_id="writes", outlets=[Asset.ref(name="by_reference")])()

with DAG("woken_by_reference", schedule=[Asset("by_reference", uri="file:///by/reference")], start_date=STARTS):
    other.override(task_id="only")()

with DAG("starts_a_run_that_is_there", schedule=None, start_date=STARTS):
    TriggerDagRunOperator(task_id="starts", trigger_dag_id="succeeded", trigger_run_id="taken")

with DAG("pushes_daily", schedule=None, start_date=STARTS):

    @task
    def push(dag_run):
        return dag_run.run_id

    push()

with DAG("pulls_the_latest_of_another", schedule=None, start_date=STARTS):

    @task
    def pull(ti):
        note("pulled", ti.xcom_pull(dag_id="pushes_daily", task_ids="push", include_prior_dates=True))
        try:
            input("who waits for an answer?")
        except EOFError:
            note("pulled", "nobody answers")

    pull()
