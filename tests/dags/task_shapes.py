"""DAGs for tests of branches, mapped tasks, sensors, setups and teardowns."""

import os
import time
from datetime import datetime, timedelta
from pathlib import Path

from tidemill import (
    DAG,
    BashOperator,
    Connection,
    EmptyOperator,
    Label,
    PokeReturnValue,
    TaskGroup,
    TimeDeltaSensor,
    TriggerRule,
    Variable,
    chain,
    setup,
    task,
    task_group,
    teardown,
)

START = datetime(2026, 1, 1)

with DAG("branches", params={"way": "left"}):

    @task.branch
    def choose(params):
        return params["way"]

    left, right = EmptyOperator(task_id="left"), EmptyOperator(task_id="right")
    join = EmptyOperator(task_id="join", trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
    choose() >> Label("chosen") >> [left, right] >> join

with DAG("circuits", params={"on": False}):

    @task.short_circuit
    def is_on(params):
        return params["on"]

    chain(is_on(), EmptyOperator(task_id="next"), EmptyOperator(task_id="last", trigger_rule=TriggerRule.ALL_DONE))

with DAG("mapped", max_active_tasks=8):

    @task
    def numbers():
        return [1, 2, 3]

    @task
    def times(n, factor):
        return n * factor

    @task
    def total(values):
        return sum(values)

    total(times.partial(factor=10).expand(n=numbers()))
    BashOperator.partial(task_id="say").expand(bash_command=["echo one", "echo two"])

with DAG("mapped_over_nothing"):

    @task
    def none():
        return []

    @task
    def each(n):
        return n

    each.expand(n=none()) >> EmptyOperator(task_id="after")

with DAG("mapped_group", max_active_tasks=8):

    @task
    def regions():
        return ["eu", "us"]

    @task_group
    def load(region):
        @task
        def fetch(region):
            return f"{region}.csv"

        @task
        def store(path):
            return path.upper()

        return store(fetch(region))

    @task
    def collect(paths):
        return sorted(paths)

    collect(load.expand(region=regions()))

with DAG("sensing", params={"file": ""}):

    @task.sensor(poke_interval=timedelta(seconds=1), timeout=timedelta(minutes=5))
    def is_there(params):
        return PokeReturnValue(Path(params["file"]).exists(), "found")

    @task
    def use(word):
        return word

    use(is_there())

with DAG("impatient_sensor"):

    @task.sensor(poke_interval=timedelta(seconds=1), timeout=timedelta(seconds=1), soft_fail=True)
    def never():
        return False

    never()

with DAG("set_up", params={"fail": True}):

    @setup
    def create():
        return "made"

    @task
    def work(params):
        if params["fail"]:
            raise ValueError("work failed")

    @teardown
    def delete():
        return "gone"

    create() >> work() >> delete().as_teardown(setups=create)

with DAG("grouped"):
    with TaskGroup("outer"), TaskGroup("inner"):
        EmptyOperator(task_id="first") >> EmptyOperator(task_id="second")
    EmptyOperator(task_id="before") >> TaskGroup("empty_group")

with DAG("large_results", max_active_tasks=4):

    @task
    def many():
        return ["x" * 1000 for _ in range(100)]

    @task
    def length(value):
        return len(value)

    @task
    def count(values):
        return [len(values), os.getpid() > 0]

    count(many()) >> length.expand(value=many.override(task_id="again")())

with DAG("timers"):
    TimeDeltaSensor(task_id="soon", delta=timedelta(seconds=2)) >> EmptyOperator(task_id="then")


def note(what: str):  # type: ignore[no-untyped-def]
    """A callback that writes down what it is called for."""

    def write(context):  # type: ignore[no-untyped-def]
        with Path(context["params"]["notes"]).open("a") as notes:
            notes.write(f"{what} {context['task'].task_id} {context['ti'].try_number} {context['exception']}\n")

    return write


with DAG(
    "callbacks",
    params={"notes": ""},
    on_failure_callback=note("run failed"),
    default_args={"on_failure_callback": [note("failed"), note("failed again")], "on_success_callback": note("well")},
):

    @task(retries=1, retry_delay=timedelta(0), on_retry_callback=note("retry"), on_execute_callback=note("begin"))
    def bad():
        raise ValueError("no")

    @task
    def good():
        return 1

    [bad(), good()]


def pushes(context):  # type: ignore[no-untyped-def]
    """A callback that pushes what it has seen."""
    ti, error = context["ti"], context["exception"]
    seen = [type(error).__name__, str(error), ti.end_date is not None, ti.xcom_pull(key="own")]
    ti.xcom_push("of_first", [*seen, context["params"]["sleeps"]])
    time.sleep(context["params"]["sleeps"])


def pushes_after(context):  # type: ignore[no-untyped-def]
    context["ti"].xcom_push("of_second", context["ti"].xcom_pull(key="of_first"))


with DAG("pushing_callbacks", params={"sleeps": 1}):

    @task(on_failure_callback=[pushes, pushes_after])
    def pushing(ti):
        ti.xcom_push("own", 7)
        raise ValueError("no")

    @task
    def cursor(ti):
        before = ti.xcom_pull(key="at", include_prior_dates=True)
        ti.xcom_push("at", (before or 0) + 1)
        return before

    pushing(), cursor()


with DAG("secretive"):

    @task
    def tell():
        password = Connection.get("warehouse").password
        print(f"the password is {password}")
        if Variable.get("mode") == "fail":
            raise ValueError(f"cannot log in with {password}")
        return Connection.get("warehouse").host

    BashOperator(task_id="show", bash_command="echo {{ var.value.mode }} {{ conn.warehouse.login }}") << tell()


with DAG("treacherous"):

    @task
    def evil():
        return {"text": "{{ conn.warehouse.password }}", "broken": "100{% of it"}

    @task
    def texts():
        return ["{{ ds }}", "{% x"]

    @task
    def keep(value):
        return value

    keep(evil())
    keep.override(task_id="each").expand(value=texts())

with DAG("stealing"):

    @task
    def lure():
        return {"$stored": "file:///etc/hostname", "size": 1, "length": 1}

    @task
    def take(value):
        return value

    take(lure())

with DAG("unmappable"):

    @task
    def text():
        return "not a list"

    @task
    def one(value):
        return value

    one.expand(value=text())

with DAG("remapped", params={"n": "2"}):

    @task
    def count(params):
        return list(range(int(Path(params["n"]).read_text())))

    @task
    def square(n):
        return n * n + int(Path("/dev/null").stat().st_size)

    @task.sensor(poke_interval=timedelta(seconds=1))
    def released(params):
        return Path(params["n"]).with_name("released").exists()

    square.expand(n=count()) >> released()
