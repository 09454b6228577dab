"""A DAG as code."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from support import at

from tidemill import (
    DAG,
    BashOperator,
    EmptyOperator,
    InvalidInputError,
    PythonOperator,
    SparkSubmitOperator,
    chain,
    cross_downstream,
    dag,
    spark_submit,
    task,
)


def upstreams(made: DAG) -> dict[str, set[str]]:
    return {found.task_id: set(found.upstream) for found in made.spec().tasks}


def test_a_dag_file_reads_as_airflows() -> None:
    with DAG(
        dag_id="sales",
        schedule="@daily",
        start_date=datetime(2024, 1, 1),
        catchup=True,
        max_active_runs=3,
        default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    ) as made:
        begin = EmptyOperator(task_id="begin")
        load = BashOperator(task_id="load", bash_command="echo {{ ds }}", retries=5)
        submit = SparkSubmitOperator(task_id="submit", application="app.py", conf={"spark.x": 1}, driver_memory="1g")
        begin >> load >> submit
    spec = made.spec()
    assert spec.start_date == at("2024-01-01")
    assert upstreams(made) == {"begin": set(), "load": {"begin"}, "submit": {"load"}}
    assert (spec.by_id["begin"].retries, spec.by_id["load"].retries) == (2, 5)
    assert spec.by_id["submit"].spark.driver_memory == "1g"  # type: ignore[union-attr]


def test_results_carry_the_order() -> None:
    with DAG("flow") as made:

        @task
        def extract() -> list[int]:
            return [1]

        @task
        def total(rows: list[int], scale: int = 1) -> int:
            return sum(rows) * scale

        total(extract(), scale=3)
    assert upstreams(made) == {"extract": set(), "total": {"extract"}}
    [found] = [t for t in made.spec().tasks if t.task_id == "total"]
    assert found.args == ({"$xcom": "extract", "key": "return_value"},)  # type: ignore[union-attr]
    assert made.functions["total"]([2, 3], scale=2) == 10


def test_every_way_to_write_an_order() -> None:
    with DAG("orders") as made:
        a, b, c, d, e, f = (EmptyOperator(task_id=name) for name in "abcdef")
        a >> [b, c]
        d << [b, c]
        [b, c] >> e
        e.set_downstream(f)
    assert upstreams(made) == {"a": set(), "b": {"a"}, "c": {"a"}, "d": {"b", "c"}, "e": {"b", "c"}, "f": {"e"}}


def test_chain_and_cross_downstream() -> None:
    with DAG("chains") as made:
        a, b, c, d, e, f = (EmptyOperator(task_id=name) for name in "abcdef")
        chain(a, [b, c], [d, e], f)
    assert upstreams(made) == {"a": set(), "b": {"a"}, "c": {"a"}, "d": {"b"}, "e": {"c"}, "f": {"d", "e"}}
    with DAG("cross") as made:
        a, b, c, d = (EmptyOperator(task_id=name) for name in "abcd")
        cross_downstream([a, b], [c, d])
    assert upstreams(made) == {"a": set(), "b": set(), "c": {"a", "b"}, "d": {"a", "b"}}


def test_functions_and_results_both_go_with_arrows() -> None:
    """`extract >> load` for typed code, `extract() >> load()` as in Airflow."""
    with DAG("arrows") as made:

        @task
        def first() -> None: ...

        @task
        def second() -> None: ...

        @task
        def third() -> None: ...

        first >> second
        second >> third()  # type: ignore[func-returns-value]
    assert upstreams(made) == {"first": set(), "second": {"first"}, "third": {"second"}}


def test_a_function_called_twice_is_two_tasks() -> None:
    with DAG("twice") as made:

        @task
        def load(x: int) -> int:
            return x

        load(1)
        load(2)
        load.override(task_id="other", retries=4)(3)
    assert list(made.tasks) == ["load", "load__1", "other"]
    assert made.spec().by_id["other"].retries == 4


def test_the_dag_decorator_names_the_dag_after_its_function() -> None:
    @dag(schedule="@hourly", start_date=datetime(2024, 1, 1))
    def pipeline() -> None:
        """What it is for."""
        EmptyOperator(task_id="only")

    made = pipeline()
    assert (made.dag_id, made.spec().doc_md, list(made.tasks)) == ("pipeline", "What it is for.", ["only"])


def test_decorated_kinds() -> None:
    with DAG("kinds") as made:

        @task.bash
        def command(ds: str = "") -> str:
            return f"echo {ds}"

        @task.pyspark(driver_memory="2g")
        def count(spark: Any, path: str) -> int:
            return int(spark.read.parquet(path).count())

        command()
        count("somewhere")
        spark_submit("submit", "app.py", application_args=["{{ ds }}"], master="spark://here:7077")
        PythonOperator(task_id="plain", python_callable=print, op_args=["hello"])
    kinds = {found.task_id: found.kind for found in made.spec().tasks}
    assert kinds == {"command": "bash_function", "count": "pyspark", "submit": "spark_submit", "plain": "python"}


def test_naive_dates_are_read_in_the_dags_time_zone() -> None:
    with DAG("zoned", start_date=datetime(2024, 7, 1), timezone="Europe/Berlin") as made:
        EmptyOperator(task_id="a", end_date=datetime(2024, 8, 1))
    spec = made.spec()
    assert spec.start_date == at("2024-06-30 22:00")
    assert spec.by_id["a"].end_date == at("2024-07-31 22:00")


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda: EmptyOperator(task_id="a"), "task 'a' is outside of any DAG"),
        (lambda: chain([1], [2, 3]), "a list of 1 tasks is followed by one of 2"),
    ],
)
def test_mistakes_are_told_where_they_are_made(write: Any, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        write()


def test_a_wrong_call_of_a_task_is_told_when_the_file_is_read() -> None:
    @task
    def load(path: str, ds: str) -> str:
        return path + ds

    with DAG("wrong"):
        load("there")  # type: ignore[call-arg] # `ds` comes from the context
        with pytest.raises(InvalidInputError, match="argument 'path' is missing"):
            load()  # type: ignore[call-arg]
        with pytest.raises(InvalidInputError, match="too many positional arguments"):
            load("a", "b", "c")  # type: ignore[call-arg]


def test_two_tasks_of_one_id_are_refused() -> None:
    with DAG("double"):
        EmptyOperator(task_id="a")
        with pytest.raises(InvalidInputError, match="task_id 'a' is used by 2 tasks"):
            EmptyOperator(task_id="a")


def test_results_go_into_spark_arguments_and_texts() -> None:
    with DAG("texts") as made:
        path = BashOperator(task_id="path", bash_command="echo there").output
        spark_submit("submit", "app.py", application_args=["--in", path, 3])
        BashOperator(task_id="say", bash_command=f"echo {path}") << path.node
    spec = made.spec()
    assert upstreams(made)["submit"] == {"path"}
    assert spec.by_id["submit"].application_args == ("--in", {"$xcom": "path", "key": "return_value"}, "3")  # type: ignore[union-attr]
    assert spec.by_id["say"].command == "echo {{ ti.xcom_pull(task_ids='path', key='return_value') }}"  # type: ignore[union-attr]
