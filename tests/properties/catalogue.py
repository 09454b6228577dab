"""The list of properties: what each is called, what it says, and the function that finds where it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Found = Iterator[str]


@dataclass(frozen=True)
class Property:
    """One property. *level* says what is looked at: the kind of a workflow after each workflow task, one history,
    all histories together, or an installation in which everything has come to its end."""

    name: str
    level: str
    text: str
    check: Callable[..., Found]


@dataclass
class Look:
    """A workflow after one of its workflow tasks, and what was seen of it after the one before."""

    workflow_id: str
    now: datetime
    object: Any
    before: dict[str, Any]
    """Empty at the first look."""
    closed: str | None
    """How the execution has closed: `Completed`, `Failed`, `ContinuedAsNew`; None: it has not."""
    memo: dict[str, Any] | None
    """The view in the memo."""
    holding: bool
    """Whether the history is so long that the workflow may hold things back to continue as new."""
    idle: bool
    """Whether the workflow's main loop has nothing more to do, and sleeps."""

    @property
    def state(self) -> Any:
        return self.object.state


PROPERTIES: list[Property] = []
SLEEPS = frozenset({"until", "something_happens"})
"""Coroutines in which the main loops of workflows sleep."""


def sleeps(instance: Any) -> bool:
    """Whether the main coroutine of a workflow, by the SDK's *instance* of it, sleeps where it has nothing to do."""
    coroutine = instance._primary_task.get_coro() if instance._primary_task is not None else None
    while coroutine is not None:
        code = getattr(coroutine, "cr_code", None)
        if code is not None and code.co_name in SLEEPS:
            return True
        coroutine = getattr(coroutine, "cr_await", None)
    return False


def prop(level: str) -> Callable[[Callable[..., Found]], Callable[..., Found]]:
    """Adds the function to the catalogue; its name, with dashes, is the property's, its docstring says what holds."""

    def add(check: Callable[..., Found]) -> Callable[..., Found]:
        name = check.__name__.replace("_", "-")
        assert check.__doc__ is not None, name
        assert name not in {known.name for known in PROPERTIES}, name
        PROPERTIES.append(Property(name, level, " ".join(check.__doc__.split()), check))
        return check

    return add


def of_level(level: str) -> list[Property]:
    """The properties of *level*."""
    return [known for known in PROPERTIES if known.level == level]
