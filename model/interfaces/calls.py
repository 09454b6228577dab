"""Messages to workflows, declared once for who sends them and who handles them.

A class per kind of workflow (`DagInterface`, `RunInterface`, ...) has an annotation per message, whose name is the one
that travels; with `Annotated` another one travels, which earlier releases know. To call a message makes what a client
sends: a `QueryCall`, an `UpdateCall` or a `SignalCall`, with the types of arguments and answer known. Temporal: message
passing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

P = ParamSpec("P")
A = TypeVar("A")


@dataclass(frozen=True)
class QueryCall(Generic[A]):
    """A query with its arguments."""

    name: str
    arguments: tuple[Any, ...]
    answer: Any
    """The type of what is answered: a class, or a form such as `list[RunView]`."""


@dataclass(frozen=True)
class UpdateCall(Generic[A]):
    """An update with its arguments."""

    name: str
    arguments: tuple[Any, ...]
    answer: Any


@dataclass(frozen=True)
class SignalCall:
    """A signal with its arguments."""

    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Query(Generic[P, A]):
    """A question that changes nothing."""

    name: str
    answer: Any

    def __call__(self, *arguments: P.args, **_: P.kwargs) -> QueryCall[A]:
        """Return the query with *arguments*, by position."""
        return QueryCall(self.name, arguments, self.answer)


@dataclass(frozen=True)
class Update(Generic[P, A]):
    """A change that is answered."""

    name: str
    answer: Any

    def __call__(self, *arguments: P.args, **_: P.kwargs) -> UpdateCall[A]:
        """Return the update with *arguments*, by position."""
        return UpdateCall(self.name, arguments, self.answer)


@dataclass(frozen=True)
class Signal(Generic[P]):
    """A message that nobody waits for the answer of."""

    name: str

    def __call__(self, *arguments: P.args, **_: P.kwargs) -> SignalCall:
        """Return the signal with *arguments*, by position."""
        return SignalCall(self.name, arguments)


class Interface:
    """All messages of a kind of workflow."""

    workflow: ClassVar[str]
    """The type of the workflow, by which it is started."""

    @classmethod
    def listed(cls) -> str:
        """Return the query of visibility for workflows of this kind."""
        return f'WorkflowType = "{cls.workflow}"'

    @classmethod
    def running(cls) -> str:
        """Return the query of visibility for those that have not ended."""
        return f'{cls.listed()} AND ExecutionStatus = "Running"'

    def __init_subclass__(cls) -> None:
        for name, annotation in get_type_hints(cls, include_extras=True).items():
            form, travels_as = get_args(annotation) if get_origin(annotation) is Annotated else (annotation, name)
            if (kind := get_origin(form)) in (Query, Update):
                setattr(cls, name, kind(travels_as, get_args(form)[-1]))
            elif kind is Signal:
                setattr(cls, name, Signal(travels_as))
