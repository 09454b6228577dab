"""`expand` and `partial`: a task for each of many values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from ..errors import InvalidInputError
from .links import Output
from .nodes import Node

FIELDS = {"bash_command": "command", "op_args": "args", "op_kwargs": "kwargs", "env_vars": "env"}
"""Arguments of operators that the task's model calls otherwise."""

Each = list[dict[str, Any]] | Output
"""What `expand_kwargs` takes: a list of dicts, or a result that is one."""


def expansion_by(values: dict[str, Any], into: str) -> dict[str, Any]:
    """Mapped over every combination of *values*."""
    if not values:
        raise InvalidInputError("expand() needs an argument to map over, such as expand(x=[1, 2, 3])")
    return {"by": {FIELDS.get(name, name) if into == "fields" else name: v for name, v in values.items()}, "into": into}


def expansion_each(values: Each, into: str) -> dict[str, Any]:
    """Mapped over a list with the arguments of each instance."""
    if into == "fields" and isinstance(values, list):
        values = [{FIELDS.get(name, name): value for name, value in one.items()} for one in values]
    return {"each": values, "into": into}


NOT_CALLED = {"execute", "poke", "pre_execute", "post_execute"}
"""What Airflow's operators are made of. Here a task is data, and its work is a function."""


class Mappable(Node):
    """A task by its Airflow name, which can be mapped: `BashSensor.partial(task_id="x").expand(bash_command=[...])`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in NOT_CALLED & vars(cls).keys():
            raise InvalidInputError(
                f"class {cls.__name__}: {name}() would not be called: what tidemill brings along is data. "
                "Derive the class from BaseOperator, or BaseSensorOperator"
            )

    @classmethod
    def partial(cls, task_id: str, **options: Any) -> Partial[Self]:
        """The arguments that all instances have in common."""
        return Partial(cls, task_id, options)


T = TypeVar("T", bound=Mappable)


class Partial(Generic[T]):
    """An operator with some of its arguments; `expand` gives the others."""

    def __init__(self, operator: type[T], task_id: str, options: dict[str, Any]) -> None:
        self._operator = operator
        self._task_id = task_id
        self._options = options

    def expand(self, **values: Any) -> T:
        """One instance for every combination of *values*, the last changing fastest."""
        return self._made(expansion_by(values, "fields"), values)

    def expand_kwargs(self, values: Each) -> T:
        """One instance for each dict of arguments."""
        known = values[0] if isinstance(values, list) and values else {}
        return self._made(expansion_each(values, "fields"), known)

    def _made(self, expansion: dict[str, Any], given: dict[str, Any]) -> T:
        # What is required and mapped over is not known yet: its place is held by a word that no instance keeps.
        required = {
            name: "mapped"
            for name, parameter in inspect.signature(self._operator.__init__).parameters.items()
            if parameter.default is parameter.empty
            and name not in ("self", "task_id", *self._options)
            and parameter.kind is parameter.KEYWORD_ONLY
            and (name in given or not given)
        }
        make: Callable[..., T] = self._operator
        return make(self._task_id, **{**required, **self._options}, expand=expansion)
