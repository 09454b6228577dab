"""What Airflow's own users write: read and run as it is."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Asset, Connection, Param, TaskGroup, Variable, dag, task
from airflow.sdk.exceptions import AirflowFailException

OUT = Path(os.environ.get("TEST_OUT", "/tmp"))
AT_THE_TOP = Variable.get("greeting", default="nobody said")


def note(name, text="once"):
    with (OUT / name).open("a") as file:
        file.write(f"{text}\n")


def on_success(context):
    note("dag_success", f"{context['dag_run'].run_id} {context['ti'].dag_id} {context['ds']} {context['reason']}")


def breaks(context):
    raise ValueError("a callback that is broken stops no other")


with DAG(
    "classic",
    schedule="0 6 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=1), "owner": "data"},
    params={"word": Param("hello", type="string", description="What is said")},
    tags=["b", "a"],
    max_active_runs=3,
    on_success_callback=[breaks, on_success],
    doc_md="# Classic",
) as classic:
    begin = EmptyOperator(task_id="begin")
    said = BashOperator(
        task_id="say",
        bash_command="echo {{ params.word }} {{ ds }} {{ var.value.greeting }} {{ conn.store.password }}",
        env={"SECRET": "in the file only"},
        append_env=True,
    )
    with TaskGroup("middle", tooltip="two of them"):
        heard = PythonOperator(
            task_id="hear",
            python_callable=lambda text: text.upper(),
            op_args=[said.output],
            outlets=[Asset("heard", uri="file:///heard")],
            pool="small",
            priority_weight=5,
        )
        last = EmptyOperator(task_id="last", trigger_rule="all_done")
    begin >> said >> heard >> last


@dag(schedule=None, dag_id="taskflow")
def taskflow():
    @task
    def numbers():
        return [1, 2, 3]

    @task
    def doubled(n, plus):
        return 2 * n + plus

    @task
    def total(values):
        return sum(values)

    @task.branch
    def choose(value):
        return "large" if value > 10 else "small"

    @task
    def large():
        return "large"

    @task
    def small():
        return "small"

    @task
    def when():
        return {"at": datetime(2026, 1, 1, tzinfo=timezone.utc), "of": {1, 2}}

    @task
    def year(found):
        return found["at"].year + len(found["of"])

    chosen = choose(total(doubled.partial(plus=1).expand(n=numbers().map(lambda n: n + 1))))
    chosen >> [large(), small()]
    year(when())


taskflow()


with DAG("failing", schedule=None):

    def retried(context):
        note("retried", str(context["ti"].try_number))

    def failed(context):
        note("failed", type(context["exception"]).__name__)

    @task(retries=2, retry_delay=timedelta(milliseconds=100), on_retry_callback=retried, on_failure_callback=failed)
    def twice(ti=None):
        ti.xcom_push(key="tried", value=ti.try_number)
        raise ValueError(f"try {ti.try_number}")

    @task(retries=5, on_failure_callback=failed)
    def for_good():
        raise AirflowFailException("no other try")

    @task
    def exits():
        os._exit(7)

    @task
    def opens_a_session():
        from airflow import settings

        settings.Session()

    twice()
    for_good()
    exits()
    opens_a_session()


@dag(schedule=None, dag_id="keeping")
def keeping():
    @task
    def writes():
        Variable.set("written", {"by": "a task"}, serialize_json=True)
        return Connection.get("store").host

    @task
    def reads(host, task_state_store=None, ti=None):
        task_state_store.set("position", 7)
        return [Variable.get("written", deserialize_json=True)["by"], host, task_state_store.get("position")]

    reads(writes())


keeping()


@dag(schedule=None, dag_id="long")
def long():
    @task(execution_timeout=timedelta(seconds=1))
    def too_long():
        import time

        time.sleep(60)

    BashOperator(task_id="sleeps", bash_command=f"echo begun >> {OUT}/begun; exec sleep 600")
    too_long()


long()
