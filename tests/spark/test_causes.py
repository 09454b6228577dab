"""What a failure of Spark says first: why, and not where it was noticed."""

from types import SimpleNamespace
from typing import Any

# ruff: noqa: E501 - lines as Spark prints them
import pytest
from tidemill.activities.spark.causes import cause_of
from tidemill.activities.spark.driver import failure

ABORTED = """An error occurred while calling o447.showString.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage 3.0 (TID 7) (10.0.0.2 executor 2): {inner}
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3122)"""


class Py4JJavaError(Exception):
    """As py4j raises it: the text of the Java exception is its own."""

    java_exception: Any = SimpleNamespace(
        getClass=lambda: SimpleNamespace(getName=lambda: "org.apache.spark.SparkException")
    )


class Py4JNetworkError(Exception):
    pass


def raised(error: BaseException, cause: BaseException | None = None) -> dict[str, Any]:
    try:
        raise error from cause
    except BaseException as found:
        return failure(found)


@pytest.mark.parametrize(
    ("error", "kind", "first"),
    [
        (
            Py4JJavaError(ABORTED.format(inner="java.lang.OutOfMemoryError: Java heap space")),
            "java.lang.OutOfMemoryError",
            "Java heap space, at 10.0.0.2 executor 2",
        ),
        (
            Py4JJavaError(ABORTED.format(inner="a.B: x") + "\nCaused by: a.MiddleException: m\n\tat x\nCaused by: java.io.FileNotFoundException: /no/file"),
            "java.io.FileNotFoundException",
            "/no/file",
        ),
        (
            Py4JJavaError("An error occurred while calling o1.load.\n: java.lang.ClassNotFoundException: no.such.Source\n\tat x"),
            "java.lang.ClassNotFoundException",
            "no.such.Source",
        ),
        (
            Py4JJavaError(ABORTED.format(inner='java.io.IOException: Cannot run program "python9": error=2, No such file or directory') + "\nCaused by: java.io.IOException: error=2, No such file or directory"),
            "SparkProgramNotFound",
            'Cannot run program "python9": error=2, No such file or directory. Set spark.pyspark.python',
        ),
        (ConnectionRefusedError(111, "Connection refused"), "SparkDriverLost", "the driver's JVM has ended"),
        (Py4JNetworkError("Answer from Java side is empty"), "SparkDriverLost", "the driver's JVM has ended"),
        (ValueError("py4j.reflection.TypeUtil does not exist in the JVM"), "SparkDriverLost", "the driver's JVM has ended"),
        (
            ValueError("Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was created at:"),
            "ValueError",
            "Spark has stopped its context: no master answered",
        ),
        (SystemExit(3), "SystemExit", "the application called sys.exit(3)"),
    ],
)  # fmt: skip
def test_the_cause_comes_first(error: BaseException, kind: str, first: str) -> None:
    found = raised(error)
    assert found["error_type"] == kind
    assert found["message"].startswith(first), found["message"]


def test_what_the_user_raised_comes_before_its_cause() -> None:
    found = raised(RuntimeError("quality gate: 3 of 10 rows bad"), KeyError("missing"))
    assert found["error_type"] == "RuntimeError"
    assert found["message"] == "quality gate: 3 of 10 rows bad\ncaused by KeyError: 'missing'"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["Usage: spark-submit", "Error: Unrecognized option: --nope", "", "more usage"], "Unrecognized option: --nope"),
        (
            ["26/11 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters are unresponsive! Giving up.",
             "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext"],
            "All masters are unresponsive! Giving up.",
        ),
        (
            ['hint: kubectl auth can-i create pod', 'Message: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2',
             "\tat io.netty.handler (decoder.java:484)"],
            "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
        ),
        (
            ["Exception in thread \"main\" org.apache.spark.SparkException: it failed", "Caused by: a.B: deep", "Caused by: c.D: deeper", "\tat x"],
            "c.D: deeper",
        ),
        (["Exception in thread \"main\" java.lang.RuntimeException: unresolved dependency"], "java.lang.RuntimeException: unresolved dependency"),
        (["one", "the last", ""], "the last"),
        ([], "it printed nothing"),
    ],
)  # fmt: skip
def test_of_what_spark_submit_printed_the_cause_is_told(lines: list[str], told: str) -> None:
    assert cause_of(lines) == told
