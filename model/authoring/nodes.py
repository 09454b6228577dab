"""A task being written, and the group that it is written in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol, Self

from ..errors import InvalidInputError
from ..spec.notifiers import Event
from ..spec.tasks import KINDS, BaseTask
from ..spec.tasks.base import DEFAULT_POOL
from .arguments import CALLS, sorted_out
from .assets import leaves_of
from .callbacks import functions_of, notifiers_of
from .dates import aware
from .links import Linked, Ordered, Output, firsts, plain
from .params import plain_params
from .spark_options import SPARK_OPTIONS, merged_options

FIELDS_OF_KINDS = {kind: {*model.model_fields, *map(str, Event)} for kind, model in KINDS.items()}
"""The options that each kind of task has."""


PACKAGE = str(Path(__file__).parents[1])
Hook = Callable[..., Any]


def _hooks(given: Hook | Sequence[Hook] | None) -> list[Hook]:
    """One, several or none, as a list."""
    return [] if given is None else [given] if callable(given) else [*given]


def line_of_caller() -> str:
    """`file:line` of the code outside of this package that is calling."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Owner(Protocol):
    """What a task being written knows of the DAG that it belongs to: `dags.DAG`."""

    dag_id: str

    group: Group | None
    groups: dict[str, Group]
    default_args: dict[str, Any]
    timezone: str
    tasks: dict[str, Node]
    edge_labels: dict[str, dict[str, str]]
    notices: list[str]
    own_arguments: set[str]

    def free_task_id(self, wanted: str) -> str: ...

    def add(self, node: Node) -> None: ...


reading: ContextVar[Owner | None] = ContextVar("tidemill_reading", default=None)
"""The DAG whose `with` block is being read."""


def current_dag() -> Owner | None:
    """The DAG whose `with` block is being read."""
    return reading.get()


class Node(Linked):
    """A task being written: becomes one of the models of `tasks`."""

    def __init__(
        self,
        kind: str,
        task_id: str,
        fields: dict[str, Any],
        *,
        dag: Owner | None = None,
        function: Any = None,
    ) -> None:
        owner = dag or reading.get()
        if owner is None:
            raise InvalidInputError(
                f"task {task_id!r} is outside of any DAG. Write it below `with DAG(...):` or pass dag=..."
            )
        self.dag = owner
        group: Group | None = fields.pop("task_group", None)
        self.group: Group | None = owner.group if group is None else group
        self.defined_at: str = line_of_caller()
        """`file:line` where it is written."""
        self.kind = kind
        self.task_id: str = self.group.full_id(task_id) if self.group is not None else task_id
        self.function: Any = function
        """What an attempt calls: a function, or `OperatorWork`, or `OtherPython`; None: nothing of the file."""
        self.on_kill: Callable[[], Any] | None = fields.pop("on_kill", None)
        """Called in the function's process when it is asked to stop, before the function hears of it."""
        if self.on_kill is not None and function is None:
            raise InvalidInputError(
                f"task {self.task_id!r}: on_kill is for tasks that call a function; {kind!r} calls none. Leave it out"
            )
        self.before: list[Hook] = _hooks(fields.pop("pre_execute", None))
        """Called with the context before the task's function."""
        self.after: list[Hook] = _hooks(fields.pop("post_execute", None))
        """Called with the context and the result after it."""
        if (self.before or self.after) and kind not in CALLS:
            raise InvalidInputError(
                f"task {self.task_id!r}: pre_execute, post_execute, run_if and skip_if are for tasks that call a "
                f"function; {kind!r} calls none. Leave them out"
            )
        self.upstream: dict[str, None] = {}
        self.options: dict[str, Any] = sorted_out("task", f"task {self.task_id!r}", fields, owner.notices, kind)
        owner.add(self)
        for value in fields.values():
            self._follow(value)

    def nodes(self) -> Sequence[Ordered]:
        return [self]

    def label_edge(self, below: str, text: str) -> None:
        self.dag.edge_labels.setdefault(self.task_id, {})[below] = text

    @property
    def output(self) -> Any:
        """The task's result, to be given to another task; a type checker cannot know what it will be."""
        return Output(self)

    @property
    def upstream_task_ids(self) -> set[str]:
        """The tasks directly upstream, as far as the file has been read."""
        return set(self.upstream)

    @property
    def downstream_task_ids(self) -> set[str]:
        """The tasks directly downstream, as far as the file has been read."""
        return {task_id for task_id, node in self.dag.tasks.items() if self.task_id in node.upstream}

    @property
    def upstream_list(self) -> list[Node]:
        """The same as tasks."""
        return [self.dag.tasks[task_id] for task_id in self.upstream if task_id in self.dag.tasks]

    @property
    def downstream_list(self) -> list[Node]:
        """The same as tasks."""
        return [node for node in self.dag.tasks.values() if self.task_id in node.upstream]

    @property
    def doc_md(self) -> str | None:
        """The task's documentation, in Markdown; may also be set after the task is made."""
        return self.options.get("doc_md")

    @doc_md.setter
    def doc_md(self, text: str | None) -> None:
        self.options = {**self.options, "doc_md": text}

    def _follow(self, value: Any) -> None:
        """Using a result makes its task an upstream, as in Airflow's TaskFlow."""
        if isinstance(value, Linked):
            self.upstream.update(dict.fromkeys(node.task_id for node in value.nodes()))
        elif isinstance(value, dict):
            for part in value.values():
                self._follow(part)
        elif isinstance(value, list | tuple):
            for part in value:
                self._follow(part)

    def _merged(self) -> dict[str, Any]:
        """The task's own options over those of its group and its DAG."""
        in_group = self.group.default_args if self.group is not None else {}
        common = {**self.dag.default_args, **in_group}
        merged = {**{name: value for name, value in common.items() if self._takes(name)}, **self.options}
        if "spark" in FIELDS_OF_KINDS[self.kind]:
            levels = (self.dag.default_args, *(self.group.levels if self.group is not None else ()))
            merged["spark"] = merged_options(levels, self.options.get("spark") or {})
        return merged

    def option(self, name: str) -> Any:
        """What holds for the task of an argument that every task has, its default where nothing is said."""
        usual = BaseTask.model_fields[name].get_default(call_default_factory=True)
        return self._merged().get(name, "airflow" if name == "owner" else usual)

    def _takes(self, name: str) -> bool:
        """Whether a default argument is for this kind of task. One that is for none is passed on, to be refused."""
        others = name in SPARK_OPTIONS or any(name in fields for fields in FIELDS_OF_KINDS.values())
        return name in FIELDS_OF_KINDS[self.kind] or not (others or name in self.dag.own_arguments)

    def callback_functions(self, event: str) -> list[Callable[..., Any]]:
        """The functions that are called for *event* of the task."""
        return functions_of(self._merged().get(event))

    def fields(self) -> dict[str, Any]:
        merged = self._merged()
        callbacks = {event: merged.pop(event) for event in map(str, Event) if event in merged}
        if any(callback is not None for callback in callbacks.values()):
            merged["callbacks"] = notifiers_of(callbacks)
        if merged.get("pool") == DEFAULT_POOL:
            del merged["pool"]
        if "params" in merged:
            merged["params"] = plain_params(merged["params"])
        for name in ("outlets", "inlets"):
            if merged.get(name) is not None:
                merged[name] = leaves_of(merged[name])
            else:
                merged.pop(name, None)
        for name in ("start_date", "end_date"):
            if name in merged:
                merged[name] = aware(merged[name], self.dag.timezone)
        if self.group is not None:
            merged["group"] = self.group.group_id
            if self.group.mapped_over is not None and not self._in_mapped_group(self.group.mapped_over):
                self.upstream.update(dict.fromkeys(self.group.mapped_over))
        return {"kind": self.kind, "task_id": self.task_id, "upstream": tuple(self.upstream), **plain(merged)}

    def _in_mapped_group(self, sources: Iterable[str]) -> bool:
        """Whether a task of the same mapped group is upstream, so that the values are known when this one runs."""
        return any(self.dag.tasks[other].group is self.group for other in self.upstream if other not in sources)

    def as_setup(self) -> Self:
        """Makes the task a setup: what its teardown covers needs it."""
        self.options = {**self.options, "is_setup": True}
        return self

    def as_teardown(self, *, setups: Any = None, on_failure_fail_dagrun: bool = False) -> Self:
        """Makes the task a teardown of *setups*: runs when the work between is done, however that ended."""
        self.options = {**self.options, "is_teardown": True, "on_failure_fail_dagrun": on_failure_fail_dagrun}
        if setups is not None:
            for setup in firsts(setups):
                setup.as_setup()
            self.set_upstream(setups)
        return self


class Group(Linked):
    """A group of tasks being written. `groups.TaskGroup` is its face."""

    group_id: str
    default_args: dict[str, Any]
    levels: tuple[dict[str, Any], ...]
    """The default_args of each group that it is in, the outermost first, and its own."""
    mapped_over: list[str] | None
    """The tasks whose results the group is mapped over; None: it is not mapped."""

    def full_id(self, task_id: str) -> str:
        raise NotImplementedError

    def fields(self) -> dict[str, Any]:
        raise NotImplementedError
