"""What every kind of task has: when it may start, how often it is tried, what it is mapped over."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, ValidationInfo, model_validator

from ...base import AS_WRITTEN, Duration, Instant, Model, OmitDefaults, PositiveDuration
from ...names import NAME, PoolName
from ..assets.condition import Leaf
from ..expansion import Expansion, sources
from ..notifiers import Callbacks
from ..references import referenced_tasks, texts
from ..trigger_rule import TriggerRule


class WeightRule(StrEnum):
    """What a task's priority is made of: its own weight, and that of the tasks it holds up or waited for."""

    DOWNSTREAM = "downstream"
    UPSTREAM = "upstream"
    ABSOLUTE = "absolute"


def _backoff(value: bool | float, info: ValidationInfo) -> bool | float:
    """*value*; a factor of one that is written now is no backoff, as in Airflow. Up to 0.2.0 it added jitter."""
    return False if info.context == AS_WRITTEN and value is not True and value == 1 else value


DEFAULT_POOL = "default_pool"
"""What Airflow calls the pool of tasks that name none."""


class BaseTask(OmitDefaults, Model):
    """What every kind of task has. Defaults and meanings are Airflow's; durations in JSON are seconds or ISO 8601."""

    activity: ClassVar[str | None] = None
    """The activity that does the work; None for work of the run's workflow itself."""
    airflow_name: ClassVar[str]
    """What DAG files, and Airflow where it has it, call a task of this kind."""
    calls_code: ClassVar[bool] = False
    """Whether the work of a kind that is a folder needs the DAG file."""
    calls_workflows: ClassVar[bool] = False
    """Whether the activity waits for other workflows: it runs where it keeps none of them from its answers."""
    queue_suffix: ClassVar[str] = ""
    """What the DAG's task queue is continued with for this kind: work that must not hold up other work."""
    template_fields: ClassVar[tuple[str, ...]] = ()
    """The fields that are templates, or results of other tasks (Airflow's name)."""
    template_ext: ClassVar[tuple[str, ...]] = ()
    """How the name of a template file ends: such a value stands for the file's content, as in Airflow."""
    default_pool: ClassVar[str | None] = None
    """Where it takes slots from unless it names a pool."""

    task_id: Annotated[str, Field(pattern=NAME, max_length=250)]
    """Unique within the DAG."""
    upstream: tuple[str, ...] = ()
    """The tasks directly upstream, by task_id."""
    trigger_rule: TriggerRule = TriggerRule.ALL_SUCCESS
    """Which states of the upstream tasks let it run."""
    retries: NonNegativeInt = 0
    """How many more tries a task that failed gets."""
    retry_delay: Duration = timedelta(minutes=5)
    """The time between two tries."""
    retry_exponential_backoff: Annotated[
        bool | Annotated[float, Field(ge=0, allow_inf_nan=False)], AfterValidator(_backoff)
    ] = False
    """What each delay is times the one before: true is 2, and false, 0 or 1 leave them alike."""
    max_retry_delay: PositiveDuration | None = None
    """The longest delay with retry_exponential_backoff."""
    no_retry_on: tuple[str, ...] = ()
    """Names of exceptions, with those derived from them, after which there is no other try."""
    retry_only_on: tuple[str, ...] = ()
    """Where given: the only exceptions after which there is one."""
    max_starts: Annotated[int, Field(ge=1, le=10)] | None = None
    """How often one try may be started when workers are lost; 1: at most once. None: ten times."""
    execution_timeout: PositiveDuration | None = None
    """How long one try may run before it fails."""
    sla: PositiveDuration | None = None
    """How long after its run fell due the task should have succeeded; else `sla_miss_callback` is called, once."""
    callbacks: Callbacks = {}
    """Who is told what of the task; in Python written as on_failure_callback and so on."""
    start_date: Instant | None = None
    """The task is left out of catch-up runs of earlier logical dates."""
    end_date: Instant | None = None
    """The task is left out of catch-up runs of later logical dates."""
    queue: Annotated[str, Field(min_length=1)] | None = None
    """The Temporal task queue that the work goes to; None: the one that the DAG runs on."""
    depends_on_past: bool = False
    """Whether the task waits until it has succeeded, or was skipped, in the run before."""
    wait_for_downstream: bool = False
    """Whether it waits for its direct downstream tasks in the run before, too. Implies depends_on_past."""
    ignore_first_depends_on_past: bool = True
    """Whether a task that the run before did not have may run."""
    priority_weight: int = 1
    """Tasks that wait for the same slot start with the heaviest."""
    weight_rule: WeightRule = WeightRule.DOWNSTREAM
    """Whether the weights of downstream or of upstream tasks are added to the task's own."""
    pool: PoolName | None = None
    """Where the task takes slots from before it starts; None: no pool, only its worker's own limit."""
    pool_slots: PositiveInt = 1
    """How many slots of the pool it takes."""
    max_active_tis_per_dag: PositiveInt | None = None
    """How many instances of it are active at once, over all runs of the DAG."""
    max_active_tis_per_dagrun: PositiveInt | None = None
    """How many instances of it are active at once within a run."""
    is_setup: bool = False
    """Whether it is a setup: it is cleared with the tasks that need it."""
    is_teardown: bool = False
    """Whether it is a teardown: it runs when its setup succeeded and the work is done."""
    on_failure_fail_dagrun: bool = False
    """Whether a teardown that fails fails its run."""
    group: str | None = None
    """The task group that it is in; None: in none."""
    expand: Expansion | None = None
    """What the task is mapped over; None: it is one instance."""
    do_xcom_push: bool = True
    """Whether what the task returns is kept as its result."""
    render_template_as_native_obj: bool | None = None
    """Whether templates give Python values instead of text; None: as the DAG says."""
    outlets: tuple[Annotated[Leaf, Field(discriminator="kind")], ...] = ()
    """The assets that the task writes: each has an event when the task has succeeded."""
    inlets: tuple[Annotated[Leaf, Field(discriminator="kind")], ...] = ()
    """The assets that it reads."""
    params: dict[str, Any] = {}
    """Defaults of conf, over those of the DAG."""
    task_display_name: str | None = None
    """What people read in the place of the task_id."""
    owner: str | None = None
    """Who is responsible, for lists and filters."""
    doc_md: str | None = None
    """Documentation in Markdown, for the web page of the task."""

    @model_validator(mode="before")
    @classmethod
    def _rule_of_teardowns(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and fields.get("is_teardown"):
            return {"trigger_rule": TriggerRule.ALL_DONE_SETUP_SUCCESS, **fields}
        return fields

    @model_validator(mode="after")
    def _in_itself(self) -> Self:
        require_order(f"task {self.task_id!r}", self.start_date, self.end_date)
        if self.is_setup and self.is_teardown:
            raise ValueError(f"task {self.task_id!r} is both a setup and a teardown. Make it one of them")
        if self.is_teardown and self.trigger_rule is not TriggerRule.ALL_DONE_SETUP_SUCCESS:
            raise ValueError(
                f"task {self.task_id!r} is a teardown with trigger_rule {self.trigger_rule}. "
                "Leave it out: teardowns run when all is done and a setup succeeded"
            )
        return self

    @property
    def waits_for_room(self) -> bool:
        """Whether its try may wait for room on its worker; its execution_timeout counts from when it has that."""
        return False

    @property
    def needs_past(self) -> bool:
        """Whether the run before has a say in when it starts."""
        return self.depends_on_past or self.wait_for_downstream

    def written(self) -> dict[str, Any]:
        """Return the fields that are templates, by name, as they are written."""
        return {name: getattr(self, name) for name in self.template_fields}

    def templated(self) -> tuple[Any, ...]:
        """Return the values in which templates and results of other tasks are replaced before the task runs."""
        return tuple(self.written().values())

    def named_files(self) -> dict[str, tuple[str, ...]]:
        """Return the files that the task names, by field, as they are written: paths from its DAG file's folder."""
        return {}

    @property
    def shown_class(self) -> str:
        """What the task's operator is called, in logs."""
        return self.airflow_name

    def uses(self) -> set[str]:
        """The tasks whose results the arguments name."""
        found = {reference for value in self.templated() for reference in referenced_tasks(value)}
        if self.expand is not None:
            found.update(reference for value in sources(self.expand) for reference in referenced_tasks(value))
        return found

    @property
    def pulls_xcom(self) -> bool:
        """Whether a template asks for results by a name that only rendering will tell."""
        return any("xcom_pull" in text for value in self.templated() for text in texts(value))


def require_order(what: str, start: datetime | None, end: datetime | None) -> None:
    if start is not None and end is not None and end < start:
        raise ValueError(
            f"{what}: end_date {end.isoformat()} is before start_date {start.isoformat()}. Swap or correct them"
        )
