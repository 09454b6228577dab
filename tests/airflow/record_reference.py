"""Writes down what the real Airflow gives for each template, and which arguments its operators have.

A DAG file of apache-airflow 3.3.2 with the standard and apache-spark providers. In its folder of DAGs, with the
environment that SETTINGS says and REFERENCE as the path to write to:

    airflow db migrate && airflow dags reserialize
    airflow dags test templates 2026-01-02 --conf '{"key": "of the conf"}'

The tests read what it wrote; they need no Airflow.
"""

import importlib
import inspect
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, BaseSensorOperator, Param, TaskGroup, get_current_context, task

TEMPLATES = [
    "{{ ds }}", "{{ ds_nodash }}", "{{ ts }}", "{{ ts_nodash }}", "{{ ts_nodash_with_tz }}", "{{ logical_date }}",
    "{{ data_interval_start }}", "{{ data_interval_end }}", "{{ prev_data_interval_start_success }}",
    "{{ prev_data_interval_end_success }}", "{{ prev_start_date_success is none }}", "{{ inlets }}", "{{ outlets }}",
    "{{ prev_end_date_success is none }}", "{{ run_id }}", "{{ test_mode is defined }}", "{{ task_instance_key_str }}",
    "{{ params.number }}", "{{ params['text'] }}", "{{ expanded_ti_count }}", "{{ map_index_template }}",
    "{{ dag.dag_id }}", "{{ dag.tags | sort | join(',') }}", "{{ dag.description }}", "{{ dag.start_date }}",
    "{{ dag.catchup }}", "{{ dag.max_active_runs }}", "{{ dag.owner }}",
    "{{ dag_run.run_id }}", "{{ dag_run.run_type }}", "{{ dag_run.logical_date }}", "{{ dag_run.conf.key }}",
    "{{ dag_run.data_interval_start }}", "{{ dag_run.data_interval_end }}", "{{ dag_run.dag_id }}",
    "{{ dag_run.start_date is none }}", "{{ dag_run.run_after is none }}", "{{ dag_run.state }}",
    "{{ task.task_id }}", "{{ task.owner }}", "{{ task.retries }}", "{{ task.queue }}", "{{ task.pool }}",
    "{{ task.trigger_rule }}", "{{ task.dag_id }}",
    "{{ ti.task_id }}", "{{ ti.dag_id }}", "{{ ti.run_id }}", "{{ ti.try_number }}", "{{ ti.max_tries }}",
    "{{ ti.map_index }}", "{{ ti.hostname is none }}", "{{ ti.start_date is none }}", "{{ ti.state }}",
    "{{ ti.log_url is none }}", "{{ ti.xcom_pull(task_ids='first') }}", "{{ ti.xcom_pull('first')['number'] }}",
    "{{ ti.xcom_pull(['first', 'none']) }}", "{{ ti.xcom_pull('first', key='pushed') }}",
    "{{ ti.xcom_pull(task_ids='none', default='x') }}", "{{ task_instance.task_id }}", "{{ try_number }}",
    "{{ macros.ds_add('2026-01-31', 1) }}", "{{ macros.ds_add(ds, -7) }}",
    "{{ macros.ds_format('2026-01-31', '%Y-%m-%d', '%d.%m.%y') }}", "{{ macros.timedelta(days=2) }}",
    "{{ macros.datetime(2026, 1, 2) }}", "{{ macros.dateutil.parser.parse('2026-01-02') }}",
    "{{ macros.time.strptime('2026', '%Y').tm_year }}", "{{ macros.uuid.UUID(int=7) }}", "{{ macros.random() < 1 }}",
    "{{ macros.json.dumps({'a': 1}) }}", "{{ macros.dateutil.relativedelta.relativedelta(months=1) }}",
    "{{ macros.datetime_diff_for_humans(data_interval_start, data_interval_end) }}",
    "{{ macros.ds_format_locale('2026-01-31', '%Y-%m-%d', 'd. MMMM yyyy', 'en_US') }}",
    "{{ logical_date | ds }}", "{{ logical_date | ds_nodash }}", "{{ logical_date | ts }}",
    "{{ logical_date | ts_nodash }}", "{{ logical_date | ts_nodash_with_tz }}", "{{ data_interval_end | ds }}",
    "{{ logical_date.format('dddd') }}", "{{ logical_date.add(days=1) | ds }}", "{{ logical_date.int_timestamp }}",
    "{{ var.value.get('missing', 'fallback') }}", "{{ var.value.plain }}", "{{ var.json.document.a.b }}",
    "{{ conn.store.host }}", "{{ conn.store.login }}", "{{ conn.store.schema }}", "{{ conn.store.port }}",
    "{{ conn.store.conn_type }}", "{{ conn.store.extra_dejson.region }}", "{{ conn.store.conn_id }}",
    "{{ conn.store.get_uri() }}", "{{ conn.store.password | length }}", "{{ execution_date }}", "{{ prev_ds }}",
    "{{ next_ds }}", "{{ yesterday_ds }}", "{{ tomorrow_ds }}", "{{ conf }}", "{{ reason }}", "{{ exception }}",
    "{{ templates_dict }}", "{{ task_reschedule_count }}", "{{ triggering_asset_events }}",
]  # fmt: skip
STANDARD = "airflow.providers.standard"
OPERATORS = {
    "BaseOperator": BaseOperator,
    "BaseSensorOperator": BaseSensorOperator,
    "DAG": DAG,
    "TaskGroup": TaskGroup,
    "Param": Param,
    "EmptyOperator": f"{STANDARD}.operators.empty",
    "BashOperator": f"{STANDARD}.operators.bash",
    "PythonOperator": f"{STANDARD}.operators.python",
    "BranchPythonOperator": f"{STANDARD}.operators.python",
    "ShortCircuitOperator": f"{STANDARD}.operators.python",
    "PythonVirtualenvOperator": f"{STANDARD}.operators.python",
    "ExternalPythonOperator": f"{STANDARD}.operators.python",
    "LatestOnlyOperator": f"{STANDARD}.operators.latest_only",
    "TriggerDagRunOperator": f"{STANDARD}.operators.trigger_dagrun",
    "PythonSensor": f"{STANDARD}.sensors.python",
    "BashSensor": f"{STANDARD}.sensors.bash",
    "FileSensor": f"{STANDARD}.sensors.filesystem",
    "ExternalTaskSensor": f"{STANDARD}.sensors.external_task",
    "DateTimeSensor": f"{STANDARD}.sensors.date_time",
    "TimeSensor": f"{STANDARD}.sensors.time",
    "TimeDeltaSensor": f"{STANDARD}.sensors.time_delta",
    "SparkSubmitOperator": "airflow.providers.apache.spark.operators.spark_submit",
    "SparkSqlOperator": "airflow.providers.apache.spark.operators.spark_sql",
}
SETTINGS = {
    "AIRFLOW_VAR_PLAIN": "a value",
    "AIRFLOW_VAR_DOCUMENT": '{"a": {"b": 3}}',
    "AIRFLOW_CONN_STORE": "postgres://me:s%20ecret@db.example:5432/sales?region=eu",
}


def class_of(name: str, place: Any) -> Any:
    return getattr(importlib.import_module(place), name) if isinstance(place, str) else place


def arguments() -> dict[str, list[str]]:
    """The arguments of each class that it has itself, or that classes below BaseOperator give it."""
    found = {}
    for name, place in OPERATORS.items():
        made_by, names = class_of(name, place), set()
        for cls in made_by.__mro__:
            if cls in (BaseOperator, BaseSensorOperator) and cls is not made_by:
                break
            init = vars(cls).get("__init__")
            if init is not None:
                names |= set(inspect.signature(init).parameters)
        found[name] = sorted(names - {"self", "kwargs", "args"})
    return found


with DAG(
    "templates", schedule="@daily", start_date=datetime(2026, 1, 1), tags=["b", "a"], description="what it is",
    params={"number": 5, "text": Param("x", type="string")}, catchup=False, max_active_runs=3,
    default_args={"owner": "me"},
):  # fmt: skip

    @task
    def first(ti: Any = None) -> dict[str, int]:
        ti.xcom_push(key="pushed", value=8)
        return {"number": 7}

    @task(retries=2)
    def second() -> None:
        context, given = get_current_context(), {}
        for template in TEMPLATES:
            try:
                given[template] = {"text": context["task"].render_template(template, context)}
            except Exception as error:
                given[template] = {"error": f"{type(error).__name__}: {error}"}
        content = {"templates": given, "arguments": arguments(), "settings": SETTINGS}
        Path(os.environ["REFERENCE"]).write_text(json.dumps(content, indent=1, default=str) + "\n")

    first() >> second()
