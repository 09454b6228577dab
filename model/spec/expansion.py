"""Over which values a task, or a group of tasks, is mapped. What each instance is given is `run.mapping`."""

from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import model_validator

from ..base import Model, OmitDefaults


class Expansion(OmitDefaults, Model):
    """The values that a task, or a group of tasks, is mapped over (Airflow: expand and expand_kwargs).

    `by` is mapped over every combination of its arguments' values, the last changing fastest;
    `each` is a list with the arguments of each instance. Values are lists, dicts (mapped over
    their items), or references to results of other tasks.
    """

    by: dict[str, Any] = {}
    """Values by argument: one instance for each combination."""
    each: Any = None
    """A list of dicts, or a reference to one: one instance for each dict."""
    into: Literal["kwargs", "fields", "index"] = "kwargs"
    """Whether the values are arguments of the task's function, or fields of the task; index: the task finds them by its
    map_index itself."""

    @model_validator(mode="after")
    def _by_or_each(self) -> Self:
        if bool(self.by) == (self.each is not None):
            raise ValueError("expand needs either `by` or `each`. Give one of them")
        for name, values in self.by.items():
            _check(name, values)
        if self.each is not None:
            _check("expand_kwargs", self.each)
        return self


def _check(name: str, values: Any) -> None:
    if isinstance(values, list | tuple | dict):
        return
    raise ValueError(
        f"expand: {name} = {values!r} cannot be mapped over. Give a list, a dict, or the result of another task"
    )


def sources(expansion: Expansion) -> Iterator[Any]:
    """What *expansion* takes its values from."""
    yield from expansion.by.values()
    if expansion.each is not None:
        yield expansion.each
