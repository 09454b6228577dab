"""Tasks by their Airflow names, and the decorators that make tasks of functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from .authoring import DAG, Linked, Node, Output, Schedule, current_dag
from .context import CONTEXT_NAMES
from .errors import InvalidInputError

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

SPARK_OPTIONS = frozenset(
    {
        "master", "deploy_mode", "conf", "driver_memory", "executor_memory", "executor_cores", "num_executors",
        "packages", "jars", "py_files", "files", "name",
    }
)  # fmt: skip


class EmptyOperator(Node):
    """A task that does nothing."""

    def __init__(self, task_id: str, *, dag: DAG | None = None, **options: Any) -> None:
        super().__init__("empty", task_id, options, dag=dag)


class BashOperator(Node):
    """A bash command; its last line of output is the result. Exit code 99 skips the task."""

    def __init__(
        self,
        task_id: str,
        *,
        bash_command: str,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        dag: DAG | None = None,
        **options: Any,
    ) -> None:
        super().__init__("bash", task_id, {**options, "command": bash_command, "env": env or {}, "cwd": cwd}, dag=dag)


class PythonOperator(Node):
    """A call of *python_callable* in a process of its own."""

    def __init__(
        self,
        task_id: str,
        *,
        python_callable: Callable[..., Any],
        op_args: Sequence[Any] = (),
        op_kwargs: dict[str, Any] | None = None,
        dag: DAG | None = None,
        **options: Any,
    ) -> None:
        fields = {
            **options,
            "args": tuple(op_args),
            "kwargs": op_kwargs or {},
            "takes_context": takes_context(python_callable),
        }
        super().__init__("python", task_id, fields, dag=dag, function=python_callable)


class SparkSubmitOperator(Node):
    """A Spark application, submitted with spark-submit.

    *application* is a path, looked up from the DAG file's folder. The flags of spark-submit have
    their own names: master, conf, driver_memory, packages, ...
    """

    def __init__(
        self,
        task_id: str,
        *,
        application: str,
        application_args: Sequence[Any] = (),
        java_class: str | None = None,
        env_vars: dict[str, str] | None = None,
        dag: DAG | None = None,
        **options: Any,
    ) -> None:
        spark, rest = _spark_options(options)
        fields = {
            **rest,
            "application": application,
            "application_args": tuple(a if isinstance(a, Output) else str(a) for a in application_args),
            "java_class": java_class,
            "env": env_vars or {},
            "spark": spark,
        }
        super().__init__("spark_submit", task_id, fields, dag=dag)


def spark_submit(task_id: str, application: str, **options: Any) -> SparkSubmitOperator:
    """`SparkSubmitOperator` as a function."""
    return SparkSubmitOperator(task_id, application=application, **options)


class TaskFunction(Linked, Generic[P, R]):
    """A function that is a task: called below `with DAG(...):` it adds one, and stands for its result.

    Typed as if it ran at once, so that a type checker follows the data from task to task.
    """

    def __init__(self, kind: str, function: Callable[..., Any], given: int, options: dict[str, Any]) -> None:
        self._kind = kind
        self._function = function
        self._given = given
        self._options = options
        self._calls: list[Node] = []
        update_wrapper(cast(Any, self), function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, Output(self._add(args, kwargs)))

    def override(self, **options: Any) -> TaskFunction[P, R]:
        """The same function with other options, such as `task_id` or `retries`."""
        return TaskFunction(self._kind, self._function, self._given, {**self._options, **options})

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

    def _add(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        options = dict(self._options)
        wanted = options.pop("task_id", None) or self._function.__name__
        dag = current_dag()
        self._check_call(args, kwargs)
        spark, rest = _spark_options(options) if self._kind == "pyspark" else ({}, options)
        fields = {
            **rest,
            "args": args,
            "kwargs": kwargs,
            "takes_context": takes_context(self._function),
            **({"spark": spark} if self._kind == "pyspark" else {}),
        }
        node = Node(self._kind, dag.free_task_id(wanted) if dag else wanted, fields, function=self._function)
        self._calls = [call for call in self._calls if call.dag is node.dag] + [node]
        return node

    def _check_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Fails where a plain call would, apart from what is filled in when the task runs."""
        parameters = list(inspect.signature(self._function).parameters.values())[self._given :]
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


_OPEN_ENDED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _TaskDecorator:
    """`@task`, `@task(retries=3)`, `@task.bash`, `@task.pyspark`."""

    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...

    @overload
    def __call__(self, /, **options: Any) -> Callable[[Callable[P, R]], TaskFunction[P, R]]: ...

    def __call__(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """A Python function as a task; what it returns is the result (must be JSON)."""
        return _decorate("python", 0, function, options)

    @overload
    def bash(self, function: Callable[P, str], /) -> TaskFunction[P, str]: ...

    @overload
    def bash(self, /, **options: Any) -> Callable[[Callable[P, str]], TaskFunction[P, str]]: ...

    def bash(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """A function that returns the bash command to run."""
        return _decorate("bash_function", 0, function, options)

    @overload
    def pyspark(self, function: Callable[Concatenate[S, P], R], /) -> TaskFunction[P, R]: ...

    @overload
    def pyspark(self, /, **options: Any) -> Callable[[Callable[Concatenate[S, P], R]], TaskFunction[P, R]]: ...

    def pyspark(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """A function whose first argument is a SparkSession."""
        return _decorate("pyspark", 1, function, options)


task = _TaskDecorator()


def _decorate(kind: str, given: int, function: Callable[..., Any] | None, options: dict[str, Any]) -> Any:
    if function is None:
        return lambda real: TaskFunction(kind, real, given, options)
    return TaskFunction(kind, function, given, options)


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


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether *function* may pull any result: it asks for `ti` or for everything."""
    parameters = inspect.signature(function).parameters.values()
    return any(p.kind is inspect.Parameter.VAR_KEYWORD or p.name in ("ti", "task_instance") for p in parameters)


def _spark_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    spark = {name: value for name, value in options.items() if name in SPARK_OPTIONS}
    if isinstance(spark.get("conf"), dict):
        spark["conf"] = {str(key): value for key, value in spark["conf"].items()}
    return spark, {name: value for name, value in options.items() if name not in SPARK_OPTIONS}
