"""Branches and sensors that decide by dates and weekdays, and what skips what, as public reports have it."""

from datetime import UTC, datetime, time, timedelta, timezone

from airflow.providers.standard.operators.datetime import BranchDateTimeOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.latest_only import LatestOnlyOperator
from airflow.providers.standard.operators.python import BranchPythonOperator, PythonOperator, ShortCircuitOperator
from airflow.providers.standard.operators.weekday import BranchDayOfWeekOperator
from airflow.providers.standard.sensors.date_time import DateTimeSensor, DateTimeSensorAsync
from airflow.providers.standard.sensors.python import PythonSensor
from airflow.providers.standard.sensors.time_delta import TimeDeltaSensorAsync
from airflow.providers.standard.sensors.weekday import DayOfWeekSensor
from airflow.providers.standard.utils.weekday import WeekDay
from airflow.sdk import DAG, setup, task, task_group, teardown


def paths(name):
    """The two ways that a branch may go."""
    return [EmptyOperator(task_id=f"{name}.{way}") for way in ("yes", "no")]


def by_time(name, lower, upper):
    branch = BranchDateTimeOperator(
        task_id=name,
        target_lower=lower,
        target_upper=upper,
        follow_task_ids_if_true=[f"{name}.yes"],
        follow_task_ids_if_false=[f"{name}.no"],
        use_task_logical_date=True,
    )
    branch >> paths(name)


def by_day(name, week_day):
    branch = BranchDayOfWeekOperator(
        task_id=name,
        week_day=week_day,
        follow_task_ids_if_true=[f"{name}.yes"],
        follow_task_ids_if_false=[f"{name}.no"],
        use_task_logical_date=True,
    )
    branch >> paths(name)


with DAG("by_date", schedule=None, start_date=datetime(2026, 1, 1), max_active_tasks=4):
    by_time("only_upper", None, time(11))
    by_time("only_lower", time(10), None)
    by_time("below_lower", time(10, 31), None)
    by_time("bounds_count", time(10, 30), time(10, 30))
    by_time("over_midnight", time(22), time(2))
    by_time("swapped", datetime(2026, 2, 4, 11), datetime(2026, 2, 4, 10))
    by_time("date_and_time", datetime(2026, 2, 4, 10), time(11))
    by_time(
        "aware", datetime(2026, 2, 4, 5, 0, tzinfo=timezone(timedelta(hours=-5))), datetime(2026, 2, 4, 11, tzinfo=UTC)
    )
    by_time("other_day", datetime(2026, 2, 3, 10), datetime(2026, 2, 3, 11))
    by_day("one_day", "Wednesday")
    by_day("any_case", "wEDNESDAY")
    by_day("enum_in_dict", {WeekDay.WEDNESDAY: "x", "Friday": 1})
    by_day("mixed", ["Monday", WeekDay.WEDNESDAY])
    by_day("another_day", {WeekDay.MONDAY})
    by_day("no_day", set())
    DayOfWeekSensor(task_id="its_day", week_day="Wednesday", use_task_logical_date=True, timeout=30, poke_interval=1)
    DateTimeSensor(task_id="past", target_time="{{ dag_run.run_after }}", timeout=30, poke_interval=1)
    DateTimeSensorAsync(
        task_id="past_elsewhere", target_time=datetime(2026, 2, 4, 5, tzinfo=timezone(timedelta(hours=-5))), timeout=60
    )
    TimeDeltaSensorAsync(task_id="after_a_while", delta=timedelta(seconds=1), timeout=60)

with DAG("native_date", schedule=None, render_template_as_native_obj=True):
    DateTimeSensor(task_id="past", target_time="{{ dag_run.run_after }}", timeout=30, poke_interval=1)

with DAG("branching", schedule=None, max_active_tasks=4):
    none = BranchPythonOperator(task_id="none", python_callable=lambda: None)
    none >> [EmptyOperator(task_id="none.a"), EmptyOperator(task_id="none.b")]

    unknown = BranchPythonOperator(task_id="unknown", python_callable=lambda: "nowhere")
    unknown >> EmptyOperator(task_id="unknown.a")

    to_sensor = BranchPythonOperator(task_id="to_sensor", python_callable=lambda: "to_sensor.other")
    to_sensor >> [
        PythonSensor(task_id="to_sensor.sensor", python_callable=lambda: True),
        EmptyOperator(task_id="to_sensor.other"),
    ]

    direct = BranchPythonOperator(task_id="direct", python_callable=lambda: "direct.b")
    b, c = EmptyOperator(task_id="direct.b"), EmptyOperator(task_id="direct.c")
    direct >> [b, c]
    b >> c

    gentle = ShortCircuitOperator(
        task_id="gentle", python_callable=lambda: False, ignore_downstream_trigger_rules=False
    )
    gentle >> EmptyOperator(task_id="gentle.next") >> EmptyOperator(task_id="gentle.last", trigger_rule="all_done")

    short = ShortCircuitOperator(task_id="short", python_callable=lambda: False)
    short >> EmptyOperator(task_id="short.next") >> EmptyOperator(task_id="short.last", trigger_rule="all_done")
    short >> PythonOperator.partial(task_id="short.mapped", python_callable=print, trigger_rule="none_failed").expand(
        op_args=[[1], [2], [3]]
    )

    latest = LatestOnlyOperator(task_id="latest")
    latest >> EmptyOperator(task_id="latest.next")

    @setup
    def scope_begins(): ...

    @teardown
    def scope_ends(): ...

    within = ShortCircuitOperator(task_id="within", python_callable=lambda: False)
    begun, ended = scope_begins(), scope_ends()
    begun >> within >> EmptyOperator(task_id="within.next") >> ended
    begun >> ended

    joined = BranchPythonOperator(task_id="joined", python_callable=lambda: "joined.a")
    ways = [EmptyOperator(task_id="joined.a"), EmptyOperator(task_id="joined.b")]
    joined >> ways
    ways >> EmptyOperator(task_id="joined.usual")
    ways >> EmptyOperator(task_id="joined.some", trigger_rule="none_failed_min_one_success")

with DAG("branching_by_index", schedule=None, max_active_tasks=4):

    @task
    def left(): ...

    @task
    def right(): ...

    @task_group
    def each(goes):
        @task.branch
        def way(goes):
            return f"each.{goes}"

        way(goes) >> [left(), right()]

    each.expand(goes=["left", "right"])

    @task_group
    def some(n):
        @task.short_circuit
        def odd(n):
            return n % 2 == 1

        @task
        def after(): ...

        odd(n) >> after()

    some.expand(n=[0, 1, 2, 3])
