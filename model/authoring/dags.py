"""A DAG as code, read as Airflow's are: builds the data of `model.spec.dag`, and keeps the functions beside it.

Nothing here runs a task. The functions stay in the process that imports the DAG file; a task
that is to call one finds it by its task_id, in `DAG.functions`.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Literal, Protocol, Self

from dateutil.relativedelta import relativedelta

from ..base import Model, to_utc
from ..errors import InvalidInputError
from ..spec.dag import DagSpec, read_dag
from ..spec.schedules import ScheduleKind
from ..spec.timetables import Custom, DagRunInfo, DataInterval, TimeRestriction
from ..spec.timetables.base import BaseTimetable, infos_between
from ..spec.timetables.cron import DstPolicy
from .arguments import refuse_unknown, sorted_out
from .assets import schedule_of
from .callbacks import Callback, functions_of, notifiers_of
from .dates import aware, zone_name
from .nodes import Group, Node, reading
from .params import plain_params

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNRESTRICTED = TimeRestriction(earliest=None, latest=None, catchup=True)
Schedule = str | timedelta | relativedelta | Sequence[Any] | Model | Any | None

_made: list[DAG] = []
paused_at_creation: ContextVar[bool] = ContextVar("tidemill_paused_at_creation", default=False)
"""What holds for DAGs that say nothing of is_paused_upon_creation (Airflow: dags_are_paused_at_creation)."""


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
        dag_display_name: str | None = None,
        doc_md: str | None = None,
        tags: Iterable[str] = (),
        timezone: str | None = None,
        schedule_kind: ScheduleKind = "data_interval",
        dst_policy: DstPolicy = "airflow",
        jitter: timedelta | None = None,
        is_paused_upon_creation: bool | None = None,
        disable_bundle_versioning: bool = False,
        rerun_with_latest_version: bool | None = None,
        allowed_run_types: Iterable[str] | str | None = None,
        allow_trigger_in_future: bool = False,
        render_template_as_native_obj: bool = False,
        template_searchpath: str | Iterable[str] | None = None,
        user_defined_macros: dict[str, Any] | None = None,
        user_defined_filters: dict[str, Callable[..., Any]] | None = None,
        jinja_environment_kwargs: dict[str, Any] | None = None,
        asset_backlog: Literal["consume", "airflow"] = "consume",
        heartbeat_timeout: timedelta = timedelta(minutes=5),
        **others: Any,
    ) -> None:
        self.dag_id: str = dag_id
        self.notices: list[str] = []
        """What of Airflow's was written and changes nothing here, in words."""
        self.own_arguments: set[str] = set()
        """What operators of the user's own call their arguments: default_args may be for them."""
        refuse_unknown(f"DAG {dag_id!r}", sorted_out("DAG", f"DAG {dag_id!r}", others, self.notices), ARGUMENTS)
        whose = f"default_args of DAG {dag_id!r}"
        self.default_args: dict[str, Any] = sorted_out("task", whose, default_args or {}, self.notices)
        start_date = start_date or self.default_args.pop("start_date", None)
        end_date = end_date or self.default_args.pop("end_date", None)
        self.timezone: str = timezone or zone_name(start_date) or "UTC"
        self.user_defined_macros: dict[str, Any] = user_defined_macros or {}
        self.user_defined_filters: dict[str, Callable[..., Any]] = user_defined_filters or {}
        self.jinja_environment_kwargs: dict[str, Any] = jinja_environment_kwargs or {}
        self.template_searchpath: tuple[str, ...] = _texts(template_searchpath)
        if isinstance(tags, str):
            raise InvalidInputError(f"DAG {dag_id!r}: tags = {tags!r} is a text. Write a list, such as [{tags!r}]")
        self._fields: dict[str, Any] = {
            "dag_id": dag_id,
            "schedule": schedule_of(schedule),
            "schedule_kind": schedule_kind,
            "dst_policy": dst_policy,
            "jitter": jitter,
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
            "params": plain_params(params),
            "description": description,
            "dag_display_name": dag_display_name,
            "doc_md": doc_md,
            "tags": tuple(tags),
            "is_paused_upon_creation": paused_at_creation.get()
            if is_paused_upon_creation is None
            else is_paused_upon_creation,
            "disable_bundle_versioning": disable_bundle_versioning,
            "rerun_with_latest_version": rerun_with_latest_version,
            "allowed_run_types": _texts(allowed_run_types),
            "allow_trigger_in_future": allow_trigger_in_future,
            "render_template_as_native_obj": render_template_as_native_obj,
            "template_searchpath": self.template_searchpath,
            "templates_need_code": bool(user_defined_macros or user_defined_filters or jinja_environment_kwargs),
            "asset_backlog": asset_backlog,
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
        self.defined_in: str | None = _file_of_caller()
        """The file that the DAG is written in; None where it is typed in."""
        _made.append(self)

    def test(
        self,
        logical_date: datetime | None = None,
        run_conf: dict[str, Any] | None = None,
        conf: dict[str, Any] | None = None,
    ) -> Any:
        """Runs the DAG here and now, without a server (Airflow's dag.test). Returns the run with its tasks.

        Without a *logical_date* that is now (as in Airflow). *conf* is another name of *run_conf*.
        """
        runner = type(self).local_runner
        if runner is None:
            raise InvalidInputError("dag.test() needs the whole of tidemill. Import DAG from `tidemill`")
        return runner(self, logical_date=aware(logical_date, self.timezone), conf=run_conf or conf)

    def next_dagrun_info(
        self, last_automated_dagrun: DataInterval | None, *, restricted: bool = True, now: datetime | None = None
    ) -> DagRunInfo | None:
        """The run after the automated one over *last_automated_dagrun* (None: there was none yet); None: there is none.

        Airflow's method of the same name. *now* matters only without catchup; None: the end of the run before, or the
        start_date. Not *restricted*, it asks the timetable alone, whatever start_date, end_date and catchup say.
        Raises InvalidInputError where a class of one's own is the timetable: `tidemill dags preview` asks that.
        """
        spec = self.spec()
        bounds = spec.restriction if restricted else UNRESTRICTED
        before = last_automated_dagrun.end if last_automated_dagrun is not None else spec.start_date
        return _timetable(spec).next_dagrun_info(last_automated_dagrun, bounds, to_utc(now or before or EPOCH))

    def iter_dagrun_infos_between(
        self, earliest: datetime, latest: datetime, now: datetime | None = None
    ) -> Iterator[DagRunInfo]:
        """The runs whose logical dates are from *earliest* to *latest*, in order (Airflow: the same name)."""
        end = to_utc(latest)
        next_run = _timetable(self.spec()).next_dagrun_info
        return infos_between(next_run, to_utc(earliest), end, to_utc(now) if now is not None else end)

    def on_schedule(self, date: datetime) -> bool:
        """Whether *date*, an aware datetime, is the logical date of one of the DAG's scheduled runs."""
        spec = self.spec()
        return _timetable(spec).on_schedule(to_utc(date), spec.restriction)

    def __enter__(self) -> Self:
        self._outer = reading.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        reading.reset(self._outer)

    @property
    def task_ids(self) -> list[str]:
        return [*self.tasks]

    @property
    def tags(self) -> set[str]:
        return set(self._fields["tags"])

    @property
    def owner(self) -> str:
        """Who the tasks belong to, with commas between (as in Airflow)."""
        owners = [node.options.get("owner") or self.default_args.get("owner") for node in self.tasks.values()]
        return ", ".join(dict.fromkeys(owner for owner in owners if owner)) or "airflow"

    def get_task(self, task_id: str) -> Node:
        """The task of that id. Raises InvalidInputError if there is none."""
        if task_id not in self.tasks:
            raise InvalidInputError(f"DAG {self.dag_id!r} has no task {task_id!r}. It has {', '.join(self.tasks)}")
        return self.tasks[task_id]

    def __getattr__(self, name: str) -> Any:
        """What the DAG was given, by the argument's name, such as start_date or catchup."""
        if name.startswith("_") or name not in self._fields:
            raise AttributeError(f"'DAG' object has no attribute {name!r}")
        return self._fields[name]

    @property
    def doc_md(self) -> str | None:
        """The DAG's documentation, in Markdown; may also be set after the DAG is made, as Airflow's files do."""
        text: str | None = self._fields["doc_md"]
        return text

    @doc_md.setter
    def doc_md(self, text: str | None) -> None:
        self._fields["doc_md"] = text

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
        spec = read_dag(
            {
                **self._fields,
                "tasks": tasks,
                "groups": groups,
                "edge_labels": self.edge_labels,
                "callbacks": notifiers_of(self._callbacks),
                **extra,
            }
        )
        try:
            spec.check_params(formats=True, costly=True)
        except ValueError as error:
            raise InvalidInputError(f"DAG {spec.dag_id!r}: {error}") from None
        return spec


ARGUMENTS = [*inspect.signature(DAG.__init__).parameters]


def _timetable(spec: DagSpec) -> BaseTimetable:
    """What the DAG's schedule is asked by. Raises InvalidInputError for a class of one's own."""
    if isinstance(spec.schedule, Custom):
        raise InvalidInputError(
            f"DAG {spec.dag_id!r}: its timetable is a class of its own, which answers in a process of its own. "
            "Use `tidemill dags preview`"
        )
    return spec.schedule


def _texts(given: str | Iterable[str] | None) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(map(str, given))


def _file_of_caller() -> str | None:
    """The file outside of this package that is making a DAG."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(str(Path(__file__).parents[1])) and Path(frame.filename).is_file():
            return str(Path(frame.filename).resolve())
    return None


def collect(read: Callable[[], Any]) -> list[DAG]:
    """The DAGs that *read* makes, such as by importing a file."""
    _made.clear()
    read()
    made = [*_made]
    _made.clear()
    return made
