"""A DAG as data: what is stored, sent and shown. Written by `authoring`, or by hand as JSON."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    ValidationError,
    field_validator,
    model_validator,
)

from ..base import AS_WRITTEN, Instant, Model, OmitDefaults, PositiveDuration, bounded
from ..errors import InvalidInputError, explain
from ..names import NAME
from .assets.condition import assets_in, leaves
from .assets.identity import Asset, has_password
from .deadlines import DeadlineAlert
from .expansion import Expansion, sources
from .graph import ancestors, cycle, downstreams
from .notifiers import Callbacks
from .owned import Kind, OwnedNames
from .params import check_params, check_schemas
from .priorities import priority_weights
from .references import referenced_tasks
from .schedules import ScheduleKind, read_schedule
from .task_groups import TaskGroup
from .tasks import Task, require_order
from .tasks.foreign import check_is_foreign
from .timetables import Continuous, Null, TimeRestriction, Timetable, waited_for
from .timetables.cron import DstPolicy, zone
from .trigger_rule import TriggerRule

MAX_ACTIVE_TASKS = 500
"""So many tasks of a DAG may run at a time: each is in the history of its run at once."""
MAX_TERMS = 1000
"""So many assets a schedule may name."""
TypeOfRun = Literal["scheduled", "manual", "backfill", "asset_triggered", "asset_materialization", "operator_triggered"]


class DagSource(OmitDefaults, Model):
    """The file that a DAG was read from: where functions of its tasks are found."""

    path: str
    """The path of the DAG file on the worker that read it."""
    sha256: str
    """The SHA-256 of its content."""
    bundle: str | None = None
    """The bundle that it belongs to."""
    name: str | None = None
    """The file's path from the root of its bundle."""
    root: str | None = None
    """The root of its bundle, where that is a folder."""
    snapshot: str | None = None
    """The kept copy of the file and of all that it needs. None: it is only where `path` says."""
    imports_airflow: bool = False
    """Whether the file imports Airflow: it is imported in processes that have."""
    owns: OwnedNames | None = None
    """What the bundle's DAGs may give and use; None: no rule."""

    @field_validator("name")
    @classmethod
    def _inside(cls, name: str | None) -> str | None:
        """Refuses a path that leads out of the bundle: workers and the web read what it names."""
        if name is not None and (name.startswith("/") or ".." in name.split("/") or "\0" in name):
            raise ValueError(f"{name!r} is not inside its bundle. Write the path from the bundle's root")
        return name


class DagSpec(OmitDefaults, Model):
    """A DAG: its tasks and when they run. Names and defaults are Airflow's.

    `schedule` may be written as a timetable, a cron string or preset, a number of seconds, or
    null. `schedule_kind` says what a bare cron string or duration means: `data_interval` (a run is
    about the stretch that has just ended; the default) or `trigger` (Airflow 3's own default).
    """

    spec_version: Literal[1] = 1
    """The version of this format."""
    dag_id: Annotated[str, Field(pattern=NAME, max_length=250)]
    """Unique within the Temporal namespace."""
    dag_display_name: str | None = None
    """What people read in the place of the dag_id."""
    description: str | None = None
    """A line for lists."""
    doc_md: str | None = None
    """Documentation in Markdown, for the web page of the DAG."""
    tags: tuple[str, ...] = ()
    """Labels to filter lists by, and to restrict API tokens to."""
    schedule: Timetable = Null()
    """When runs are created: a cron expression, a preset such as "@daily", seconds, several expressions, a timetable,
    assets, or null."""
    schedule_kind: ScheduleKind = "data_interval"
    """What a bare cron expression or a number means: runs over data intervals, or runs at the moment itself."""
    timezone: str = "UTC"
    """The IANA time zone of the schedule and of dates without one."""
    dst_policy: DstPolicy = "airflow"
    """What the schedule's expression means where the clocks of the time zone change."""
    jitter: PositiveDuration | None = None
    """Over what time the starts of due runs are spread: each falls on a moment of its own within it, the same always
    for the same DAG and run. Less than the time between two runs: without catchup, one that the next has overtaken is
    left out."""
    start_date: Instant | None = None
    """No data interval begins before it; tasks may have dates of their own."""
    end_date: Instant | None = None
    """No run is created for a logical date after it."""
    catchup: bool = False
    """Whether intervals that were missed get their runs; else only the latest one."""
    max_active_runs: NonNegativeInt = 16
    """How many runs are queued or running at once, without backfills. 0, with which none begins, is for Airflow's
    files."""
    max_active_tasks: Annotated[int, Field(ge=1, le=MAX_ACTIVE_TASKS)] = 16
    """How many tasks of one run are queued or running at once."""
    max_consecutive_failed_dag_runs: NonNegativeInt = 0
    """After how many failed runs in a row the DAG is paused; 0: never."""
    dagrun_timeout: PositiveDuration | None = None
    """How long a run may take from its start before it fails."""
    deadline: PositiveDuration | None = None
    """How long after it fell due a run should have ended; else `deadline_miss_callback` is called, once."""
    deadline_alerts: tuple[DeadlineAlert, ...] = ()
    """Those of a file that is written for Airflow, which may have several; each calls its own function, once."""
    callbacks: Callbacks = {}
    """Who is told what of runs; in Python written as on_failure_callback and so on."""
    fail_fast: bool = False
    """Whether the first task that fails for good ends the others: running ones fail, the rest is skipped."""
    is_paused_upon_creation: bool = False
    """Whether the DAG is paused when it is registered for the first time."""
    disable_bundle_versioning: bool = False
    """Whether tasks run the newest code, and not that of the version that their run was created with."""
    rerun_with_latest_version: bool | None = None
    """Whether a run that is cleared goes on with the version in place. None: as its bundle is, see `reruns_latest`."""
    allowed_run_types: tuple[TypeOfRun, ...] = ()
    """The types that runs may have; none given: all."""
    allow_trigger_in_future: bool = False
    """Whether a manual run of a DAG without a schedule starts at once though its logical date is in the future."""
    params: dict[str, Any] = {}
    """Defaults of conf; one may be {"value": ..., "schema": a JSON schema}."""
    render_template_as_native_obj: bool = False
    """Whether templates give Python values instead of text."""
    template_searchpath: tuple[str, ...] = ()
    """Folders that template files are looked for in, beside that of the DAG file, which relative ones begin at."""
    templates_need_code: bool = False
    """Whether the DAG file has macros, filters or settings of its own for templates, and is imported to fill them."""
    asset_backlog: Literal["consume", "airflow"] = "consume"
    """What becomes of events that came after the first of their asset, or while no run was let in: the next run takes
    them, or they wait for another event, as in Airflow."""
    heartbeat_timeout: Annotated[timedelta, Field(ge=timedelta(seconds=1)), AfterValidator(bounded)] = timedelta(
        minutes=5
    )
    """How long a task's worker may be silent before the attempt is handed to another."""
    tasks: tuple[Task, ...] = ()
    """The tasks, in the order of the file."""
    groups: tuple[TaskGroup, ...] = ()
    """The task groups, outer ones first."""
    edge_labels: dict[str, dict[str, str]] = {}
    """What to write on the edge from a task to one downstream of it, in a picture of the DAG."""
    written_for: Literal["tidemill", "airflow"] = "tidemill"
    """Whose classes the DAG is written with."""
    source: DagSource | None = None
    """The file that the DAG was read from; None where it was registered as JSON."""

    @model_validator(mode="before")
    @classmethod
    def _schedule_in_short(cls, fields: Any) -> Any:
        return read_schedule(fields) if isinstance(fields, dict) else fields

    @model_validator(mode="after")
    def _whole(self) -> Self:
        zone(self.timezone)
        self.schedule.check()
        require_order("the DAG", self.start_date, self.end_date)
        if self.catchup and self.restriction.earliest is None:
            raise ValueError("catchup = True needs a start_date: the first interval to catch up on. Give a start_date")
        if self.max_active_runs == 0 and self.written_for != "airflow":
            raise ValueError("max_active_runs = 0: no run would begin. Give at least 1, or pause the DAG")
        if isinstance(self.schedule, Continuous) and self.max_active_runs != 1:
            raise ValueError(
                f"max_active_runs = {self.max_active_runs} does not go with @continuous. Set max_active_runs to 1"
            )
        if self.jitter is not None and self.schedule.answers_by_moment:
            raise ValueError(
                f"jitter = {self.jitter} does not go with a schedule of kind {self.schedule.kind}: its runs are due "
                "when they are asked for. Leave jitter out"
            )
        self._check_graph()
        self.check_params(formats=False)
        self._check_fail_fast()
        self._check_assets()
        if waited_for(self.schedule) is not None:
            self._check_condition()
        elif not isinstance(self.schedule, Null):
            self.check_run_type("scheduled")
        return self

    def _check_assets(self) -> None:
        condition = waited_for(self.schedule)
        named = [leaf for task in self.tasks for leaf in (*task.outlets, *task.inlets)]
        for leaf in [*named, *(leaves(condition) if condition is not None else ())]:
            if isinstance(leaf, Asset) and has_password(leaf.name):
                raise ValueError(
                    f"an asset's name has a password in it: that of {leaf.uri}. Give the asset a name= beside its uri"
                )

    def _check_condition(self) -> None:
        self.check_run_type("asset_triggered")
        condition = waited_for(self.schedule)
        terms = 0 if condition is None else sum(1 for _ in leaves(condition))
        if terms > MAX_TERMS:
            raise ValueError(f"schedule has {terms:,} assets, and may have {MAX_TERMS:,}. Wait for fewer")

    def check_run_type(self, run_type: str) -> None:
        """Raises InvalidInputError for a type of run that the DAG does not allow."""
        if self.allowed_run_types and run_type not in self.allowed_run_types:
            raise InvalidInputError(
                f"DAG {self.dag_id!r} has no runs of type {run_type}: allowed_run_types = "
                f"{', '.join(self.allowed_run_types)}. Add the type there"
            )

    def _check_mapping(self) -> None:
        for task_id in self.mapped:
            for other in self.mapped_over(task_id):
                if other not in self.by_id:
                    raise ValueError(
                        f"task {task_id!r} is mapped over the result of {other!r}, which is not a task of this DAG"
                    )
        known = {group.group_id for group in self.groups}
        for task in self.tasks:
            groups = [*enclosing(task.group)]
            if task.group is not None and task.group not in known:
                raise ValueError(f"task {task.task_id!r}: group = {task.group!r} is not among the groups of this DAG")
            mapped = [group.group_id for group in self.groups if group.expand is not None and group.group_id in groups]
            if len(mapped) + (task.expand is not None) > 1:
                raise ValueError(
                    f"task {task.task_id!r} is mapped more than once ({', '.join(mapped)}). "
                    "Map either the task or one group around it"
                )

    def _check_fail_fast(self) -> None:
        for task in self.tasks:
            if self.fail_fast and not task.is_teardown and task.trigger_rule is not TriggerRule.ALL_SUCCESS:
                raise ValueError(
                    f"task {task.task_id!r}: trigger_rule {task.trigger_rule} does not go with fail_fast. "
                    "Use all_success, or leave fail_fast out"
                )

    def check_params(self, *, formats: bool, costly: bool = False) -> None:
        """Raises ValueError for params that can fit no run; with *formats* also by the formats of their defaults.

        *costly*: also where that may take for ever, which only a process of the DAG's own may.
        """
        check_params(self.params, defaults=not isinstance(self.schedule, Null), formats=formats, costly=costly)

    def _check_graph(self) -> None:
        counts = Counter(task.task_id for task in self.tasks)
        for task_id, n in counts.items():
            if n > 1:
                raise ValueError(f"task_id {task_id!r} is used by {n} tasks. Give each task its own task_id")
        for task in self.tasks:
            for other in (*task.upstream, *sorted(task.uses())):
                if other not in counts:
                    raise ValueError(
                        f"task {task.task_id!r} names upstream {other!r}, which is not a task of this DAG. "
                        f"Its tasks are: {', '.join(sorted(counts))}"
                    )
        if (loop := cycle(self.upstreams)) is not None:
            raise ValueError(
                f"task {loop[0]!r} is downstream of itself ({' >> '.join(loop)}). Remove one of these edges"
            )
        self._check_mapping()
        for task in self.tasks:
            used = task.uses()
            for other in sorted(used - ancestors(self.upstreams, task.task_id) if used else ()):
                raise ValueError(
                    f"task {task.task_id!r} uses the result of {other!r} without being downstream of it. "
                    f"Add {other!r} to its upstream"
                )

    @property
    def folder(self) -> str | None:
        """Where the DAG's file is; modules beside it can be imported by its timetable and tasks."""
        return self.source.path.rpartition("/")[0] if self.source is not None else None

    @property
    def bundle(self) -> str | None:
        """The bundle that the DAG's file belongs to."""
        return self.source.bundle if self.source is not None else None

    @property
    def reruns_latest(self) -> bool:
        """Whether a run that is cleared goes on with the version in place, where nobody says.

        Without a word of the DAG's, one of a plain folder does (as in Airflow: there is no older file to run).
        """
        if self.rerun_with_latest_version is not None:
            return self.rerun_with_latest_version
        return self.source is not None and self.source.root is not None

    @property
    def owns(self) -> OwnedNames | None:
        """What the names of the DAG's bundle have to begin with; None: no rule."""
        return self.source.owns if self.source is not None else None

    def names_used(self) -> Iterator[tuple[Kind, str]]:
        """What the DAG is called, and the pools and assets that its tasks take slots of and tell of."""
        yield "dag_id", self.dag_id
        condition = waited_for(self.schedule)
        for asset in assets_in(condition) if condition is not None else ():
            if asset.watchers or asset.on_late:  # who waits for it may not say what becomes of it
                yield "asset", asset.name
        for task in self.tasks:
            if task.pool is not None:
                yield "pool", task.pool
            for outlet in task.outlets:
                yield "asset", outlet.name or getattr(outlet, "uri", None) or ""

    @cached_property
    def upstreams(self) -> dict[str, tuple[str, ...]]:
        return {task.task_id: task.upstream for task in self.tasks}

    @cached_property
    def downstreams(self) -> dict[str, list[str]]:
        return downstreams(self.upstreams)

    @cached_property
    def by_id(self) -> dict[str, Task]:
        return {task.task_id: task for task in self.tasks}

    @cached_property
    def mapped(self) -> dict[str, Expansion]:
        """What each mapped task is mapped over, by itself or with its group."""
        groups = {group.group_id: group.expand for group in self.groups if group.expand is not None}
        found = {}
        for task in self.tasks:
            expansion = task.expand or next((groups[name] for name in enclosing(task.group) if name in groups), None)
            if expansion is not None:
                found[task.task_id] = expansion
        return found

    @cached_property
    def map_scopes(self) -> dict[str, str]:
        """What each mapped task is mapped together with: its group, or itself alone."""
        groups = {group.group_id for group in self.groups if group.expand is not None}
        return {
            task_id: task_id
            if self.by_id[task_id].expand is not None
            else next(name for name in enclosing(self.by_id[task_id].group) if name in groups)
            for task_id in self.mapped
        }

    def mapped_over(self, task_id: str) -> list[str]:
        """The tasks whose results *task_id* is mapped over."""
        found = {name for value in sources(self.mapped[task_id]) for name in referenced_tasks(value)}
        return sorted(found)

    @cached_property
    def restriction(self) -> TimeRestriction:
        """The bounds on this DAG's runs (Airflow: a task's own dates only count where the DAG has none)."""
        starts = [task.start_date for task in self.tasks if task.start_date is not None]
        ends = [task.end_date for task in self.tasks if task.end_date is not None]
        open_ended = len(ends) < len(self.tasks)
        return TimeRestriction(
            earliest=self.start_date or min(starts, default=None),
            latest=self.end_date or (None if open_ended else max(ends, default=None)),
            catchup=self.catchup,
        )

    @property
    def owners(self) -> tuple[str, ...]:
        """Who owns its tasks, each once; a task may name several, with commas between them (as in Airflow)."""
        return tuple(sorted({name.strip() for task in self.tasks for name in (task.owner or "").split(",")} - {""}))

    @property
    def display_name(self) -> str:
        """What people read in the place of the dag_id (Airflow: dag_display_name)."""
        return self.dag_display_name or self.dag_id

    @cached_property
    def weights(self) -> dict[str, int]:
        """The priority of each task, with the weights that its rule adds."""
        return priority_weights(self.by_id)

    @cached_property
    def version(self) -> str:
        """A short content hash: equal for equal DAGs, wherever and whenever they were read.

        A pool that a kind of task has by default counts as none: the specs of runs have it written in.
        """
        return sha256(without_default_pools(self).model_dump_json().encode()).hexdigest()[:12]


def enclosing(group: str | None) -> Iterator[str]:
    """A group and those that it is in, innermost first."""
    while group:
        yield group
        group = group.rpartition(".")[0]


def without_default_pools(spec: DagSpec) -> DagSpec:
    """*spec* without the pools that kinds of tasks have by default: as files write it that name none."""
    defaults = {task.task_id for task in spec.tasks if task.pool is not None and task.pool == task.default_pool}
    if not defaults:
        return spec
    tasks = (task.model_copy(update={"pool": None}) if task.task_id in defaults else task for task in spec.tasks)
    return spec.model_copy(update={"tasks": tuple(tasks)})


def with_default_pools(spec: DagSpec) -> DagSpec:
    """*spec* with the pool that a kind of task has by default written into each task that names none."""
    tasks = tuple(
        task.model_copy(update={"pool": task.default_pool}) if task.default_pool and task.pool is None else task
        for task in spec.tasks
    )
    return spec if tasks == spec.tasks else DagSpec.model_validate(spec.model_dump() | {"tasks": tasks})


def read_dag(document: Any) -> DagSpec:
    """*document* (a dict, as from JSON) as a DAG. Raises InvalidInputError."""
    if not isinstance(document, dict):
        raise InvalidInputError(
            f'a DAG is a JSON object, not {type(document).__name__}. Start with {{"dag_id": ..., "tasks": [...]}}'
        )
    try:
        spec = DagSpec.model_validate(document, extra="forbid", context=AS_WRITTEN)
    except ValidationError as error:
        tasks: Any = document.get("tasks")
        named = tasks if isinstance(tasks, list | tuple) else ()
        task_ids = [str(task.get("task_id", "?")) if isinstance(task, dict) else "?" for task in named]
        raise explain(error, f"DAG {document.get('dag_id', '?')!r}", DagSpec, task_ids) from None
    try:
        check_schemas(spec.params)
        spec.check_params(formats=True)
    except ValueError as error:
        raise InvalidInputError(f"DAG {spec.dag_id!r}: {error}") from None
    for task in spec.tasks:
        check_is_foreign(task)
    return spec
