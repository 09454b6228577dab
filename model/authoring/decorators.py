"""The decorators that make tasks and DAGs of functions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, get_origin, overload

from ..errors import InvalidInputError
from ..exceptions import AirflowSkipException
from ..run.context import CONTEXT_NAMES
from .dags import DAG, Schedule
from .links import Linked, Output
from .mapped import Each, expansion_by, expansion_each
from .nodes import Hook, Node, current_dag
from .operators import session_parameters, takes_context
from .other_python import other_python
from .spark_options import spark_options

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

SPARK_KINDS = ("pyspark", "spark_sql_function")
OF_OTHER_PYTHONS = {
    "virtualenv": "python",
    "external_python": "python",
    "branch_virtualenv": "branch",
    "branch_external_python": "branch",
}
"""Decorators whose functions another interpreter calls, and the kind of task that they make."""


class TaskFunction(Linked, Generic[P, R]):
    """A function that is a task: called below `with DAG(...):` it adds one, and stands for its result.

    Typed as if it ran at once, so that a type checker follows the data from task to task.
    """

    def __init__(
        self,
        kind: str,
        function: Callable[..., Any],
        options: dict[str, Any],
        common: dict[str, Any] | None = None,
    ) -> None:
        self._kind = kind
        self._function = function
        self._options = options
        self._common = common or {}
        self._calls: list[Node] = []
        update_wrapper(cast(Any, self), function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, Output(self._add(args, {**self._common, **kwargs})))

    def override(self, **options: Any) -> TaskFunction[P, R]:
        """The same function with other options, such as `task_id` or `retries`."""
        return TaskFunction(self._kind, self._function, {**self._options, **options}, self._common)

    def partial(self, **kwargs: Any) -> TaskFunction[..., R]:
        """The same function with some of its arguments, for `expand` to give the others."""
        return TaskFunction(self._kind, self._function, self._options, {**self._common, **kwargs})

    def expand(self, **values: Any) -> Any:
        """One instance for every combination of *values*, the last changing fastest. Stands for the list of results."""
        return Output(self._add((), self._common, expansion_by(values, "kwargs"), [*values]))

    def expand_kwargs(self, values: Each) -> Any:
        """One instance for each dict of arguments. Stands for the list of results."""
        return Output(self._add((), self._common, expansion_each(values, "kwargs")))

    @property
    def function(self) -> Callable[..., Any]:
        """The plain function, as for a unit test."""
        return self._function

    def nodes(self) -> list[Node]:
        """The task that `>>` means: the only one made of this function so far, or one made now without arguments."""
        if not self._calls:
            self._add((), {})
        if len(self._calls) > 1:
            raise InvalidInputError(
                f"@task {self._function.__name__!r} was called {len(self._calls)} times. "
                "Use the results of the calls with >>, not the function"
            )
        return [self._calls[0]]

    def _add(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        expansion: dict[str, Any] | None = None,
        mapped: list[str] | None = None,
    ) -> Node:
        options = {**self._options}
        wanted = options.pop("task_id", None) or self._function.__name__
        dag = current_dag()
        if expansion is None or mapped is not None:
            self._check_call(args, {**kwargs, **dict.fromkeys(mapped or ())})
        kind, function = OF_OTHER_PYTHONS.get(self._kind, self._kind), self._function
        spark, rest = spark_options(options) if kind in SPARK_KINDS else ({}, options)
        if self._kind in OF_OTHER_PYTHONS:
            function, rest = self._in_other_python(rest)
        elif "multiple_outputs" not in rest and kind in ("python", "pyspark") and _returns_dict(function):
            rest = {**rest, "multiple_outputs": True}
        fields = {
            **rest,
            "args": args,
            "kwargs": kwargs,
            "takes_context": takes_context(self._function),
            **({"expand": expansion} if expansion is not None else {}),
            **({"spark": spark} if kind in SPARK_KINDS else {}),
        }
        node = Node(kind, dag.free_task_id(wanted) if dag else wanted, fields, function=function)
        self._calls = [call for call in self._calls if call.dag is node.dag] + [node]
        return node

    def _in_other_python(self, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        work, rest = other_python(self._function, options)
        if "external" in self._kind and work.python is None:
            raise InvalidInputError(f"@task.{self._kind} {self._function.__name__!r}: give python=, an interpreter")
        return work, rest

    def before(self, hook: Hook) -> TaskFunction[P, R]:
        """The same function, with *hook* called with the context before it."""
        return self.override(pre_execute=[*self._options.get("pre_execute", ()), hook])

    def _check_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Fails where a plain call would, apart from what is filled in when the task runs."""
        given = session_parameters(self._function) if self._kind == "pyspark" else []
        signature = inspect.signature(self._function)
        parameters = [one for name, one in signature.parameters.items() if name not in given]
        own = inspect.Signature(parameters)
        try:
            bound = own.bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidInputError(f"@task {self._function.__name__!r}: {error}. Correct the call") from None
        for parameter in parameters:
            optional = parameter.default is not parameter.empty or parameter.kind in _OPEN_ENDED
            if not optional and parameter.name not in bound and parameter.name not in CONTEXT_NAMES:
                raise InvalidInputError(
                    f"@task {self._function.__name__!r}: argument {parameter.name!r} is missing. Pass it in the call"
                )


def _returns_dict(function: Callable[..., Any]) -> bool:
    """Whether *function* says that it returns a dict: then each of its keys is a result, as in Airflow."""
    annotation = getattr(function, "__annotations__", {}).get("return")
    if isinstance(annotation, str):
        return re.match(r"(typing\.)?(dict|Dict|Mapping)\b", annotation.strip()) is not None
    origin = get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, Mapping)


Condition = Callable[[dict[str, Any]], bool | tuple[bool, str | None]]


def _skipping(condition: Condition, wanted: bool, message: str | None) -> Hook:
    def hook(context: dict[str, Any]) -> None:
        answer = condition(context)
        holds, reason = answer if isinstance(answer, tuple) else (answer, None)
        if bool(holds) is not wanted:
            raise AirflowSkipException(reason or message or f"{'run_if' if wanted else 'skip_if'} says so")

    return hook


def _task_of(made: Any) -> TaskFunction[..., Any]:
    if not isinstance(made, TaskFunction):
        raise InvalidInputError(f"{made!r}: run_if and skip_if stand above @task, and not below it. Swap the two lines")
    return made


_OPEN_ENDED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _TaskDecorator:
    """`@task`, `@task(retries=3)`, `@task.bash`, `@task.pyspark`."""

    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...

    @overload
    def __call__(self, /, **options: Any) -> Callable[[Callable[P, R]], TaskFunction[P, R]]: ...

    def __call__(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """A Python function as a task; what it returns is the result (must be JSON)."""
        return _decorate("python", function, options)

    @overload
    def python(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...

    @overload
    def python(self, /, **options: Any) -> Callable[[Callable[P, R]], TaskFunction[P, R]]: ...

    def python(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """The same as `@task`."""
        return _decorate("python", function, options)

    def virtualenv(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """A function that runs in a virtual environment made for it, with *requirements*; it imports what it uses."""
        return _decorate("virtualenv", function, options)

    def branch_virtualenv(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """The same; it returns the task_ids to go on with."""
        return _decorate("branch_virtualenv", function, options)

    def external_python(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """A function that the interpreter *python* runs; it imports what it uses."""
        return _decorate("external_python", function, options)

    def branch_external_python(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """The same; it returns the task_ids to go on with."""
        return _decorate("branch_external_python", function, options)

    def run_if(self, condition: Condition, /, skip_message: str | None = None) -> Callable[[Any], Any]:
        """Skips the task below unless *condition* of the context holds; it may return (whether, message)."""
        return lambda made: _task_of(made).before(_skipping(condition, True, skip_message))

    def skip_if(self, condition: Condition, /, skip_message: str | None = None) -> Callable[[Any], Any]:
        """Skips the task below if *condition* of the context holds."""
        return lambda made: _task_of(made).before(_skipping(condition, False, skip_message))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        has = ", ".join(f"@task.{n}" for n in sorted(vars(type(self))) if not n.startswith("_"))
        raise InvalidInputError(f"@task.{name} is not there. There are @task, {has}")

    @overload
    def bash(self, function: Callable[P, str], /) -> TaskFunction[P, str]: ...

    @overload
    def bash(self, /, **options: Any) -> Callable[[Callable[P, str]], TaskFunction[P, str]]: ...

    def bash(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """A function that returns the bash command to run."""
        return _decorate("bash_function", function, options)

    @overload
    def branch(self, function: Callable[P, Any], /) -> TaskFunction[P, Any]: ...

    @overload
    def branch(self, /, **options: Any) -> Callable[[Callable[P, Any]], TaskFunction[P, Any]]: ...

    def branch(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """A function that returns the task_ids, or ids of groups, to go on with; the others are skipped."""
        return _decorate("branch", function, options)

    @overload
    def short_circuit(self, function: Callable[P, Any], /) -> TaskFunction[P, Any]: ...

    @overload
    def short_circuit(self, /, **options: Any) -> Callable[[Callable[P, Any]], TaskFunction[P, Any]]: ...

    def short_circuit(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """A function; if it returns something false, what is downstream is skipped."""
        return _decorate("short_circuit", function, options)

    @overload
    def sensor(self, function: Callable[P, Any], /) -> TaskFunction[P, Any]: ...

    @overload
    def sensor(self, /, **options: Any) -> Callable[[Callable[P, Any]], TaskFunction[P, Any]]: ...

    def sensor(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """A function that is called again and again until it returns something true, or a `PokeReturnValue`."""
        return _decorate("sensor", function, options)

    @overload
    def pyspark(self, function: Callable[Concatenate[S, P], R], /) -> TaskFunction[P, R]: ...

    @overload
    def pyspark(self, /, **options: Any) -> Callable[[Callable[Concatenate[S, P], R]], TaskFunction[P, R]]: ...

    def pyspark(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """A function that is given a session as `spark`, its context as `sc`; without them, the session comes first."""
        return _decorate("pyspark", function, options)

    @overload
    def spark_sql(self, function: Callable[P, str], /) -> TaskFunction[P, list[dict[str, Any]]]: ...

    @overload
    def spark_sql(self, /, **options: Any) -> Callable[[Callable[P, str]], TaskFunction[P, list[dict[str, Any]]]]: ...

    def spark_sql(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """A function that returns SQL, or the path of a .sql file; the last statement's rows are the result."""
        return _decorate("spark_sql_function", function, options)


task: _TaskDecorator = _TaskDecorator()


def setup(function: Any) -> Any:
    """Makes a task a setup: `@setup` on a function, or on one that is a task already."""
    made = function if isinstance(function, TaskFunction) else _decorate("python", function, {})
    return made.override(is_setup=True)


def teardown(function: Any = None, /, *, on_failure_fail_dagrun: bool = False) -> Any:
    """Makes a task a teardown: `@teardown`, or `@teardown(on_failure_fail_dagrun=True)`."""
    if function is None:
        return lambda real: teardown(real, on_failure_fail_dagrun=on_failure_fail_dagrun)
    made = function if isinstance(function, TaskFunction) else _decorate("python", function, {})
    return made.override(is_teardown=True, on_failure_fail_dagrun=on_failure_fail_dagrun)


def _decorate(kind: str, function: Callable[..., Any] | None, options: dict[str, Any]) -> Any:
    if function is None:
        return lambda real: TaskFunction(kind, real, options)
    return TaskFunction(kind, function, options)


@overload
def dag(function: Callable[P, Any], /) -> Callable[P, DAG]: ...


@overload
def dag(
    dag_id: str | None = None, /, *, schedule: Schedule = None, **options: Any
) -> Callable[[Callable[P, Any]], Callable[P, DAG]]: ...


def dag(function: Any = None, /, **options: Any) -> Any:
    """A function whose body makes the tasks; calling it makes the DAG, named after it (Airflow's @dag)."""
    if callable(function):
        return _dag_maker(function, None, options)
    dag_id = function if function is not None else options.pop("dag_id", None)
    return lambda real: _dag_maker(real, dag_id, options)


def _dag_maker(function: Callable[..., Any], dag_id: str | None, options: dict[str, Any]) -> Callable[..., DAG]:
    def make(*args: Any, **kwargs: Any) -> DAG:
        documented = {"doc_md": inspect.getdoc(function), **options}
        with DAG(dag_id or function.__name__, **documented) as made:
            function(*args, **kwargs)
        return made

    return make
