"""Calls a task's function and tells how that went. Runs only in child processes.

Shared by Python tasks (in a fork), by PySpark functions (in a driver), and by runs in one process.
"""

from __future__ import annotations

import builtins
import inspect
import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ...model.authoring.assets import Metadata, declared
from ...model.authoring.dags import DAG
from ...model.authoring.nodes import Node
from ...model.authoring.operators import session_parameters
from ...model.authoring.other_python import OtherPython
from ...model.authoring.own_operators import OperatorWork
from ...model.errors import InvalidInputError
from ...model.exceptions import AirflowException, AirflowSkipException
from ...model.run.attempts import CallbackCall, TaskAttempt
from ...model.run.context import context, resolve
from ...model.run.context_views import date_of
from ...model.run.current_context import running
from ...model.run.facts import Facts
from ...model.run.poking import poked
from ...model.run.task_instances import Outcome
from ...model.spec.notifiers import Event
from ...model.spec.references import RETURN_VALUE
from ...model.spec.tasks import SensorTask
from ...model.spec.tasks.code import CallTask
from ...model.states import TaskState
from ..processes.answers import Failed, Performed, as_left
from ..secrets import TEMPLATE_NAMES
from . import other_python
from .dag_code import dag_of, file_of
from .failures import Named, describe_failure, name_and_message, print_failure
from .macros import MACROS
from .rendered import shown
from .templates import TemplateSettings, filled, settings_of

if TYPE_CHECKING:
    from .job import Job

XCOM_LIMIT = 64 * 1024 * 1024
"""The most bytes that a task's results may have, also where they are not kept in history."""


class TaskStopped(BaseException):
    """Raised in a task's function when its worker asks it to end: `finally` has a moment to put things in order."""


def run(job: Job) -> Performed | Failed:
    """Calls the function of the request's attempt, and leaves its result where another start of it finds it."""
    signal.signal(signal.SIGTERM, _stop)
    attempt = TaskAttempt.model_validate(job.request["attempt"])
    try:
        dags = job.imported().dags
    except BaseException as error:
        print_failure(error)
        return Failed(failure=describe_failure(error))
    result = perform(dags, attempt, facts=job, on_rendered=lambda fields: _tell_rendered(job, fields))
    # What a stopped one has come to is nobody's result: it goes on elsewhere, as the same try.
    if (folder := job.request.get("folder")) is not None and job.request["work"] == "function" and not _stopped:
        with suppress(OSError):  # another user may not write there: then the worker does, from the answer
            Path(folder, "result.json").write_text(json.dumps(as_left(result)))
    return result


def _tell_rendered(job: Job, fields: dict[str, Any]) -> None:
    if rendered := shown(fields):
        job.tell(rendered=rendered)


FAILED = (Event.ON_FAILURE, Event.ON_RETRY)
_stopped: list[bool] = []


_on_kill: list[Callable[[], Any]] = []


def _stop(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _stopped.append(True)
    for on_kill in _on_kill:
        try:
            on_kill()
        except Exception as error:
            print_failure(error)
    raise TaskStopped("the task was stopped")


Rendered = Callable[[dict[str, Any]], None]


def _unheard(_: dict[str, Any]) -> None:
    """Nobody keeps what templated fields come to."""


def perform(
    dags: list[DAG],
    attempt: TaskAttempt,
    session: Any = None,
    facts: Facts | None = None,
    on_rendered: Rendered = _unheard,
    named: Named = name_and_message,
) -> Performed | Failed:
    """Calls the function of *attempt* and returns what has come of it.

    *session* is the SparkSession that a function of Spark is given; *facts* is whom it may ask;
    *on_rendered* hears what its templated fields come to; *named* is what a failure is called, and what it says.
    """
    started = datetime.now(UTC)
    values = {**context(attempt.seen_by_callback, facts), "macros": MACROS, **TEMPLATE_NAMES}
    try:
        values["dag"] = dag_of(dags, attempt)
        with running(values):
            if attempt.callback is not None:
                call_back(dags, attempt, attempt.callback, values)
                ended = Outcome(started_at=started, xcom=checked(values["ti"].pushed))
                return Performed(outcome=ended)
            result = work(find_node(dags, attempt), attempt, values, session, dag_of(dags, attempt), on_rendered)
        outcome = _ended(attempt, result, started)
        recorded = tuple(values["outlet_events"].recorded())
        xcom = checked({**values["ti"].pushed, **outcome.xcom})
        outcome = outcome.model_copy(update={"xcom": xcom, "asset_events": recorded})
    except AirflowSkipException as skip:
        note = str(skip) or "the task skipped itself"
        outcome = Outcome(state=TaskState.SKIPPED, started_at=started, note=note, xcom=_pushed(values))
    except BaseException as error:
        print_failure(error)
        pushed = _pushed(values) if attempt.callback is None else {}
        failure = describe_failure(error, named).model_copy(update={"xcom": pushed})
        return Failed(failure=failure, started_at=started)
    return Performed(outcome=outcome)


def _pushed(values: dict[str, Any]) -> dict[str, Any]:
    """What the task has pushed before it failed or skipped itself, without what is no JSON: its end goes first."""
    found: dict[str, Any] = {}
    for key, value in values["ti"].pushed.items():
        try:
            found |= checked({key: value})
        except InvalidInputError as error:
            print(f"{key}: {error}", file=sys.stderr)
    return found


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


def work(
    node: Node,
    attempt: TaskAttempt,
    values: dict[str, Any],
    session: Any,
    dag: DAG,
    on_rendered: Rendered = _unheard,
) -> Any:
    """Calls what *node* is about, with what its author wants called before and after."""
    function = node.function
    _on_kill[:] = [] if node.on_kill is None else [node.on_kill]
    for hook in node.before:
        hook(values)
    extensions = getattr(attempt.task, "templates_exts", ())
    settings = settings_of(getattr(function, "template_ext", extensions), dag)
    if isinstance(function, OperatorWork):
        result = _execute(function, attempt, values, settings, on_rendered)
    else:
        result = _call(function, attempt, values, session, settings, on_rendered)
    if inspect.isgenerator(result):
        result = _all_of(result, values)
    for hook in node.after:
        hook(values, result)
    return result


def _all_of(results: Iterator[Any], values: dict[str, Any]) -> list[Any]:
    """What a generator yields, without what it says of assets (Airflow: Metadata)."""
    kept = []
    for one in results:
        if isinstance(one, Metadata):
            events = values["outlet_events"]
            if one.alias is not None:
                events[one.alias].add(one.asset, one.extra)
            else:
                events[one.asset].extra.update(one.extra)
        else:
            kept.append(one)
    return kept


def _call(
    function: Any,
    attempt: TaskAttempt,
    values: dict[str, Any],
    session: Any,
    settings: TemplateSettings,
    on_rendered: Rendered,
) -> Any:
    written = {name: getattr(attempt.task, name, None) or {} for name in CallTask.template_fields}
    found = filled(attempt, written, values, settings, native=attempt.render_template_as_native_obj)
    args, kwargs, templates_dict = found["args"], found["kwargs"], found["templates_dict"]
    values["templates_dict"] = templates_dict or None
    on_rendered({"op_args": args, "op_kwargs": kwargs, "templates_dict": templates_dict})
    if isinstance(function, OtherPython):
        return other_python.call(function, [*args], kwargs, values, _on_kill)
    if session is not None:
        args, kwargs = _with_session(function, session, args, kwargs)
    return function(*args, **kwargs, **from_context(function, values, len(args), kwargs))


def _is_named_only(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)


def _with_session(
    function: Callable[..., Any], session: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of the call with the session, and its context, among them.

    Both have a place by their names, and a call of the file knows nothing of them: so do positions of others.
    """
    placed, named = [*args], {**kwargs}
    parameters = inspect.signature(function).parameters
    places = {name: place for place, name in enumerate(parameters) if not _is_named_only(parameters[name])}
    wanted = session_parameters(function)
    for name in sorted(wanted, key=lambda name: places.get(name, len(parameters))):
        # A session of Spark Connect has no context: then sc is None, as in Airflow.
        value = getattr(session, "sparkContext", None) if name == "sc" else session
        if places.get(name, len(placed) + 1) <= len(placed):
            placed.insert(places[name], value)
        else:
            named[name] = value
    return placed, named


def _execute(
    work: OperatorWork, attempt: TaskAttempt, values: dict[str, Any], settings: TemplateSettings, on_rendered: Rendered
) -> Any:
    """Has an operator of the user's own do its work, its templated fields filled in."""
    kwargs = getattr(attempt.task, "kwargs", {})
    named = {name: value for name, value in kwargs.items() if name in work.template_fields}
    fields = filled(attempt, named, values, settings, native=attempt.render_template_as_native_obj)
    on_rendered(fields)
    operator = work.operator({**resolve(kwargs, attempt.xcom), **fields})
    values["task"] = operator
    _on_kill.append(operator.on_kill)
    operator.pre_execute(values)
    result = operator.execute(values)
    operator.post_execute(values, result)
    return result


def call_back(dags: list[DAG], attempt: TaskAttempt, called: CallbackCall, values: dict[str, Any]) -> None:
    """Calls one of the DAG file's callbacks, with the context as Airflow gives it."""
    functions = _callbacks_of(dags, attempt, called)
    if (state := called.event.state) is not None:
        (values["dag_run"] if called.of_run else values["ti"]).state = str(state)
    if (about := called.about) is not None:
        ti = values["ti"]
        ti.state, ti.max_tries = str(about.state), about.max_tries
        ti.start_date, ti.end_date = date_of(about.started_at), date_of(about.ended_at)
    elif called.event is not Event.ON_EXECUTE and not called.of_run:
        values["ti"].end_date = date_of(datetime.now(UTC))
    exception = exception_of(called.reason) if called.event in FAILED and not called.of_run else None
    functions[called.number]({**values, "exception": exception, "reason": called.reason})


def exception_of(reason: str | None) -> BaseException | None:
    """What a task has failed with, as it is told: an exception of Python's own by its type, else AirflowException."""
    if reason is None:
        return None
    name, _, message = reason.partition(": ")
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:  # such as UnicodeDecodeError, which takes five arguments
            return AirflowException(reason)
    return AirflowException(reason)


def _callbacks_of(dags: list[DAG], attempt: TaskAttempt, called: CallbackCall) -> list[Callable[..., Any]]:
    if called.asset is not None:
        return declared(called.asset).callback_functions()
    dag = dag_of(dags, attempt)
    return (dag if called.of_run else dag.tasks[attempt.task.task_id]).callback_functions(called.event)


def from_context(
    function: Callable[..., Any], values: dict[str, Any], positional: int, kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The variables of the context that *function* takes and was not given."""
    parameters = list(inspect.signature(function).parameters.values())[positional:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return {name: value for name, value in values.items() if name not in kwargs}
    return {p.name: values[p.name] for p in parameters if p.name in values and p.name not in kwargs}


def find_node(dags: list[DAG], attempt: TaskAttempt) -> Node:
    """The task of *attempt* as the file has it now. Raises InvalidInputError if it has none that calls anything."""
    dag = dag_of(dags, attempt)
    found = dag.tasks.get(attempt.task.task_id)
    if found is not None and found.function is not None:
        return found
    raise InvalidInputError(
        f"task {attempt.task.task_id!r} is no longer in DAG {dag.dag_id!r} of {file_of(attempt)}. "
        "Put it back, or register the DAG again"
    )


def checked(xcom: dict[str, Any]) -> dict[str, Any]:
    """*xcom* as JSON. Raises InvalidInputError for what JSON cannot hold, or too much of it."""
    try:
        plain: dict[str, Any] = to_jsonable_python(xcom, inf_nan_mode="constants")
        text = json.dumps(plain, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (PydanticSerializationError, TypeError, ValueError) as error:
        raise InvalidInputError(f"the task's result is not JSON: {error}. Return plain data, or a path to it") from None
    if size > XCOM_LIMIT:
        raise InvalidInputError(
            f"the task's result has {size:,} bytes; at most {XCOM_LIMIT:,} travel between tasks. "
            "Write it to a file or table and return its path"
        )
    return plain
