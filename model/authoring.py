"""A DAG as code, read as Airflow's are: builds what `dag` holds, and keeps the functions beside it.

Nothing here runs a task. The functions stay in the process that imports the DAG file; a task
that is to call one finds it by its task_id, in `DAG.functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from types import TracebackType
from typing import Any, Self, TypeVar

import pendulum
from dateutil.relativedelta import relativedelta

from .base import Model
from .dag import DagSpec, read_dag
from .errors import InvalidInputError
from .references import xcom_reference
from .schedules import ScheduleKind
from .timetables.cron import zone

Schedule = str | timedelta | relativedelta | Sequence[str] | Model | None

T = TypeVar("T")

_current: ContextVar[DAG | None] = ContextVar("tidemill_current_dag", default=None)
_made: list[DAG] = []


class DAG:
    """A set of tasks with a schedule. Arguments have Airflow's names, meanings and defaults.

    Naive dates are read in *timezone*. A bare cron string or timedelta is about the interval that
    has just ended; `schedule_kind="trigger"` gives it the meaning it has by default in Airflow 3.
    """

    def __init__(
        self,
        dag_id: str,
        *,
        schedule: Schedule = None,
        start_date: datetime | None = None,
        end_date: datetime | None = None,
        catchup: bool = False,
        max_active_runs: int = 16,
        max_active_tasks: int = 16,
        dagrun_timeout: timedelta | None = None,
        default_args: dict[str, Any] | None = None,
        params: dict[str, Any] | None = None,
        description: str | None = None,
        doc_md: str | None = None,
        tags: Iterable[str] = (),
        timezone: str | None = None,
        schedule_kind: ScheduleKind = "data_interval",
        is_paused_upon_creation: bool = False,
        allow_trigger_in_future: bool = False,
        render_template_as_native_obj: bool = False,
        heartbeat_timeout: timedelta = timedelta(seconds=20),
    ) -> None:
        self.dag_id = dag_id
        self.default_args = dict(default_args or {})
        start_date = start_date or self.default_args.pop("start_date", None)
        end_date = end_date or self.default_args.pop("end_date", None)
        self.timezone = timezone or _zone_name(start_date) or "UTC"
        self._fields: dict[str, Any] = {
            "dag_id": dag_id,
            "schedule": schedule,
            "schedule_kind": schedule_kind,
            "timezone": self.timezone,
            "start_date": _aware(start_date, self.timezone),
            "end_date": _aware(end_date, self.timezone),
            "catchup": catchup,
            "max_active_runs": max_active_runs,
            "max_active_tasks": max_active_tasks,
            "dagrun_timeout": dagrun_timeout,
            "params": dict(params or {}),
            "description": description,
            "doc_md": doc_md,
            "tags": tuple(tags),
            "is_paused_upon_creation": is_paused_upon_creation,
            "allow_trigger_in_future": allow_trigger_in_future,
            "render_template_as_native_obj": render_template_as_native_obj,
            "heartbeat_timeout": heartbeat_timeout,
        }
        self.tasks: dict[str, Node] = {}
        _made.append(self)

    def __enter__(self) -> Self:
        self._outer = _current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _current.reset(self._outer)

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The function of each task that has one."""
        return {node.task_id: node.function for node in self.tasks.values() if node.function is not None}

    def add(self, node: Node) -> None:
        if node.task_id in self.tasks:
            raise InvalidInputError(
                f"DAG {self.dag_id!r}: task_id {node.task_id!r} is used by 2 tasks. Give each task its own task_id"
            )
        self.tasks[node.task_id] = node

    def free_task_id(self, wanted: str) -> str:
        """*wanted*, or with Airflow's suffix where a task of that name exists: `load__1`, `load__2`."""
        if wanted not in self.tasks:
            return wanted
        n = 1
        while f"{wanted}__{n}" in self.tasks:
            n += 1
        return f"{wanted}__{n}"

    def spec(self, **extra: Any) -> DagSpec:
        """This DAG as data. Raises InvalidInputError with what is wrong and how to mend it."""
        tasks = [node.fields() for node in self.tasks.values()]
        return read_dag({**self._fields, "tasks": tasks, **extra})


class Linked:
    """What `>>` and `<<` put in order: tasks, their results, and lists of them."""

    def nodes(self) -> list[Node]:
        raise NotImplementedError

    def set_downstream(self, other: Any) -> None:
        for below in _nodes(other):
            below.upstream.update(dict.fromkeys(node.task_id for node in self.nodes()))

    def set_upstream(self, other: Any) -> None:
        above = dict.fromkeys(node.task_id for node in _nodes(other))
        for node in self.nodes():
            node.upstream.update(above)

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


class Node(Linked):
    """A task being written: becomes one of the models of `tasks`."""

    def __init__(
        self,
        kind: str,
        task_id: str,
        fields: dict[str, Any],
        *,
        dag: DAG | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        owner = dag or _current.get()
        if owner is None:
            raise InvalidInputError(
                f"task {task_id!r} is outside of any DAG. Write it below `with DAG(...):` or pass dag=..."
            )
        self.dag = owner
        self.kind = kind
        self.task_id = task_id
        self.function = function
        self.upstream: dict[str, None] = {}
        self._fields = fields
        owner.add(self)
        for value in fields.values():
            self._follow(value)

    def nodes(self) -> list[Node]:
        return [self]

    @property
    def output(self) -> Any:
        """The task's result, to be given to another task; a type checker cannot know what it will be."""
        return Output(self)

    def _follow(self, value: Any) -> None:
        """Using a result makes its task an upstream, as in Airflow's TaskFlow."""
        if isinstance(value, Output):
            self.upstream[value.node.task_id] = None
        elif isinstance(value, dict):
            for part in value.values():
                self._follow(part)
        elif isinstance(value, list | tuple):
            for part in value:
                self._follow(part)

    def fields(self) -> dict[str, Any]:
        merged = {**self.dag.default_args, **self._fields}
        for name in ("start_date", "end_date"):
            if name in merged:
                merged[name] = _aware(merged[name], self.dag.timezone)
        return {"kind": self.kind, "task_id": self.task_id, "upstream": tuple(self.upstream), **_plain(merged)}


class Output(Linked):
    """The result that a task will have. Give it to another task, or index it by an XCom key."""

    def __init__(self, node: Node, key: str = "return_value") -> None:
        self.node = node
        self.key = key

    def nodes(self) -> list[Node]:
        return [self.node]

    def __getitem__(self, key: str) -> Output:
        return Output(self.node, key)

    def __str__(self) -> str:
        """In a text, such as a command, a result is a template that asks for it (as in Airflow)."""
        return f"{{{{ ti.xcom_pull(task_ids='{self.node.task_id}', key='{self.key}') }}}}"

    def reference(self) -> dict[str, str]:
        return xcom_reference(self.node.task_id, self.key)


def chain(*steps: Any) -> None:
    """Puts *steps* in order: each a task or a list; lists of one length are linked pairwise (as Airflow's chain)."""
    for first, second in pairwise(steps):
        if isinstance(first, Sequence) and isinstance(second, Sequence):
            if len(first) != len(second):
                raise InvalidInputError(
                    f"chain: a list of {len(first)} tasks is followed by one of {len(second)}. "
                    "Use lists of one length, or put a single task between them"
                )
            for above, below in zip(first, second, strict=True):
                link(above, below)
        else:
            link(first, second)


def cross_downstream(from_tasks: Sequence[Any], to_tasks: Sequence[Any]) -> None:
    """Makes every one of *to_tasks* downstream of every one of *from_tasks*."""
    link(from_tasks, to_tasks)


def link(above: Any, below: Any) -> None:
    for node in _nodes(above):
        node.set_downstream(below)


def current_dag() -> DAG | None:
    """The DAG whose `with` block is being read."""
    return _current.get()


def collect(read: Callable[[], Any]) -> list[DAG]:
    """The DAGs that *read* makes, such as by importing a file."""
    _made.clear()
    read()
    made = [*_made]
    _made.clear()
    return made


def _nodes(value: Any) -> list[Node]:
    if isinstance(value, Linked):
        return value.nodes()
    if isinstance(value, list | tuple):
        return [node for part in value for node in _nodes(part)]
    raise InvalidInputError(f"{value!r} is not a task. Only tasks, their results and lists of them go with >> and <<")


def _plain(value: Any) -> Any:
    """*value* with results of tasks as references, and all else as it is."""
    if isinstance(value, Output):
        return value.reference()
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_plain(part) for part in value)
    return value


def _aware(value: Any, timezone: str) -> Any:
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=zone(timezone))
    if isinstance(value, date):
        return datetime.combine(value, time(), zone(timezone))
    if isinstance(value, str):
        try:
            return pendulum.parse(value, tz=timezone, exact=False)
        except ValueError:
            raise InvalidInputError(
                f"date = {value!r} cannot be read. Write it as 2026-01-31, or with a time"
            ) from None
    return value


def _zone_name(value: datetime | None) -> str | None:
    """The zone that a start_date carries, which Airflow reads the schedule in."""
    tz = getattr(value, "tzinfo", None)
    return getattr(tz, "name", None) or getattr(tz, "key", None)
