"""What a failure of Spark says first: why, and not where it was noticed."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

# ruff: noqa: E501 - lines as Spark prints them
import pytest
from pyspark import SparkContext
from pyspark.errors import PythonException
from support import stack
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.spark import driver
from tidemill.activities.spark.causes import cause_of
from tidemill.activities.spark.driver import failure
from tidemill.activities.work.failures import describe_failure

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
        (ConnectionRefusedError(111, "Connection refused"), "ConnectionRefusedError", "[Errno 111] Connection refused"),
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


def test_a_gateway_that_does_not_answer_is_a_lost_driver() -> None:
    code = compile("raise ConnectionRefusedError(111, 'Connection refused')", "/lib/py4j/clientserver.py", "exec")
    with pytest.raises(ConnectionRefusedError) as caught:
        exec(code)
    found = failure(caught.value)
    assert found["error_type"] == "SparkDriverLost"
    assert found["message"].startswith("the driver's JVM has ended")


@pytest.mark.parametrize(("current_time", "kind"), [
    (lambda: 1, "ValueError"), (lambda: Event().wait(300), "SparkDriverLost"),
], ids=["answers", "hangs"])  # fmt: skip
def test_what_the_jvm_does_not_have_is_no_lost_driver_while_it_answers(
    current_time: Callable[[], int], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hangs does not keep the failure from being told."""
    gateway = SimpleNamespace(jvm=SimpleNamespace(System=SimpleNamespace(currentTimeMillis=current_time)))
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    monkeypatch.setattr(driver, "JVM_TIMEOUT", 0.5)
    found = raised(ValueError("PythonUtils.getEncryptionEnabled does not exist in the JVM"))
    assert found["error_type"] == kind


IN_WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/lib/python/pyspark.zip/pyspark/worker.py", line 4327, in invoke_udf
    run_process()
  File "/lib/python3.11/site-packages/pyspark/util.py", line 158, in wrapper
    return f(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^
  File "/apps/load.py", line 5, in parse
    raise ValueError("bad row 17")
ValueError: bad row 17
 SQLSTATE: 38000"""


@pytest.mark.parametrize(("text", "kind", "message"), [
    (IN_WORKER, "ValueError", "bad row 17, at /apps/load.py:5 in parse"),
    (IN_WORKER.replace("ValueError:", "tidemill_dag_file_load-customers.main.<locals>.BadRow:"),
     "tidemill_dag_file_load-customers.main.<locals>.BadRow", "bad row 17, at /apps/load.py:5 in parse"),
    (IN_WORKER.replace("/apps/", "/opt/pyspark/jobs/"), "ValueError", "bad row 17, at /opt/pyspark/jobs/load.py:5 in parse"),
    (IN_WORKER.replace("ValueError: bad row 17\n", "app.rows.BadRow\n"), "app.rows.BadRow", "raised at /apps/load.py:5 in parse"),
    ("a batch failed. Return Message: " + IN_WORKER.replace("ValueError: bad", "KeyError: bad") + "\n\nThe above exception "
     "was the direct cause of the following exception:\n\n" + IN_WORKER, "ValueError", "bad row 17, at /apps/load.py:5 in parse"),
])  # fmt: skip
def test_what_a_function_raises_on_an_executor_is_told(text: str, kind: str, message: str) -> None:
    found = raised(PythonException(text))
    assert (found["error_type"], found["message"]) == (kind, message)


CRASH = """Python worker exited unexpectedly (crashed): Fatal Python error: Segmentation fault

Current thread 0x00007f3b4e7fc740 (most recent call first):
  File "/usr/lib/python3.11/site-packages/pyspark/worker.py", line 9 in read
  File "/apps/load.py", line 5 in parse
  File "/usr/lib/python3.11/site-packages/pyspark/worker.py", line 1240 in process
"""


def test_where_a_python_worker_has_crashed_is_told() -> None:
    found = raised(Py4JJavaError(ABORTED.format(inner=f"org.apache.spark.SparkException: {CRASH}")))
    assert found["error_type"] == "PythonWorkerCrashed"
    assert found["message"].startswith("Fatal Python error: Segmentation fault at /apps/load.py:5 in parse: ")


def test_a_failure_has_the_name_of_its_class_beside_that_of_sparks_condition() -> None:
    """`no_retry_on` and `retry_only_on` know it by that."""
    condition = "PythonException [TABLE_OR_VIEW_NOT_FOUND, SQLSTATE 42P01]"
    found = describe_failure(PythonException("no table"), lambda error: (condition, str(error)))
    assert found.error_type == condition
    assert found.kinds[0] == "PythonException"
    assert describe_failure(ValueError("plain")).kinds[0] == "Exception"


CRASHES = """
import ctypes, os
from tidemill import DAG, task

def crash(_=None):
    ctypes.string_at(0)

with DAG("spark_crashes", default_args={"master": "local[1]", "retries": 0}):
    @task
    def in_a_task():
        crash()

    @task.pyspark
    def on_an_executor(spark):
        return spark.sparkContext.parallelize([1]).map(crash).count()

    @task.pyspark
    def in_the_driver(spark):
        crash()

    @task.pyspark
    def without_a_word(spark):
        os._exit(7)

    in_a_task(), on_an_executor(), in_the_driver(), without_a_word()
"""


@pytest.mark.spark
async def test_a_crash_of_python_is_told_by_its_cause(server: str, spark_home: Path, tmp_path: Path) -> None:
    path = tmp_path / "crashes.py"
    path.write_text(CRASHES)
    parsed = parse_dag_file(path)
    assert parsed.error is None, parsed.error
    async with stack(server, spark_home) as here:
        details = await here.run_once(parsed.dags[0])
        log = here.log_of("spark_crashes", details.run.run_id, "in_a_task")
    errors = {one.task_id: one.error for one in details.tasks}
    assert errors["in_a_task"] == "ProcessEnded: the task's process was ended by signal 11 (SIGSEGV)"
    assert "Fatal Python error: Segmentation fault" in log
    assert f'crashes.py", line {CRASHES[: CRASHES.index("ctypes.string_at")].count(chr(10)) + 1} in crash' in log
    on_executor, in_driver, silent = (
        errors[name] or "" for name in ("on_an_executor", "in_the_driver", "without_a_word")
    )
    assert on_executor.startswith("PythonWorkerCrashed: Fatal Python error: Segmentation fault at "), on_executor
    assert "in crash" in on_executor
    ended = "SparkSubmitFailed: spark-submit ended with exit code"
    assert in_driver.startswith(f"{ended} 139, as of signal 11 (SIGSEGV): Fatal Python error: Segmentation"), in_driver
    assert silent.startswith(f"{ended} 7: ")
    assert " INFO " not in silent


def test_a_cause_whose_jvm_is_gone_keeps_nobody_from_the_failure() -> None:
    class CapturedError(Exception):
        def getCondition(self) -> str:  # noqa: N802
            raise ConnectionRefusedError("the gateway is gone")

    found = raised(RuntimeError("cleaning up failed"), CapturedError("bad column"))
    assert found["message"] == "cleaning up failed\ncaused by CapturedError"


def test_what_was_handled_is_a_cause_unless_it_is_hidden() -> None:
    def found(**hidden: Any) -> str:
        try:
            try:
                raise KeyError("customer")
            except KeyError:
                if hidden:
                    raise RuntimeError("load failed") from None
                raise RuntimeError("load failed")  # noqa: B904
        except RuntimeError as error:
            return str(failure(error)["message"])

    assert found() == "load failed\ncaused by KeyError: 'customer'"
    assert found(hidden=True) == "load failed"


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
