"""What templates and functions see of their task, run and DAG: the attributes have the names that Airflow's have."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from platform import node
from typing import Any, NamedTuple

import pendulum

from ..errors import InvalidInputError
from ..spec.references import RETURN_VALUE
from .attempts import TaskAttempt
from .current_context import get_current_context
from .facts import Facts, Question, RunSummary, runs_of, successful_before
from .identity import run_key, run_workflow_id


class TaskInstanceKey(NamedTuple):
    """What is unique about a try."""

    dag_id: str
    task_id: str
    run_id: str
    try_number: int = 1
    map_index: int = -1


class TaskInstanceView:
    """`ti`: what a task may ask about itself, and the results of others."""

    def __init__(self, attempt: TaskAttempt, facts: Facts, dag_run: "DagRunView") -> None:
        self.dag_id = attempt.run.dag_id
        self.run_id = attempt.run.run_id
        self.task_id = attempt.task.task_id
        self.try_number = attempt.try_number
        self.max_tries = attempt.task.retries
        self.map_index = attempt.map_index
        self.task = TaskInContext(attempt)
        self.state = "running"
        self.dag_run = dag_run
        self.logical_date = dag_run.logical_date
        self.hostname = node()
        self.start_date = date_of(facts.started_at)
        self.end_date = None
        self.log_url = facts.log_url
        self.mark_success_url = facts.log_url
        self.key = TaskInstanceKey(self.dag_id, self.task_id, self.run_id, self.try_number, self.map_index)
        self.pushed: dict[str, Any] = {}
        self._attempt = attempt
        self._xcom = attempt.xcom
        self._facts = facts

    def xcom_push(self, key: str, value: Any) -> None:
        """Keeps *value* (JSON) for tasks downstream, under *key*."""
        self.pushed[key] = value

    def xcom_pull(
        self,
        task_ids: str | Iterable[str] | None = None,
        dag_id: str | None = None,
        key: str = RETURN_VALUE,
        include_prior_dates: bool = False,
        *,
        map_indexes: int | Iterable[int] | None = None,
        default: Any = None,
        run_id: str | None = None,
    ) -> Any:
        """The value that a task upstream returned or pushed; for a list of tasks, a list of values.

        Without *task_ids*, what the task itself has pushed (as in Airflow 3). Of other runs, given by *dag_id*,
        *run_id* or *include_prior_dates*, those of any task.
        """
        one = not isinstance(task_ids, list | tuple | set | frozenset)
        if task_ids is None and dag_id in (None, self.dag_id) and run_id in (None, self.run_id):
            return self.pushed.get(key, default)
        wanted = None if task_ids is None else [task_ids] if isinstance(task_ids, str) else [*task_ids]
        if dag_id not in (None, self.dag_id) or run_id not in (None, self.run_id) or include_prior_dates:
            found = self._of_other_runs(wanted, dag_id, run_id, key, include_prior_dates, default)
        else:
            found = [self._own(task_id, key, default) for task_id in wanted or ()]
        if map_indexes is not None:
            found = [
                _at(value, map_indexes, self._indexes(value, task_id, key), default)
                for task_id, value in zip(wanted or (), found, strict=True)
            ]
        return found[0] if one else found

    def _indexes(self, value: Any, task_id: str, key: str) -> Sequence[int]:
        """Of which map_index each value of a list is: results that were sent along leave out who has left none."""
        if value is self._xcom.get(task_id, {}).get(key) and key in self._attempt.xcom_indexes.get(task_id, {}):
            return self._attempt.xcom_indexes[task_id][key]
        return range(len(value)) if isinstance(value, list) else ()

    def _own(self, task_id: str, key: str, default: Any) -> Any:
        """The result of a task of the same run: sent along where it is upstream, else asked for."""
        if task_id in self._xcom:
            return self._xcom[task_id].get(key, default)
        return self._found(self.dag_id, [self.run_id], task_id, key, default)

    def _of_other_runs(
        self, wanted: list[str] | None, dag_id: str | None, run_id: str | None, key: str, prior: bool, default: Any
    ) -> list[Any]:
        dag_id = dag_id or self.dag_id
        if wanted is None:
            raise InvalidInputError("xcom_pull of another run: say which tasks are meant, by task_ids")
        own = self._xcom if dag_id == self.dag_id and run_id is None else {}
        return [
            own[task_id][key]
            if key in own.get(task_id, {})
            else self._found(dag_id, self._runs_to_ask(dag_id, run_id, prior), task_id, key, default)
            for task_id in wanted
        ]

    def _runs_to_ask(self, dag_id: str, run_id: str | None, prior: bool) -> list[str]:
        if run_id is not None:
            return [run_id]
        date = self._attempt.run.logical_date
        runs = [run for run in runs_of(self._facts, dag_id) if run.logical_date is not None and date is not None]
        dated = sorted(((run.logical_date, run.run_id) for run in runs if run.logical_date), reverse=True)
        return [name for other, name in dated if date is not None and (other == date or (prior and other < date))]

    def _found(self, dag_id: str, run_ids: Sequence[str], task_id: str, key: str, default: Any) -> Any:
        for run_id in run_ids:
            question = Question(about="results", dag_id=dag_id, run_id=run_id, task_ids=(task_id,), key=key)
            answer = self._facts.facts(question)
            if task_id in answer:
                return answer[task_id]
        return default

    def get_template_context(self) -> dict[str, Any]:
        """The context of the task."""
        return get_current_context()

    def get_previous_dagrun(self, state: str | None = None) -> "DagRunView | None":
        """The run of the latest logical date before this one's; with *state*, the latest of those in it."""
        date = self._attempt.run.logical_date
        runs = [run for run in runs_of(self._facts, self.dag_id) if state is None or run.state == state]
        dated = [run for run in runs if run.logical_date is not None and date is not None and run.logical_date < date]
        found = max(dated, key=lambda run: run.logical_date or run.run_after, default=None)
        if found is None:
            return None
        whole = next(iter(runs_of(self._facts, self.dag_id, found.run_id)), found)
        return DagRunView(self.dag_id, whole, self._facts)


class TaskInContext:
    """`task`: the task as its DAG has it, with what Airflow puts where nothing is said."""

    def __init__(self, attempt: TaskAttempt) -> None:
        self._task = attempt.task
        self.dag_id = attempt.run.dag_id
        self.owner = attempt.task.owner or "airflow"
        self.pool = attempt.task.pool or "default_pool"
        self.queue = attempt.task.queue or "default"
        self.task_type = attempt.task.kind
        self.upstream_task_ids = {*attempt.task.upstream}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._task, name)


class DagRunView:
    """`dag_run`: the run that a task belongs to."""

    def __init__(self, dag_id: str, known: RunSummary, facts: Facts) -> None:
        self.dag_id = dag_id
        self.run_id = known.run_id
        self.run_type = known.run_type
        self.state = str(known.state)
        self.logical_date = date_of(known.logical_date)
        self.run_after = date_of(known.run_after)
        self.data_interval_start = date_of(known.data_interval_start)
        self.data_interval_end = date_of(known.data_interval_end)
        self.conf = known.conf
        self.partition_key = known.partition_key
        self.partition_date = date_of(known.partition_date)
        self.external_trigger = known.run_type == "manual"
        self.triggering_user_name = known.triggering_user_name
        self.note = None
        self._facts = facts

    @property
    def consumed_asset_events(self) -> list[dict[str, Any]]:
        """The events that the run was made for, as data."""
        key = run_workflow_id(self.dag_id, run_key(self.logical_date, self.run_id))
        found = self._facts.facts(Question(about="consumed", dag_id=self.dag_id, run_id=self.run_id, key=key))
        return [*found]

    @cached_property
    def _now(self) -> RunSummary | None:
        return next(iter(runs_of(self._facts, self.dag_id, self.run_id)), None)

    @property
    def start_date(self) -> pendulum.DateTime | None:
        """When the run started."""
        return date_of(self._now.started_at if self._now is not None else None)

    @property
    def end_date(self) -> pendulum.DateTime | None:
        """When it ended; None while it runs."""
        return date_of(self._now.ended_at if self._now is not None else None)

    @property
    def queued_at(self) -> pendulum.DateTime | None:
        """When it was created."""
        return date_of(self._now.queued_at if self._now is not None else None)

    def get_task_instances(self, state: str | Iterable[str] | None = None) -> list[Any]:
        """The tasks of the run with their states, as they are now."""
        found = self._facts.facts(Question(about="states", dag_id=self.dag_id, run_id=self.run_id))
        states = None if state is None else {state} if isinstance(state, str) else {*state}
        return [TaskState(**one) for one in found.values() if states is None or one["state"] in states]

    def get_task_instance(self, task_id: str, map_index: int = -1) -> Any:
        """One of them; None if there is none."""
        found = (one for one in self.get_task_instances() if (one.task_id, one.map_index) == (task_id, map_index))
        return next(found, None)


class TaskState(NamedTuple):
    """A task of a run, as `dag_run.get_task_instances()` lists it."""

    task_id: str
    map_index: int
    state: str
    try_number: int
    start_date: str | None = None
    end_date: str | None = None


class DagInContext:
    """`dag` where the DAG file is not imported: asks for what it has not been sent."""

    def __init__(self, dag_id: str, facts: Facts) -> None:
        self.dag_id = dag_id
        self._facts = facts

    @cached_property
    def _known(self) -> dict[str, Any]:
        found: dict[str, Any] = self._facts.facts(Question(about="dag", dag_id=self.dag_id))
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._known:
            raise AttributeError(f"dag has no attribute {name!r}; it has {', '.join(['dag_id', *self._known])}")
        value = self._known[name]
        return pendulum.parse(value) if name.endswith("_date") and value else value


class PreviousSuccess:
    """The run before that succeeded: looked for once, when something of it is asked for."""

    def __init__(self, attempt: TaskAttempt, facts: Facts) -> None:
        self._attempt = attempt
        self._facts = facts

    @cached_property
    def _found(self) -> RunSummary | None:
        run = self._attempt.run
        found = successful_before(runs_of(self._facts, run.dag_id), run.logical_date)
        if found is None:
            return None
        return next(iter(runs_of(self._facts, run.dag_id, found.run_id)), found)

    def date(self, name: str) -> pendulum.DateTime | None:
        """One of its dates; None where there is no such run."""
        return None if self._found is None else date_of(getattr(self._found, name))


def _at(value: Any, map_indexes: int | Iterable[int], known: Sequence[int], default: Any) -> Any:
    """The values of these instances of a mapped task; *default* in the place of one that has left none."""
    if not isinstance(value, list):
        return value
    by_index = {index: one for index, one in zip(known, value, strict=True) if one is not None}
    if isinstance(map_indexes, int):
        return by_index.get(map_indexes, default)
    return [by_index.get(index, default) for index in map_indexes]


def date_of(value: datetime | None) -> pendulum.DateTime | None:
    """*value* as templates have dates: pendulum's."""
    return None if value is None else pendulum.instance(value)
