"""Operators and sensors of one's own: Airflow's BaseOperator and BaseSensorOperator.

What such a task does is in its DAG file. As data it is a Python task or a sensor, whose arguments are the values of
its template_fields; the work is `execute` or `poke`, called in a process of the attempt's own.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, Generic, Self, TypeVar

from ..errors import InvalidInputError
from ..spec.tasks import BaseTask
from .links import Linked, Output
from .mapped import Each, expansion_by, expansion_each
from .nodes import Node, Owner, current_dag, line_of_caller

_working: ContextVar[bool] = ContextVar("tidemill_operator_at_work", default=False)
"""Whether it is made to do its work, and not to be a task of the DAG that is being read."""


class _OperatorNode(Node):
    """The task of an operator: its arguments are the operator's templated fields, as they are at last."""

    operator: BaseOperator | None = None

    def fields(self) -> dict[str, Any]:
        if self.operator is not None:
            values = self.operator.templated_values()
            self._follow(values)
            self.options = {**self.options, "kwargs": values}
        return super().fields()


class BaseOperator(Linked):
    """An operator of one's own: ``execute(context)`` does the work, and what it returns is the result.

    ``template_fields`` names the attributes in which templates and results of other tasks are filled in first;
    ``template_ext`` says how names of template files end. ``on_kill()`` is called when the task is stopped.
    All arguments of tasks may be given: retries, pool, trigger_rule, ... (Airflow: BaseOperator).
    """

    template_fields: ClassVar[Sequence[str]] = ()
    template_ext: ClassVar[Sequence[str]] = ()
    _kind: ClassVar[str] = "python"
    _outermost: type[BaseOperator]
    _node: _OperatorNode

    def __init__(self, task_id: str, *, dag: Any = None, **options: Any) -> None:
        self.task_id: str = task_id
        if _working.get():
            return
        node = _OperatorNode(self._kind, task_id, {**options, "takes_context": True}, dag=dag)
        node.function = OperatorWork(type(self), operator=self)
        node.operator = self
        self._node = node
        self.task_id = node.task_id
        self.dag: Owner = node.dag
        self.dag_id: str = node.dag.dag_id
        self.task_type: str = type(self).__name__

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if isinstance(cls.template_fields, str):
            raise InvalidInputError(
                f"class {cls.__name__}: template_fields = {cls.template_fields!r} is a text. Write a tuple of names"
            )
        if "__init__" in vars(cls):
            cls.__init__ = _with_defaults(cls.__init__)  # type: ignore[method-assign]

    def execute(self, context: dict[str, Any]) -> Any:
        """The work. Overridden by every operator."""
        raise NotImplementedError(f"class {type(self).__name__} has no execute(context). Write one")

    def on_kill(self) -> None:
        """Called when the task is stopped while it works."""

    def pre_execute(self, context: dict[str, Any]) -> None:
        """Called before the work, with templates filled in."""

    def post_execute(self, context: dict[str, Any], result: Any = None) -> None:
        """Called after the work, unless that failed."""

    def defer(self, **_: Any) -> None:
        """Airflow hands a task that defers to its triggerer; here sensors wait without a worker."""
        raise InvalidInputError("defer() is not there yet. Wait with a sensor: it holds no worker between two pokes")

    @property
    def log(self) -> logging.Logger:
        """Goes to the task's log."""
        return logging.getLogger(f"airflow.task.operators.{type(self).__module__}.{type(self).__name__}")

    @staticmethod
    def xcom_push(context: dict[str, Any], key: str, value: Any) -> None:
        """Keeps *value* for tasks downstream, under *key*."""
        context["ti"].xcom_push(key, value)

    @staticmethod
    def xcom_pull(context: dict[str, Any], task_ids: Any = None, key: str = "return_value", **more: Any) -> Any:
        """What a task upstream has returned or pushed."""
        return context["ti"].xcom_pull(task_ids=task_ids, key=key, **more)

    @classmethod
    def partial(cls, task_id: str, **options: Any) -> OperatorPartial[Self]:
        """The arguments that all instances have in common."""
        return OperatorPartial(cls, task_id, options)

    @property
    def output(self) -> Any:
        """The task's result, to be given to another task."""
        return Output(self._node)

    def nodes(self) -> Sequence[Node]:
        return [self._node]

    def __getattr__(self, name: str) -> Any:
        """What every task has, such as upstream_list."""
        if name.startswith("_") or "_node" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name in OF_TASKS:
            return self._node.option(name)
        return getattr(self._node, name)

    def as_setup(self) -> Self:
        """Makes the task a setup: what its teardown covers needs it."""
        self._node.as_setup()
        return self

    def as_teardown(self, *, setups: Any = None, on_failure_fail_dagrun: bool = False) -> Self:
        """Makes the task a teardown of *setups*."""
        self._node.as_teardown(setups=setups, on_failure_fail_dagrun=on_failure_fail_dagrun)
        return self

    def templated_values(self) -> dict[str, Any]:
        """The templated attributes that are data; others, such as dates, have nothing to fill in.

        Raises InvalidInputError for a name in template_fields that the operator does not set.
        """
        for name in self.template_fields:
            if not hasattr(self, name):
                raise InvalidInputError(
                    f"task {self.task_id!r}: {type(self).__name__}.template_fields names {name!r}, which its __init__ "
                    "does not set. Set it, or leave it out of template_fields"
                )
        values = {name: getattr(self, name) for name in self.template_fields}
        return {name: value for name, value in values.items() if _is_data(value)}


class BaseSensorOperator(BaseOperator):
    """A sensor of one's own: ``poke(context)`` is called again and again until it returns something true.

    Between two pokes it holds no worker, whatever its `mode` (Airflow: BaseSensorOperator).
    """

    _kind = "sensor"

    def poke(self, context: dict[str, Any]) -> Any:
        """Whether the wait is over; or a `PokeReturnValue`. Overridden by every sensor."""
        raise NotImplementedError(f"class {type(self).__name__} has no poke(context). Write one")

    def execute(self, context: dict[str, Any]) -> Any:
        """One poke."""
        return self.poke(context)


OF_TASKS = BaseTask.model_fields.keys() - {"task_id", "upstream"}
"""Arguments of every task, which its operator has as attributes, too."""
T = TypeVar("T", bound=BaseOperator)


class OperatorWork:
    """What an attempt of an operator's task does: fills in the operator, and calls it."""

    def __init__(
        self, made_by: type[BaseOperator], *, operator: BaseOperator | None = None, given: dict[str, Any] | None = None
    ) -> None:
        self._made_by = made_by
        self._operator = operator
        self._given = given or {}

    @property
    def template_ext(self) -> Sequence[str]:
        """How names of template files end."""
        return self._made_by.template_ext

    @property
    def template_fields(self) -> Sequence[str]:
        """The arguments in which templates are filled in."""
        return self._made_by.template_fields

    def operator(self, values: dict[str, Any]) -> BaseOperator:
        """The operator with *values* in place of its templated fields; of a mapped one, *values* are its arguments."""
        if self._operator is not None:
            for name, value in values.items():
                setattr(self._operator, name, value)
            return self._operator
        token = _working.set(True)
        try:
            return self._made_by(**{**self._given, **values})
        finally:
            _working.reset(token)


class OperatorPartial(Generic[T]):
    """An operator with some of its arguments; `expand` gives the others."""

    def __init__(self, operator: type[T], task_id: str, options: dict[str, Any]) -> None:
        self._made_by = operator
        self._task_id = task_id
        own = _own_arguments(operator)
        self._given = {**_defaults(options.get("dag"), own), **{n: v for n, v in options.items() if n in own}}
        self._options = {name: value for name, value in options.items() if name not in own}

    def expand(self, **values: Any) -> Node:
        """One instance for every combination of *values*, the last changing fastest."""
        return self._made(expansion_by(values, "kwargs"))

    def expand_kwargs(self, values: Each) -> Node:
        """One instance for each dict of arguments."""
        return self._made(expansion_each(values, "kwargs"))

    def _made(self, expansion: dict[str, Any]) -> Node:
        data = {name: value for name, value in self._given.items() if _is_data(value)}
        fields = {**self._options, "takes_context": True, "expand": expansion, "kwargs": data}
        node = Node(self._made_by._kind, self._task_id, fields)
        rest = {name: value for name, value in self._given.items() if name not in data}
        node.dag.own_arguments.update(_own_arguments(self._made_by))
        node.function = OperatorWork(self._made_by, given={"task_id": node.task_id, **rest})
        node._follow([data, expansion])
        return node


def _own_arguments(operator: type[BaseOperator]) -> set[str]:
    """The arguments that the classes below BaseOperator have named themselves."""
    found: set[str] = set()
    for cls in operator.__mro__:
        if cls is BaseOperator:
            break
        if (init := vars(cls).get("__init__")) is not None:
            found |= {name for name, p in inspect.signature(init).parameters.items() if p.kind is not p.VAR_KEYWORD}
    return found - {"self", "task_id"}


def _with_defaults(init: Callable[..., None]) -> Callable[..., None]:
    """*init*, given the default_args of the DAG that it has names for; results among its arguments are upstream."""
    named = [
        name
        for name, p in inspect.signature(init).parameters.items()
        if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]

    @functools.wraps(init)
    def made(self: BaseOperator, *args: Any, **kwargs: Any) -> None:
        if "_outermost" in vars(self):  # called by the constructor of a class below
            init(self, *args, **kwargs)
            return
        if args:
            raise InvalidInputError(
                f"{type(self).__name__}({args[0]!r}, ...): give the arguments of an operator by their names"
            )
        self._outermost = type(self)
        init(self, **{**_defaults(kwargs.get("dag"), named), **kwargs})
        if not _working.get():
            if "_node" not in vars(self):
                raise InvalidInputError(
                    f"class {type(self).__name__}: __init__ does not call super().__init__(**kwargs). Call it"
                )
            self._node.defined_at = line_of_caller()
            self._node.dag.own_arguments.update(named)
            self._node._follow([getattr(self, name, None) for name in self.template_fields])

    return made


def _defaults(dag: Any, named: Iterable[str]) -> dict[str, Any]:
    owner = dag or current_dag()
    if owner is None or _working.get():
        return {}
    return {name: value for name, value in owner.default_args.items() if name in named}


def _is_data(value: Any) -> bool:
    """Whether *value* may be sent to a worker: JSON, with results of tasks in it."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_data(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_data, value))
    return value is None or isinstance(value, str | int | float | bool | Output)
