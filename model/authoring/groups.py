"""Groups of tasks, and labels on edges."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from ..errors import InvalidInputError
from ..spec.references import MAPPED
from .arguments import refuse_unknown, sorted_out
from .dags import DAG
from .links import Linked, Ordered, firsts, plain
from .mapped import Each, expansion_by, expansion_each
from .nodes import Group, Node, current_dag


class TaskGroup(Group):
    """Tasks that belong together (Airflow: TaskGroup). Their task_ids begin with its id, unless told otherwise."""

    def __init__(
        self,
        group_id: str,
        *,
        prefix_group_id: bool = True,
        tooltip: str | None = None,
        default_args: dict[str, Any] | None = None,
        parent_group: TaskGroup | None = None,
        doc_md: str | None = None,
        dag: DAG | None = None,
        expand: dict[str, Any] | None = None,
        **others: Any,
    ) -> None:
        owner = dag or current_dag()
        if owner is None:
            raise InvalidInputError(f"group {group_id!r} is outside of any DAG. Write it below `with DAG(...):`")
        self.dag = owner
        self._outer = owner.group if parent_group is None else parent_group
        self.group_id: str = f"{self._outer.group_id}.{group_id}" if self._outer is not None else group_id
        if self.group_id in owner.groups:
            raise InvalidInputError(f"group_id {self.group_id!r} is used twice. Give each group its own")
        outer_args = self._outer.default_args if self._outer is not None else {}
        own_args = sorted_out("task", f"default_args of group {self.group_id!r}", default_args or {}, owner.notices)
        self.default_args: dict[str, Any] = {**outer_args, **own_args}
        self.levels = (*(self._outer.levels if self._outer is not None else ()), own_args)
        what = f"group {self.group_id!r}"
        refuse_unknown(what, sorted_out("group", what, others, owner.notices), ARGUMENTS)
        self._prefix = prefix_group_id
        self._tooltip = tooltip or doc_md
        self._expand = expand
        self.mapped_over = None if expand is None else _sources(expand)
        if expand is None and self._outer is not None:
            self.mapped_over = self._outer.mapped_over
        owner.groups[self.group_id] = self

    def __enter__(self) -> Self:
        self._around = self.dag.group
        self.dag.group = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.dag.group = self._around

    def full_id(self, task_id: str) -> str:
        if self._prefix:
            return f"{self.group_id}.{task_id}"
        return self._outer.full_id(task_id) if self._outer is not None else task_id

    def fields(self) -> dict[str, Any]:
        return {"group_id": self.group_id, "tooltip": self._tooltip, "expand": plain(self._expand)}

    def nodes(self) -> list[Node]:
        return [node for node in self.dag.tasks.values() if _is_inside(node, self)]

    def firsts(self) -> list[Node]:
        own = {node.task_id for node in self.nodes()}
        return [node for node in self.nodes() if not own & set(node.upstream)]

    def lasts(self) -> list[Node]:
        """The tasks without downstreams in the group; teardowns are left out, as in Airflow."""
        above = {other for node in self.nodes() if not node.options.get("is_teardown") for other in node.upstream}
        return [n for n in self.nodes() if n.task_id not in above and not n.options.get("is_teardown")]


def _is_inside(node: Node, group: TaskGroup) -> bool:
    inner = node.group
    while isinstance(inner, TaskGroup):
        if inner is group:
            return True
        inner = inner._outer
    return False


def _sources(expand: dict[str, Any]) -> list[str]:
    values: Iterable[Any] = [*expand.get("by", {}).values(), expand.get("each")]
    return [node.task_id for value in values if isinstance(value, Linked) for node in value.nodes()]


class GroupFunction:
    """A function whose body makes the tasks of a group (Airflow: @task_group)."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], given: dict[str, Any] | None = None):
        self._function = function
        self._options = options
        self._given = given or {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Makes the group; what the function returns, or the group itself."""
        return self._made(args, kwargs, None)

    def override(self, **options: Any) -> GroupFunction:
        """The same with other options, such as `group_id`."""
        return GroupFunction(self._function, {**self._options, **options}, self._given)

    def partial(self, **kwargs: Any) -> GroupFunction:
        """The arguments that all instances have in common."""
        return GroupFunction(self._function, self._options, {**self._given, **kwargs})

    def expand(self, **values: Any) -> Any:
        """The group once for every combination of *values*."""
        return self._made((), {name: {MAPPED: name} for name in values}, expansion_by(values, "kwargs"))

    def expand_kwargs(self, values: Each) -> Any:
        """The group once for each dict of arguments."""
        names = [name for name in inspect.signature(self._function).parameters if name not in self._given]
        return self._made((), {name: {MAPPED: name} for name in names}, expansion_each(values, "kwargs"))

    def _made(self, args: tuple[Any, ...], kwargs: dict[str, Any], expand: dict[str, Any] | None) -> Any:
        options = {"group_id": self._function.__name__, "tooltip": self._function.__doc__, **self._options}
        with TaskGroup(options.pop("group_id"), expand=expand, **options) as group:
            result = self._function(*args, **{**self._given, **kwargs})
        return group if result is None else result


def task_group(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """A function whose body makes the tasks of a group; calling it makes the group, named after it."""
    if function is None:
        return lambda real: GroupFunction(real, options)
    return GroupFunction(function, options)


class Label(Linked):
    """A word on an edge: `check >> Label("empty") >> skip` (Airflow: Label)."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._above: list[Ordered] = []
        self._below: list[Ordered] = []

    def nodes(self) -> list[Node]:
        return []

    def follow(self, above: Linked) -> None:
        self._above += above.lasts()
        self._connect()

    def set_downstream(self, other: Any) -> None:
        self._below += firsts(other)
        self._connect()

    def precede(self, below: Linked) -> None:
        self.set_downstream(below)

    def _connect(self) -> None:
        for above in self._above:
            for below in self._below:
                below.upstream[above.task_id] = None
                above.label_edge(below.task_id, self._text)


ARGUMENTS = [*inspect.signature(TaskGroup.__init__).parameters]
