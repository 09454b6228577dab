"""What `>>` and `<<` put in order, and the results that one task gives to another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, Self, TypeVar

from ..errors import InvalidInputError
from ..spec.references import CONCAT, ZIP, xcom_reference

T = TypeVar("T")


class Ordered(Protocol):
    """A task that has its place in the order: `nodes.Node`."""

    task_id: str
    upstream: dict[str, None]

    def set_downstream(self, other: Any) -> None: ...

    def label_edge(self, below: str, text: str) -> None: ...

    def as_setup(self) -> Self: ...

    def as_teardown(self, *, setups: Any = None, on_failure_fail_dagrun: bool = False) -> Self: ...


class Linked:
    """What `>>` and `<<` put in order: tasks, their results, groups, and lists of them."""

    def nodes(self) -> Sequence[Ordered]:
        raise NotImplementedError

    def firsts(self) -> Sequence[Ordered]:
        """The tasks that come to stand behind what is upstream."""
        return self.nodes()

    def lasts(self) -> Sequence[Ordered]:
        """The tasks that what is downstream comes to stand behind."""
        return self.nodes()

    def set_downstream(self, other: Any) -> None:
        for below in _linked(other):
            below.follow(self)

    def set_upstream(self, other: Any) -> None:
        for above in _linked(other):
            above.precede(self)

    def follow(self, above: Linked) -> None:
        """Comes to stand behind *above*."""
        for node in self.firsts():
            node.upstream.update(dict.fromkeys(other.task_id for other in above.lasts()))

    def precede(self, below: Linked) -> None:
        """Comes to stand before *below*."""
        below.follow(self)

    def __rshift__(self, other: T) -> T:
        self.set_downstream(other)
        return other

    def __lshift__(self, other: T) -> T:
        self.set_upstream(other)
        return other

    def __rrshift__(self, other: Any) -> Self:
        self.set_upstream(other)
        return self

    def __rlshift__(self, other: Any) -> Self:
        self.set_downstream(other)
        return self


class Mappable(Linked):
    """What can be put together with others, to map over."""

    def zip(self, *others: Any, **fill: Any) -> Combined:
        """Lists of one value of each, to map over; with `fillvalue=` as many as the longest has."""
        return Combined({ZIP: [self, *others], **fill})

    def concat(self, *others: Any) -> Combined:
        """The values of all, one list after the other, to map over."""
        return Combined({CONCAT: [self, *others]})


class Output(Mappable):
    """The result that a task will have. Give it to another task, or index it by an XCom key."""

    def __init__(self, node: Ordered, key: str = "return_value") -> None:
        self.node = node
        self.key = key

    def nodes(self) -> Sequence[Ordered]:
        return [self.node]

    def __getitem__(self, key: str) -> Output:
        return Output(self.node, key)

    def __iter__(self) -> Any:
        raise InvalidInputError(
            f"the result of task {self.node.task_id!r} is only known when that has run: it cannot be gone through in "
            "the DAG file. Give it to a task as a whole, or map over it with expand()"
        )

    def map(self, _function: Any) -> Combined:
        """Airflow's XComArg.map: here a task of its own does that."""
        raise InvalidInputError(
            f"the result of task {self.node.task_id!r}: map() is not there. Write a @task that does it, and expand it"
        )

    def __str__(self) -> str:
        """In a text, such as a command, a result is a template that asks for it (as in Airflow)."""
        return f"{{{{ ti.xcom_pull(task_ids='{self.node.task_id}', key='{self.key}') }}}}"

    def reference(self) -> dict[str, Any]:
        return dict(xcom_reference(self.node.task_id, self.key))

    def as_setup(self) -> Self:
        """Makes the task of this result a setup."""
        self.node.as_setup()
        return self

    def as_teardown(self, *, setups: Any = None, on_failure_fail_dagrun: bool = False) -> Self:
        """Makes the task of this result a teardown."""
        self.node.as_teardown(setups=setups, on_failure_fail_dagrun=on_failure_fail_dagrun)
        return self


class Combined(Mappable):
    """Several results made into one list to map over."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self._parts = parts

    def nodes(self) -> Sequence[Ordered]:
        return [node for part in self._parts.values() if isinstance(part, list) for node in _results(part)]

    def reference(self) -> dict[str, Any]:
        return dict(plain(self._parts))


def firsts(value: Any) -> Sequence[Ordered]:
    """The tasks of *value* that come first: those of a group without upstreams in it, or the task itself."""
    return [node for part in _linked(value) for node in part.firsts()]


def lasts(value: Any) -> Sequence[Ordered]:
    """The tasks of *value* that come last."""
    return [node for part in _linked(value) for node in part.lasts()]


def _linked(value: Any) -> list[Linked]:
    if isinstance(value, Linked):
        return [value]
    if isinstance(value, list | tuple):
        return [linked for part in value for linked in _linked(part)]
    raise InvalidInputError(f"{value!r} is not a task. Only tasks, their results and lists of them go with >> and <<")


def _results(values: Iterable[Any]) -> Sequence[Ordered]:
    return [node for value in values if isinstance(value, Linked) for node in value.nodes()]


def plain(value: Any) -> Any:
    """*value* with results of tasks as references, and all else as it is."""
    if isinstance(value, Output | Combined):
        return value.reference()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return tuple(plain(part) for part in value)
    return value
