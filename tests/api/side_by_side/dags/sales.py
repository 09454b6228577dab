"""DAGs of the everyday kind, for a real Airflow and for tidemill."""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, Param, TaskGroup, task

report = Asset("report", uri="s3://lake/report", group="files", extra={"layer": "gold"})
other = Asset("other")

with DAG(
    "sales",
    dag_display_name="Sales, daily",
    description="What was sold",
    doc_md="# Sales",
    schedule="0 3 * * *",
    start_date=datetime(2025, 1, 1),
    end_date=datetime(2025, 1, 2, 12),
    catchup=True,
    max_active_runs=1,
    tags=["sales", "daily"],
    params={"limit": Param(10, type="integer", maximum=100), "region": "eu"},
    default_args={"owner": "ann", "retries": 0},
    owner_links={"ann": "https://example.com/ann"},
):

    @task
    def extract(params=None):
        print("extracts")
        return {"rows": params["limit"]}

    extracted = extract()
    with TaskGroup("transform", tooltip="Makes it right"):

        @task(task_display_name="Clean it")
        def clean(found):
            return found["rows"] + 1

        @task(map_index_template="{{ number }}")
        def square(number):
            return number * number

        squares = square.expand(number=[1, 2, 3])
        cleaned = clean(extracted)
    load = BashOperator(task_id="load", bash_command="echo {{ ds }}; echo done", outlets=[report], priority_weight=3)
    cleaned >> load
    squares >> load

with DAG("fails", schedule=None, tags=["bad"], default_args={"owner": "bob"}):
    BashOperator(task_id="good", bash_command="true") >> (
        BashOperator(task_id="bad", bash_command="exit 3", retries=1, retry_delay=timedelta(seconds=1))
        >> EmptyOperator(task_id="after")
    )

with DAG("branches", schedule=None):

    @task.branch
    def choose():
        return "left"

    (
        choose()
        >> [
            EmptyOperator(task_id="left"),
            EmptyOperator(task_id="right"),
        ]
        >> EmptyOperator(task_id="join", trigger_rule="none_failed_min_one_success")
    )

with DAG("consumer", schedule=[report]):
    EmptyOperator(task_id="consume")

with DAG("both", schedule=report & other):
    EmptyOperator(task_id="only")

with DAG("approved", schedule=None):
    ApprovalOperator(task_id="ask", subject="Go on with {{ run_id }}?", body="It is *dear*.") >> EmptyOperator(
        task_id="end"
    )

with DAG("guarded", schedule=None):

    @task
    def work():
        return "worked"

    EmptyOperator(task_id="up").as_setup() >> work() >> EmptyOperator(task_id="down").as_teardown()

with DAG(
    "intervals",
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=datetime(2025, 1, 1, 3),
    end_date=datetime(2025, 1, 2, 3),
    catchup=True,
    default_args={"owner": "ann, bob"},
):
    EmptyOperator(task_id="only")

with DAG("never", schedule="@daily", start_date=datetime(2099, 1, 1), is_paused_upon_creation=True):
    EmptyOperator(task_id="only")
