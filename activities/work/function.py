"""Calls a task's function and tells how that went. Runs only in child processes.

Shared by Python tasks (in a fork), by PySpark functions (in a driver), and by runs in one process.
"""

from __future__ import annotations

import inspect
import json
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ...model.authoring.dags import DAG
from ...model.errors import InvalidInputError
from ...model.exceptions import AirflowFailException, AirflowSkipException
from ...model.run.attempts import CallbackCall, TaskAttempt
from ...model.run.context import context, running
from ...model.run.poking import poked
from ...model.run.task_instances import Failure, Outcome
from ...model.spec.references import RETURN_VALUE
from ...model.spec.tasks import SensorTask
from ...model.states import TaskState
from ..secrets import masked
from .templates import filled

if TYPE_CHECKING:
    from .child import Job

OURS = (str(Path(__file__).parents[2]), "<frozen importlib")
"""Where the frames of a traceback begin that tell its author nothing."""
XCOM_LIMIT = 64 * 1024 * 1024
"""The most bytes that a task's results may have, also where they are not kept in history."""


class TaskStopped(BaseException):
    """Raised in a task's function when its worker asks it to end: `finally` has a moment to put things in order."""


def run(job: Job) -> dict[str, Any]:
    """Calls the function of the request's attempt, and leaves its result where another start of it finds it."""
    signal.signal(signal.SIGTERM, _stop)
    attempt = TaskAttempt.model_validate(job.request["attempt"])
    try:
        dags = job.imported().dags
    except BaseException as error:
        traceback.print_exc()
        return {"failure": describe_failure(error).model_dump(mode="json")}
    result = perform(dags, attempt)
    # What a stopped one has come to is nobody's result: it goes on elsewhere, as the same try.
    if (folder := job.request.get("folder")) is not None and job.request["work"] == "function" and not _stopped:
        with suppress(OSError):  # another user may not write there: then the worker does, from the answer
            Path(folder, "result.json").write_text(json.dumps(result))
    return result


_stopped: list[bool] = []


_on_kill: list[Callable[[], Any]] = []


def _stop(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _stopped.append(True)
    for on_kill in _on_kill:
        try:
            on_kill()
        except Exception:
            traceback.print_exc()
    raise TaskStopped("the task was stopped")


def perform(dags: list[DAG], attempt: TaskAttempt, given: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Calls the function of *attempt* and returns what goes into `result.json`.

    *given* are arguments that come before the task's own, such as a SparkSession.
    """
    started = datetime.now(UTC)
    values = context(attempt)
    try:
        with running(values):
            if attempt.callback is not None:
                call_back(dags, attempt, attempt.callback, values)
                return {"outcome": Outcome(started_at=started).model_dump(mode="json")}
            _on_kill[:] = on_kill_of(dags, attempt)
            result = call(find_function(dags, attempt), attempt, values, given)
        outcome = _ended(attempt, result, started)
        outcome = outcome.model_copy(update={"xcom": checked({**values["ti"].pushed, **outcome.xcom})})
    except AirflowSkipException as skip:
        outcome = Outcome(state=TaskState.SKIPPED, started_at=started, note=str(skip) or "the task skipped itself")
    except BaseException as error:
        traceback.print_exc()
        return {"failure": describe_failure(error).model_dump(mode="json"), "started_at": started.isoformat()}
    return {"outcome": outcome.model_dump(mode="json")}


def _ended(attempt: TaskAttempt, result: Any, started: datetime) -> Outcome:
    if isinstance(attempt.task, SensorTask):
        return poked(attempt, result, started)
    return Outcome(xcom={} if result is None else _results(attempt, result), started_at=started)


def _results(attempt: TaskAttempt, result: Any) -> dict[str, Any]:
    if not getattr(attempt.task, "multiple_outputs", False):
        return {RETURN_VALUE: result}
    if not isinstance(result, dict) or not all(isinstance(key, str) for key in result):
        raise InvalidInputError(
            f"multiple_outputs: the task returned {type(result).__name__}, and not a dict whose keys are texts. "
            "Return one, or leave multiple_outputs out"
        )
    return {**result, RETURN_VALUE: result}


def call(function: Callable[..., Any], attempt: TaskAttempt, values: dict[str, Any], given: tuple[Any, ...]) -> Any:
    task = attempt.task
    written = [getattr(task, "args", ()), getattr(task, "kwargs", {})]
    args, kwargs = filled(attempt, written, values, native=attempt.render_template_as_native_obj)
    return function(*given, *args, **kwargs, **from_context(function, values, len(given) + len(args), kwargs))


def call_back(dags: list[DAG], attempt: TaskAttempt, called: CallbackCall, values: dict[str, Any]) -> None:
    """Calls one of the DAG file's callbacks, with the context as Airflow gives it."""
    dag = find_dag(dags, attempt)
    owner = dag if called.of_run else dag.tasks[attempt.task.task_id]
    functions = owner.callback_functions(called.event)
    functions[called.number]({**values, "exception": called.reason, "reason": called.reason})


def from_context(
    function: Callable[..., Any], values: dict[str, Any], positional: int, kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The variables of the context that *function* takes and was not given."""
    parameters = list(inspect.signature(function).parameters.values())[positional:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return {name: value for name, value in values.items() if name not in kwargs}
    return {p.name: values[p.name] for p in parameters if p.name in values and p.name not in kwargs}


def find_function(dags: list[DAG], attempt: TaskAttempt) -> Callable[..., Any]:
    dag = find_dag(dags, attempt)
    found = dag.functions.get(attempt.task.task_id)
    if found is not None:
        return found
    raise InvalidInputError(
        f"task {attempt.task.task_id!r} is no longer in DAG {dag.dag_id!r} of {_file(attempt)}. "
        "Put it back, or register the DAG again"
    )


def on_kill_of(dags: list[DAG], attempt: TaskAttempt) -> list[Callable[[], Any]]:
    """What the task's author wants called when it is stopped; at most one."""
    node = find_dag(dags, attempt).tasks.get(attempt.task.task_id)
    return [node.on_kill] if node is not None and node.on_kill is not None else []


def find_dag(dags: list[DAG], attempt: TaskAttempt) -> DAG:
    for dag in dags:
        if dag.dag_id == attempt.run.dag_id:
            return dag
    raise InvalidInputError(
        f"DAG {attempt.run.dag_id!r} is no longer in {_file(attempt)}. Put it back, or register the DAG again"
    )


def checked(xcom: dict[str, Any]) -> dict[str, Any]:
    """*xcom* as JSON. Raises InvalidInputError for what JSON cannot hold, or too much of it."""
    try:
        plain: dict[str, Any] = to_jsonable_python(xcom)
        size = len(json.dumps(plain))
    except (PydanticSerializationError, TypeError, ValueError) as error:
        raise InvalidInputError(f"the task's result is not JSON: {error}. Return plain data, or a path to it") from None
    if size > XCOM_LIMIT:
        raise InvalidInputError(
            f"the task's result has {size:,} bytes; at most {XCOM_LIMIT:,} travel between tasks. "
            "Write it to a file or table and return its path"
        )
    return plain


def describe_failure(error: BaseException) -> Failure:
    """The innermost cause in the user's terms: type, message, and the frames of the user's own code."""
    cause = innermost(error)
    frames = [frame for frame in traceback.extract_tb(cause.__traceback__) if not frame.filename.startswith(OURS)]
    lines = [f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" for frame in frames]
    message = str(cause)
    if isinstance(cause, SystemExit):
        message = f"it called sys.exit({cause.code!r})"
    return Failure(
        error_type=type(cause).__name__,
        message=masked(message)[:4000],
        traceback=tuple(masked(line) for line in lines[-20:]),
        kinds=tuple(kind.__name__ for kind in type(cause).__mro__[1:] if kind is not object),
        retryable=not isinstance(error, AirflowFailException),
    )


def innermost(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _file(attempt: TaskAttempt) -> str:
    return attempt.source.path if attempt.source is not None else "its file"
