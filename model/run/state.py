"""One run from its first task to its last, as the data that its workflow carries and shows."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, ClassVar, Self

from pydantic import Field

from ..base import Instant, OmitNewDefaults, Record, iso
from ..errors import InvalidInputError
from ..spec.dag import DagSpec
from ..spec.graph import ancestors
from ..spec.params import param_value
from ..spec.references import LENGTH, XCOM_REFERENCE
from ..spec.tasks import AirflowTask, BaseTask, Task
from ..states import TaskState
from .attempts import INLINE_LIMIT, TaskAttempt
from .context import resolve
from .identity import RunIdentity, RunType
from .instance_keys import UNMAPPED, instance_key
from .mapping import NotMappableError, instances, length_of, with_values
from .past import Past, remembered, summarised
from .progress import progress
from .revisions import MarkRequest, Revision
from .task_instances import TaskInstance

RUN_WAS_ENDED = "its run's execution was ended"
"""Why tasks do not go on whose run was terminated, say."""


class HeldLease(Record):
    """What an instance holds, or waits for, in pools."""

    lease_id: str
    pools: tuple[str, ...]
    """Their workflow ids, in the order in which they are asked."""
    granted: int = 0
    """How many of the pools have let it in."""
    error: str | None = None
    """Why the next one cannot be asked."""
    passable_until: Instant | None = None
    """Until when its slots may be passed on to another task of the run: as all its pools say. None: not at all."""


class DagRunState(OmitNewDefaults, Record):
    """A run's state, also the input of its workflow: how it starts, and how it goes on after continue-as-new."""

    later_fields: ClassVar[tuple[str, ...]] = ("parallelism", "queued_at", "began_at", "ended_at", "marks", "returning")

    run: RunIdentity
    spec: DagSpec
    started_at: Instant | None = None
    began_at: Instant | None = None
    """When it has begun, as its DAG has it, or before a person has said its end: that changes no times. None: at
    `started_at`, when its workflow first did something."""
    ended_at: Instant | None = None
    """When its last execution has ended it, which no later saying of how it has ended moves."""
    instances: dict[str, TaskInstance] = {}
    executions: int = 1
    marks: tuple[MarkRequest, ...] = ()
    """What a person has said of its tasks while it was queued: followed when it begins."""
    past: Past | None = None
    """The run before, where tasks depend on it."""
    is_paused: bool = False
    last_update: int = Field(0, alias="news")
    """The number of the last message from the DAG that was followed."""
    tries: dict[str, int] = {}
    """How many tries mapped tasks had before they were expanded anew: their numbers are not used again."""
    leases: dict[str, HeldLease] = {}
    leases_made: int = 0
    returning: dict[str, list[str]] = {}
    """By pool, the leases that are on their way back to it: what ends the run from outside loses the message."""
    notices: int = 0
    """How many notices were sent."""
    missed: list[str] = []
    """The tasks whose sla was missed, "" for the run's deadline, `deadline N` for an alert: each is told once."""
    queued_at: Instant | None = None
    """When the DAG has queued it; known where deadlines count from there."""
    parallelism: int | None = None
    """How many tasks of all DAGs may run at once, by the settings of the worker that started the run; None: any."""
    revision: Revision | None = None
    """Set where a run that has ended runs again: what is changed in it first."""

    def fill(self) -> None:
        """Gives every task of the DAG its instance. One that is not for this date is removed from the run."""
        expanded = {instance.task_id for instance in self.instances.values()}
        for task in self.spec.tasks:
            if task.task_id not in expanded:
                made = TaskInstance(task_id=task.task_id)
                if (reason := self._outside_of_its_dates(task)) is not None:
                    made.move(TaskState.REMOVED, reason)
                self.instances[task.task_id] = made

    def _outside_of_its_dates(self, task: BaseTask) -> str | None:
        """A task's own dates hold it back in a catch-up, as in Airflow; backfills do not look at them."""
        date = self.run.logical_date
        if not self.spec.catchup or date is None or self.run.run_type is RunType.BACKFILL:
            return None
        if task.start_date is not None and date < task.start_date:
            return f"its start_date {task.start_date.isoformat()} is after the run's logical date"
        if task.end_date is not None and date > task.end_date:
            return f"its end_date {task.end_date.isoformat()} is before the run's logical date"
        return None

    @property
    def states(self) -> dict[str, TaskState]:
        """The state of each instance."""
        return {key: instance.state for key, instance in self.instances.items()}

    def of_task(self, task_id: str) -> list[TaskInstance]:
        """The instances of a task, by map_index."""
        if task_id in self.instances:
            return [self.instances[task_id]]
        found: list[TaskInstance] = []
        while (key := instance_key(task_id, len(found))) in self.instances:
            found.append(self.instances[key])
        return found

    @property
    def past_for_next(self) -> dict[str, TaskState]:
        """What the run after this one has to know."""
        return self.past_of_tasks(remembered(self.spec))

    def past_of_tasks(self, task_ids: Iterable[str]) -> dict[str, TaskState]:
        """The same of some tasks."""
        return {task_id: summarised(i.state for i in self.of_task(task_id)) for task_id in sorted(task_ids)}

    def other_expansions(self, spec: DagSpec) -> list[str]:
        """Return the tasks that *spec*, another version of the DAG, maps otherwise."""
        old = self.spec
        return [name for name in spec.by_id if name in old.by_id and old.mapped.get(name) != spec.mapped.get(name)]

    def with_version(self, spec: DagSpec, *, keeps_indexes: bool) -> Self:
        """Return this run with another version of its DAG: what the versions do not share is gone, or begins anew.

        With *keeps_indexes* an instance of a task that is mapped otherwise stays as it is where the values are written
        in the DAG: indexes that are new are made, those that are no more are removed (as in Airflow).
        """
        otherwise = self.other_expansions(spec)
        shared = spec.by_id.keys() - {*otherwise}
        kept = {key: instance for key, instance in self.instances.items() if instance.task_id in shared}
        made = self.model_copy(update={"spec": spec, "instances": kept, "tries": {**self.tries}})
        for task_id in otherwise if keeps_indexes else ():
            made._take_indexes(task_id, self.of_task(task_id))
        return made

    def _take_indexes(self, task_id: str, earlier: Sequence[TaskInstance]) -> None:
        used = self.tries.get(task_id, 0)
        self.tries[task_id] = max((instance.try_number for instance in earlier), default=used)
        is_written = task_id in self.spec.mapped and not self.spec.mapped_over(task_id)
        if not is_written or not earlier or earlier[0].map_index == UNMAPPED:
            return  # expanded when its values are known, with tries of other numbers
        try:
            n = len(self.values_of(task_id))
        except (NotMappableError, InvalidInputError):
            return
        for surplus in earlier[n:]:
            surplus.state, surplus.reason = TaskState.REMOVED, "its index is no more in the version of the DAG"
        for back in earlier[:n]:
            if back.state is TaskState.REMOVED:
                back.clear()
                back.state, back.reason = TaskState.NONE, None
        numbers = {"try_number": used, "tries_cleared": used}
        new = [TaskInstance(task_id=task_id, map_index=index, **numbers) for index in range(len(earlier), n)]
        if n:
            self.instances |= {instance.key: instance for instance in [*earlier, *new]}

    # Mapped tasks

    def values_of(self, task_id: str) -> list[dict[str, Any]]:
        """The arguments of each instance of a mapped task. Raises NotMappableError."""
        return instances(self.spec.mapped[task_id], self._value_of)

    def _value_of(self, reference: dict[str, Any]) -> Any:
        """The result that a reference names, or as many numbers as it has values."""
        task_id = reference[XCOM_REFERENCE]
        if not reference.get(LENGTH):
            return resolve(reference, self._results([task_id], UNMAPPED))
        return [*range(length_of(self.of_task(task_id), reference["key"]))]

    def expand(self, task_ids: list[str], n: int) -> None:
        """Puts *n* instances in the place of each of the tasks."""
        wanted = set(task_ids)
        found: list[TaskInstance] = []
        for key, instance in self.instances.items():
            made = [self._fresh(key, i) for i in range(n)] if key in wanted else [instance]
            found += made
        self.instances = {instance.key: instance for instance in found}

    def expand_what_is_written(self) -> None:
        """Makes the instances of tasks that are mapped over values that stand in the DAG, before the run has begun."""
        for scope in dict.fromkeys(self.spec.map_scopes.values()):
            together = [task_id for task_id, other in self.spec.map_scopes.items() if other == scope]
            if not any(self.spec.mapped_over(task_id) for task_id in together):
                with suppress(NotMappableError, InvalidInputError):
                    if n := len(self.values_of(together[0])):
                        self.expand(together, n)

    def collapse(self, task_id: str) -> None:
        """Takes the expansion of a mapped task back."""
        self.tries[task_id] = max(i.try_number for i in self.of_task(task_id))
        found = [i for i in self.instances.values() if i.task_id != task_id or i.map_index < 1]
        kept = [self._fresh(task_id) if i.task_id == task_id else i for i in found]
        self.instances = {i.key: i for i in kept}

    def _fresh(self, task_id: str, map_index: int = UNMAPPED) -> TaskInstance:
        tries = self.tries.get(task_id, 0)
        return TaskInstance(task_id=task_id, map_index=map_index, try_number=tries, tries_cleared=tries)

    @property
    def has_waits(self) -> bool:
        """Whether a try goes on while no worker has it."""
        return any(instance.waits for instance in self.instances.values())

    def settle_ended(self, *, waits_cost_no_try: bool = True) -> None:
        """Brings order into a run whose execution was ended from outside, with tasks under way.

        *waits_cost_no_try*: whether a try that waited for something leaves the task all its retries.
        """
        for instance in self.instances.values():
            state = instance.state.without_its_run
            if state is instance.state:
                continue
            if waits_cost_no_try and instance.waits:
                instance.tries_cleared = instance.try_number
            instance.state, instance.reason = state, RUN_WAS_ENDED if state is TaskState.FAILED else None
            instance.retry_at = instance.wake_at = None
            if state is TaskState.NONE:
                # What it waited for is not watched any more: it begins anew.
                instance.pokes, instance.deferral = 0, None

    @property
    def began(self) -> datetime | None:
        """When the run has begun (UTC), as everybody is told; None: not yet."""
        return self.began_at or self.started_at

    # What a worker is sent

    def attempt(
        self, instance: TaskInstance, execution: str, values: dict[str, Any] | None = None, limit: int = INLINE_LIMIT
    ) -> TaskAttempt:
        """The present try of *instance* as its worker gets it; *values* are its arguments if it is mapped."""
        task = self.spec.by_id[instance.task_id]
        if values is not None:
            task = one_of(task, values)
        defaults = {name: param_value(value) for name, value in {**self.spec.params, **task.params}.items()}
        return TaskAttempt(
            run=self.run.in_short,
            task=task,
            try_number=instance.try_number,
            map_index=instance.map_index,
            poke=instance.pokes + 1,
            waiting_since=instance.waiting_since,
            execution=execution,
            inline_limit=limit,
            tries_cleared=instance.tries_cleared,
            **self._of_airflow(task, instance),
            params={**defaults, **self.run.conf},
            xcom=self._results_for(task, instance.map_index),
            xcom_indexes=self._indexes_for(task),
            source=self.spec.source,
            render_template_as_native_obj=self.spec.render_template_as_native_obj
            if task.render_template_as_native_obj is None
            else task.render_template_as_native_obj,
            template_searchpath=self.spec.template_searchpath,
            templates_need_code=self.spec.templates_need_code,
        )

    def _of_airflow(self, task: Task, instance: TaskInstance) -> dict[str, Any]:
        """What only tasks of Airflow's ask for."""
        if not isinstance(task, AirflowTask):
            return {}
        return {"run_started_at": self.began, "resume": instance.deferral}

    def _results_for(self, task: Task, map_index: int) -> dict[str, dict[str, Any]]:
        """The results that *task* can see: those it names, or all upstream of it if it may pull any."""
        wanted, paired = self._visible(task)
        found = self._results(sorted(wanted - paired), UNMAPPED) | self._results(sorted(paired), map_index)
        return {task_id: xcom for task_id, xcom in found.items() if xcom}

    def _visible(self, task: Task) -> tuple[set[str], set[str]]:
        """The tasks whose results *task* can see; and those among them whose instances are paired with its own."""
        wanted = ancestors(self.spec.upstreams, task.task_id) if task.pulls_xcom else task.uses()
        scope = self.spec.map_scopes.get(task.task_id)
        return wanted, {other for other in wanted if scope is not None and self.spec.map_scopes.get(other) == scope}

    def _indexes_for(self, task: Task) -> dict[str, dict[str, tuple[int, ...]]]:
        """Of the lists among the results that *task* can see, those with gaps: of which map_index each value is."""
        wanted, paired = self._visible(task)
        found: dict[str, dict[str, tuple[int, ...]]] = {}
        for task_id in sorted(wanted - paired):
            made = [instance for instance in self.of_task(task_id) if instance.map_index != UNMAPPED]
            for name in dict.fromkeys(name for instance in made for name in instance.xcom):
                having = tuple(instance.map_index for instance in made if name in instance.xcom)
                if having != tuple(range(len(having))):
                    found.setdefault(task_id, {})[name] = having
        return found

    def _results(self, task_ids: list[str], map_index: int) -> dict[str, dict[str, Any]]:
        """Results by task; of a mapped task lists over its instances, or that of one *map_index*."""
        found: dict[str, dict[str, Any]] = {}
        for task_id in task_ids:
            made = self.of_task(task_id)
            if not made or made[0].map_index == UNMAPPED:
                found[task_id] = made[0].xcom if made else {}
            elif map_index != UNMAPPED:
                found[task_id] = made[map_index].xcom
            else:
                names = dict.fromkeys(name for instance in made for name in instance.xcom)
                found[task_id] = {name: [i.xcom[name] for i in made if name in i.xcom] for name in names}
        return found


def queued_state(run: RunIdentity, spec: DagSpec) -> DagRunState:
    """Return how a run that has not begun stands: each task is there, also of what is mapped over written values."""
    state = DagRunState(run=run, spec=spec)
    state.fill()
    state.expand_what_is_written()
    return state


def one_of(task: Task, values: dict[str, Any]) -> Task:
    """*task* as one instance of it is run: with its own arguments, and mapped over nothing."""
    if isinstance(task, AirflowTask) and task.expand is None:  # it finds its values itself
        return task
    if task.expand is None:  # mapped with its group
        fields = with_values(task.model_dump(), values)
        return type(task).model_validate(fields)
    if task.expand.into == "index":
        return task.model_copy(update={"expand": None})
    if task.expand.into == "kwargs":
        kwargs = {**getattr(task, "kwargs", {}), **values}
        return task.model_copy(update={"expand": None, "kwargs": kwargs})
    if unknown := values.keys() - type(task).model_fields.keys():
        raise ValueError(f"expand: {', '.join(sorted(unknown))} is no field of a {task.kind} task. Leave it out")
    return type(task).model_validate({**task.model_dump(), "expand": None, **values})


def task_table(state: DagRunState, counts: Mapping[TaskState, int], max_rows: int = 40) -> str:
    """The run as Markdown, for Temporal's own UI."""
    done = progress(counts)
    lines = [f"**{state.run.run_id}**: {done.finished} of {done.total_tasks} tasks finished", "", _dates(state.run)]
    if len(state.instances) <= max_rows:
        lines += ["", "| task | state | try | |", "|---|---|---|---|"]
        lines += [f"| {i.key} | {i.state} | {i.try_number or ''} | {_remark(i)} |" for i in state.instances.values()]
    return "\n".join(lines)


def _dates(run: RunIdentity) -> str:
    parts = [f"run after {iso(run.run_after)}"]
    if run.logical_date is not None:
        parts.insert(0, f"logical date {iso(run.logical_date)}")
    if run.data_interval is not None:
        parts.insert(1, f"data interval {iso(run.data_interval.start)} to {iso(run.data_interval.end)}")
    return ", ".join(parts)


def _remark(instance: TaskInstance) -> str:
    if instance.failure is not None and instance.state is not TaskState.SUCCESS:
        return f"{instance.failure.error_type}: {instance.failure.message}".split("\n")[0][:120].replace("|", "\\|")
    return instance.reason or ""
