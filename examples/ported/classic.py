"""An Airflow DAG of the classic kind; of the file that it was, only the lines that import have changed.

Operators, default_args, callbacks, macros, a sensor, an operator of its own and a branch. It needs the variable
`landing_folder` and the connection `warehouse`, whose extra names a `folder`.
"""

from datetime import datetime, timedelta
from pathlib import Path

from tidemill import (
    DAG,
    BaseHook,
    BaseOperator,
    BashOperator,
    BranchPythonOperator,
    EmptyOperator,
    FileSensor,
    PythonOperator,
)

LANDING = "{{ var.value.landing_folder }}"


def tell_of_failure(context):
    print(f"{context['task_instance_key_str']} has failed: {context['ti'].log_url}")


default_args = {
    "owner": "sales",
    "depends_on_past": False,
    "email": ["sales@example.com"],
    "email_on_failure": True,
    "email_on_retry": False,
    "retries": 2,
    "retry_delay": timedelta(seconds=1),
    "on_failure_callback": tell_of_failure,
}


class WarehouseHook(BaseHook):
    """Says where the warehouse is."""

    def __init__(self, conn_id="warehouse"):
        super().__init__()
        self.conn_id = conn_id

    def folder(self):
        return Path(self.get_connection(self.conn_id).extra_dejson["folder"])


class AppendOperator(BaseOperator):
    """Appends text to a file of the warehouse."""

    template_fields = ("text", "table")
    template_ext = (".txt",)
    ui_color = "#e8f7e4"

    def __init__(self, *, table, text, conn_id="warehouse", **kwargs):
        super().__init__(**kwargs)
        self.table = table
        self.text = text
        self.conn_id = conn_id

    def execute(self, context):
        folder = WarehouseHook(self.conn_id).folder()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.table
        self.log.info("appending to %s for %s", path, context["ds"])
        with path.open("a") as file:
            file.write(self.text)
        return str(path)


def weekday_or_weekend(**context):
    return "weekend" if context["logical_date"].weekday() >= 5 else "weekday"


def report(ti, ds, **_):
    return {"day": ds, "rows": ti.xcom_pull(task_ids="count"), "written": ti.xcom_pull(task_ids="append")}


with DAG(
    dag_id="ported_classic",
    default_args=default_args,
    schedule="0 6 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["ported"],
    user_defined_macros={"table_of": lambda ds: f"sales_{ds.replace('-', '_')}.txt"},
    template_searchpath="sql",
) as dag:
    make = BashOperator(
        task_id="make", bash_command=f"mkdir -p {LANDING} && echo '1\n2\n3' > {LANDING}/{{{{ ds }}}}.csv"
    )
    wait = FileSensor(
        task_id="wait", filepath=LANDING + "/{{ ds }}.csv", poke_interval=1, timeout=60, mode="reschedule"
    )
    count = BashOperator(task_id="count", bash_command="count.sh", env={"FILE": LANDING + "/{{ ds }}.csv"})
    append = AppendOperator(
        task_id="append", table="{{ table_of(ds) }}", text="{{ ds }} {{ ti.xcom_pull(task_ids='count') }}\n"
    )
    choose = BranchPythonOperator(task_id="choose", python_callable=weekday_or_weekend)
    weekday = EmptyOperator(task_id="weekday")
    weekend = EmptyOperator(task_id="weekend")
    done = PythonOperator(task_id="done", python_callable=report, trigger_rule="none_failed_min_one_success")

    make >> wait >> count >> append >> choose >> [weekday, weekend] >> done
