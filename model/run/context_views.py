"""What templates and functions see of their task, run and DAG: the attributes have the names that Airflow's have."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from platform import node
from typing import Any, NamedTuple

import pendulum

from ..errors import InvalidInputError
from ..spec.references import RETURN_VALUE
from ..spec.tasks.base import DEFAULT_POOL
from ..states import RunState
from .attempts import TaskAttempt
from .current_context import get_current_context
from .facts import Facts, Question, RunSummary, runs_before, runs_of
from .identity import run_key, run_workflow_id
from .instance_keys import UNMAPPED


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
        self.max_tries = attempt.max_tries
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

        Without *task_ids*, what the task itself has pushed (as in Airflow 3); in a callback also what its try has, and
        with *include_prior_dates* what it has left in the latest run before. Of a task that is not upstream, and of
        another run (*dag_id*, *run_id*), what it has left by now; with *include_prior_dates* also the latest before.
        """
        one = not isinstance(task_ids, list | tuple | set | frozenset)
        if task_ids is None:
            if dag_id not in (None, self.dag_id) or run_id not in (None, self.run_id):
                raise InvalidInputError("xcom_pull of another run: say which tasks are meant, by task_ids")
            if key in self.pushed or not (include_prior_dates or self._attempt.callback is not None):
                return self.pushed.get(key, default)
            task_ids, map_indexes = self.task_id, None if self.map_index == UNMAPPED else self.map_index
        wanted = [task_ids] if isinstance(task_ids, str) else [*task_ids]
        runs = self._runs_to_ask(dag_id or self.dag_id, run_id, include_prior_dates)
        found = [self._pulled(task_id, key, dag_id or self.dag_id, runs, include_prior_dates) for task_id in wanted]
        values = [default if each is None else each.at(map_indexes, default) for each in found]
        return values[0] if one else values

    def _pulled(self, task_id: str, key: str, dag_id: str, runs: Sequence[str], prior: bool) -> "_Pulled | None":
        """What a task has left: sent along where it is upstream, else asked for; None where there is nothing."""
        if (dag_id, runs) == (self.dag_id, [self.run_id]) and task_id in self._xcom:
            if key in self._xcom[task_id]:
                return _Pulled(self._xcom[task_id][key], self._attempt.xcom_indexes.get(task_id, {}).get(key))
            if not prior:
                return None
        for run_id in runs:
            of_workflow = self._attempt.run.workflow_id if (dag_id, run_id) == (self.dag_id, self.run_id) else None
            answer = self._facts.facts(
                Question(
                    about="xcom", dag_id=dag_id, run_id=run_id, task_ids=(task_id,), key=key,
                    of_workflow=of_workflow, include_prior_dates=prior,
                )
            )  # fmt: skip
            if answer:
                left = {int(index): value for index, value in answer.items()}
                mapped = [index for index in sorted(left) if index != UNMAPPED]
                return _Pulled([left[index] for index in mapped], mapped) if mapped else _Pulled(left[UNMAPPED])
        return None

    def _runs_to_ask(self, dag_id: str, run_id: str | None, prior: bool) -> list[str]:
        """The run that is meant; of another DAG the one of the same name, and those of the same logical date.

        With *prior* also those before it, the latest first. Of a run that is named, and of the own, its worker knows.
        """
        if run_id is not None or dag_id == self.dag_id:
            return [run_id or self.run_id]
        date = self._attempt.run.logical_date
        dated = [(run.logical_date, run.run_id) for run in runs_of(self._facts, dag_id) if run.logical_date is not None]
        meant = [each for each in dated if date is not None and (each[0] == date or (prior and each[0] < date))]
        return [*dict.fromkeys([self.run_id, *(name for _, name in sorted(meant, reverse=True))])]

    def get_template_context(self) -> dict[str, Any]:
        """The context of the task."""
        return get_current_context()

    def get_previous_dagrun(self, state: str | None = None) -> "DagRunView | None":
        """The run of the latest logical date before this one's; with *state*, the latest of those in it."""
        before = runs_before(runs_of(self._facts, self.dag_id), self._attempt.run.logical_date, state)
        if not before:
            return None
        found = before[0]
        whole = next(iter(runs_of(self._facts, self.dag_id, found.run_id)), found)
        return DagRunView(self.dag_id, whole, self._facts)


class TaskInContext:
    """`task`: the task as its DAG has it, with what Airflow puts where nothing is said."""

    def __init__(self, attempt: TaskAttempt) -> None:
        self._task = attempt.task
        self.dag_id = attempt.run.dag_id
        self.owner = attempt.task.owner or "airflow"
        self.pool = attempt.task.pool or DEFAULT_POOL
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
        found = next(iter(runs_before(runs_of(self._facts, run.dag_id), run.logical_date, RunState.SUCCESS)), None)
        if found is None:
            return None
        return next(iter(runs_of(self._facts, run.dag_id, found.run_id)), found)

    def date(self, name: str) -> pendulum.DateTime | None:
        """One of its dates; None where there is no such run."""
        return None if self._found is None else date_of(getattr(self._found, name))


class _Pulled(NamedTuple):
    """What a task has left under a key; *indexes*: of which instance each value is, if it is a list of several."""

    value: Any
    indexes: Sequence[int] | None = None

    def at(self, map_indexes: int | Iterable[int] | None, default: Any) -> Any:
        """The values of these instances of a mapped task; *default* in the place of one that has left none."""
        if map_indexes is None or not isinstance(self.value, list):
            return self.value
        by_index = dict(zip(range(len(self.value)) if self.indexes is None else self.indexes, self.value, strict=True))
        if isinstance(map_indexes, int):
            return by_index.get(map_indexes, default)
        return [by_index.get(index, default) for index in map_indexes]


def date_of(value: datetime | None) -> pendulum.DateTime | None:
    """*value* as templates have dates: pendulum's."""
    return None if value is None else pendulum.instance(value)
