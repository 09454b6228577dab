"""What a function of Spark is given: the session and its context by name, and what lies beside its DAG file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from spark_clusters import told
from support import stack
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.work.function import _with_session
from tidemill.model.authoring.decorators import task
from tidemill.model.errors import InvalidInputError
from tidemill.model.states import RunState

CLASSIC = SimpleNamespace(sparkContext="the context")


def first(session: Any, rows: Any) -> Any:
    return session, rows


def both(spark: Any, sc: Any, rows: Any, more: Any = 0) -> Any:
    return spark, sc, rows, more


def behind(rows: Any, spark: Any) -> Any:
    return rows, spark


def between(rows: Any, sc: Any, more: Any, *, spark: Any) -> Any:
    return rows, sc, more, spark


def whatever(**named: Any) -> Any:
    return named["spark"], named["sc"], named["rows"]


def none() -> Any:
    return "none"


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "result"),
    [
        (first, [7], {}, (CLASSIC, 7)),
        (first, [], {"rows": 7}, (CLASSIC, 7)),
        (both, [7], {}, (CLASSIC, "the context", 7, 0)),
        (both, [7, 8], {}, (CLASSIC, "the context", 7, 8)),
        (both, [], {"rows": 7, "more": 8}, (CLASSIC, "the context", 7, 8)),
        (behind, [7], {}, (7, CLASSIC)),
        (behind, [], {"rows": 7}, (7, CLASSIC)),
        (between, [7, 8], {}, (7, "the context", 8, CLASSIC)),
        (between, [7], {"more": 8}, (7, "the context", 8, CLASSIC)),
        (whatever, [], {"rows": 7}, (CLASSIC, "the context", 7)),
        (none, [], {}, "none"),
    ],
)
def test_arguments_have_their_places(
    function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], result: Any
) -> None:
    task.pyspark(function)._check_call(tuple(args), kwargs)
    placed, named = _with_session(function, CLASSIC, args, kwargs)
    assert function(*placed, **named) == result


def test_a_session_of_connect_has_no_context() -> None:
    assert _with_session(both, SimpleNamespace(), [7], {})[0][1] is None


def test_what_is_missing_is_said_of_the_call() -> None:
    with pytest.raises(InvalidInputError, match="argument 'rows' is missing"):
        task.pyspark(both)._check_call((), {})


BESIDE = """
from helpers.words import longer
from tidemill import DAG, task

with DAG("beside_spark", default_args={"master": "local[2]", "retries": 0}):
    @task.pyspark
    def count(words, spark, sc):
        from pyspark.sql.functions import udf
        rows = spark.createDataFrame([(word,) for word in words], ["word"])
        long = rows.select(udf(longer)("word").alias("it")).collect()
        return [sorted(row.it for row in long), sc.parallelize(words).map(longer).count()]

    count(["a", "b"])
"""


@pytest.mark.spark
async def test_executors_have_the_modules_beside_the_dag_file(server: str, spark_home: Path, tmp_path: Path) -> None:
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "__init__.py").touch()
    (tmp_path / "helpers" / "words.py").write_text(
        "def _twice(word):\n    return word * 2\n\n\nlonger = lambda word: _twice(word)\n"
    )
    (tmp_path / "beside.py").write_text(BESIDE)
    parsed = parse_dag_file(tmp_path / "beside.py")
    assert parsed.error is None, parsed.error
    async with stack(server, spark_home) as here:
        details = await here.run_once(parsed.dags[0])
        assert details.state is RunState.SUCCESS, told(details)
        assert await here.result_of(details, "count") == [["aa", "bb"], 2]
