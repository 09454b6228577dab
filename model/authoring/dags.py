"""A DAG as code, read as Airflow's are: builds what `dag` holds, and keeps the functions beside it.

Nothing here runs a task. The functions stay in the process that imports the DAG file; a task
that is to call one finds it by its task_id, in `DAG.functions`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self, TypeVar, get_args

from dateutil.relativedelta import relativedelta

from ..base import Model
from ..dag import DagSpec, read_dag
from ..errors import InvalidInputError
from ..notifiers import Event
from ..references import CONCAT, ZIP, xcom_reference
from ..schedules import ScheduleKind
from ..tasks import Task
from .callbacks import Callback, functions_of, notifiers_of
from .dates import aware, zone_name

Schedule = str | timedelta | relativedelta | Sequence[str] | Model | None

T = TypeVar("T")

FIELDS_OF_KINDS = {
    kind.model_fields["kind"].default: {*kind.model_fields, *map(str, Event)} for kind in get_args(get_args(Task)[0])
}
"""The options that each kind of task has."""

_current: ContextVar[DAG | None] = ContextVar("tidemill_current_dag", default=None)
_made: list[DAG] = []


class LocalRunner(Protocol):
    """Runs a DAG without a server; the layer above provides it."""

    def __call__(self, dag: DAG, *, logical_date: datetime | None, conf: dict[str, Any] | None) -> Any: ...


class DAG:
    """A set of tasks with a schedule. Arguments have Airflow's names, meanings and defaults.

    Naive dates are read in *timezone*. A bare cron string or timedelta is about the interval that
    has just ended; `schedule_kind="trigger"` gives it the meaning it has by default in Airflow 3.
    """

    local_runner: ClassVar[LocalRunner | None] = None

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
        max_consecutive_failed_dag_runs: int = 0,
        dagrun_timeout: timedelta | None = None,
        fail_fast: bool = False,
        on_success_callback: Callback = None,
        on_failure_callback: Callback = None,
        sla_miss_callback: Callback = None,
        deadline: timedelta | None = None,
        deadline_miss_callback: Callback = None,
        default_args: dict[str, Any] | None = None,
        params: dict[str, Any] | None = None,
        description: str | None = None,
        doc_md: str | None = None,
        tags: Iterable[str] = (),
        timezone: str | None = None,
        schedule_kind: ScheduleKind = "data_interval",
        is_paused_upon_creation: bool = False,
        disable_bundle_versioning: bool = False,
        allow_trigger_in_future: bool = False,
        render_template_as_native_obj: bool = False,
        heartbeat_timeout: timedelta = timedelta(seconds=20),
    ) -> None:
        self.dag_id = dag_id
        self.default_args = dict(default_args or {})
        start_date = start_date or self.default_args.pop("start_date", None)
        end_date = end_date or self.default_args.pop("end_date", None)
        self.timezone = timezone or zone_name(start_date) or "UTC"
        self._fields: dict[str, Any] = {
            "dag_id": dag_id,
            "schedule": schedule,
            "schedule_kind": schedule_kind,
            "timezone": self.timezone,
            "start_date": aware(start_date, self.timezone),
            "end_date": aware(end_date, self.timezone),
            "catchup": catchup,
            "max_active_runs": max_active_runs,
            "max_active_tasks": max_active_tasks,
            "max_consecutive_failed_dag_runs": max_consecutive_failed_dag_runs,
            "dagrun_timeout": dagrun_timeout,
            "fail_fast": fail_fast,
            "deadline": deadline,
            "params": dict(params or {}),
            "description": description,
            "doc_md": doc_md,
            "tags": tuple(tags),
            "is_paused_upon_creation": is_paused_upon_creation,
            "disable_bundle_versioning": disable_bundle_versioning,
            "allow_trigger_in_future": allow_trigger_in_future,
            "render_template_as_native_obj": render_template_as_native_obj,
            "heartbeat_timeout": heartbeat_timeout,
        }
        self._callbacks = {
            "on_success_callback": on_success_callback,
            "on_failure_callback": on_failure_callback,
            "sla_miss_callback": sla_miss_callback,
            "deadline_miss_callback": deadline_miss_callback,
        }
        self.tasks: dict[str, Node] = {}
        self.groups: dict[str, Group] = {}
        self.group: Group | None = None
        """The group whose `with` block is being read."""
        self.edge_labels: dict[str, dict[str, str]] = {}
        self.defined_in = _file_of_caller()
        """The file that the DAG is written in; None where it is typed in."""
        _made.append(self)

    def test(self, logical_date: datetime | None = None, conf: dict[str, Any] | None = None) -> Any:
        """Runs the DAG here and now, without a server (Airflow's dag.test). Returns the run with its tasks."""
        runner = type(self).local_runner
        if runner is None:
            raise InvalidInputError("dag.test() needs the whole of tidemill. Import DAG from `tidemill`")
        return runner(self, logical_date=aware(logical_date, self.timezone), conf=conf)

    def __enter__(self) -> Self:
        self._outer = _current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _current.reset(self._outer)

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The function of each task that has one."""
        return {node.task_id: node.function for node in self.tasks.values() if node.function is not None}

    def callback_functions(self, event: str) -> list[Callable[..., Any]]:
        """The functions that are called for *event* of a run."""
        return functions_of(self._callbacks.get(event))

    def add(self, node: Node) -> None:
        if node.task_id in self.tasks:
            raise InvalidInputError(
                f"DAG {self.dag_id!r}: task_id {node.task_id!r} is used by 2 tasks. Give each task its own task_id"
            )
        self.tasks[node.task_id] = node

    def free_task_id(self, wanted: str) -> str:
        """*wanted*, or with Airflow's suffix where a task of that name exists: `load__1`, `load__2`."""
        taken = {node.task_id for node in self.tasks.values()}
        n, free = 0, wanted
        while (self.group.full_id(free) if self.group is not None else free) in taken:
            n += 1
            free = f"{wanted}__{n}"
        return free

    def spec(self, **extra: Any) -> DagSpec:
        """This DAG as data. Raises InvalidInputError with what is wrong and how to mend it."""
        tasks = [node.fields() for node in self.tasks.values()]
        groups = [group.fields() for group in self.groups.values()]
        return read_dag(
            {
                **self._fields,
                "tasks": tasks,
                "groups": groups,
                "edge_labels": self.edge_labels,
                "callbacks": notifiers_of(self._callbacks),
                **extra,
            }
        )


def _file_of_caller() -> str | None:
    """The file outside of this package that is making a DAG."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(str(Path(__file__).parents[1])) and Path(frame.filename).is_file():
            return str(Path(frame.filename).resolve())
    return None


class Linked:
    """What `>>` and `<<` put in order: tasks, their results, groups, and lists of them."""

    def nodes(self) -> list[Node]:
        raise NotImplementedError

    def firsts(self) -> list[Node]:
        """The tasks that come to stand behind what is upstream."""
        return self.nodes()

    def lasts(self) -> list[Node]:
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
        self.group = owner.group
        self.kind = kind
        self.task_id = self.group.full_id(task_id) if self.group is not None else task_id
        self.function = function
        self.upstream: dict[str, None] = {}
        self.options = fields
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
        return {**{name: value for name, value in common.items() if self._takes(name)}, **self.options}

    def _takes(self, name: str) -> bool:
        """Whether a default argument is for this kind of task. One that is for none is passed on, to be refused."""
        return name in FIELDS_OF_KINDS[self.kind] or not any(name in fields for fields in FIELDS_OF_KINDS.values())

    def callback_functions(self, event: str) -> list[Callable[..., Any]]:
        """The functions that are called for *event* of the task."""
        return functions_of(self._merged().get(event))

    def fields(self) -> dict[str, Any]:
        merged = self._merged()
        callbacks = {event: merged.pop(event) for event in map(str, Event) if event in merged}
        if any(callback is not None for callback in callbacks.values()):
            merged["callbacks"] = notifiers_of(callbacks)
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


class Output(Linked):
    """The result that a task will have. Give it to another task, or index it by an XCom key."""

    def __init__(self, node: Node, key: str = "return_value") -> None:
        self.node = node
        self.key = key

    def nodes(self) -> list[Node]:
        return [self.node]

    def __getitem__(self, key: str) -> Output:
        return Output(self.node, key)

    def zip(self, *others: Any, **fill: Any) -> Combined:
        """Lists of one value of each, to map over; with `fillvalue=` as many as the longest has."""
        return Combined({ZIP: [self, *others], **fill})

    def concat(self, *others: Any) -> Combined:
        """The values of all, one list after the other, to map over."""
        return Combined({CONCAT: [self, *others]})

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


class Combined(Linked):
    """Several results made into one list to map over."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self._parts = parts

    def nodes(self) -> list[Node]:
        return [node for part in self._parts.values() if isinstance(part, list) for node in _results(part)]

    def reference(self) -> dict[str, Any]:
        return dict(plain(self._parts))


class Group(Linked):
    """A group of tasks being written. `groups.TaskGroup` is its face."""

    group_id: str
    default_args: dict[str, Any]
    mapped_over: list[str] | None
    """The tasks whose results the group is mapped over; None: it is not mapped."""

    def full_id(self, task_id: str) -> str:
        raise NotImplementedError

    def fields(self) -> dict[str, Any]:
        raise NotImplementedError


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


def firsts(value: Any) -> list[Node]:
    """The tasks of *value* that come first: those of a group without upstreams in it, or the task itself."""
    return [node for part in _linked(value) for node in part.firsts()]


def lasts(value: Any) -> list[Node]:
    """The tasks of *value* that come last."""
    return [node for part in _linked(value) for node in part.lasts()]


def _linked(value: Any) -> list[Linked]:
    if isinstance(value, Linked):
        return [value]
    if isinstance(value, list | tuple):
        return [linked for part in value for linked in _linked(part)]
    raise InvalidInputError(f"{value!r} is not a task. Only tasks, their results and lists of them go with >> and <<")


def _results(values: Iterable[Any]) -> list[Node]:
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
