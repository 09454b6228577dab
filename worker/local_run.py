"""A DAG run in this process, without any server: for trying out a DAG, and for a debugger.

The same planner decides; Python functions are called right here, other tasks as a worker would.
Nothing is waited for that only takes time: retry delays and timers count as over at once.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from ..activities.attempts.run_facts import of_dag
from ..activities.bash import BashActivities
from ..activities.dag_files import own_workplace
from ..activities.names import TASK_FAILED
from ..activities.spark.activity import SparkActivities
from ..activities.spark.output import OutputActivities
from ..activities.waiting import WaitingActivities
from ..activities.work.function import perform
from ..activities.workplace import Workplace
from ..model.authoring.dags import DAG
from ..model.errors import InvalidInputError
from ..model.run.attempts import SubmittedAttempt, TaskAttempt
from ..model.run.branching import skipped_tasks
from ..model.run.facts import KnownRun, Question
from ..model.run.identity import TriggerRequest, manual_run
from ..model.run.mapping import NotMappableError
from ..model.run.planner import Decision, RunEnd, RunPlan
from ..model.run.progress import progress
from ..model.run.state import DagRunState
from ..model.run.task_instances import Attempt, Failure, Outcome, TaskInstance, may_retry
from ..model.run.views import RunDetails, run_details, why
from ..model.spec.dag import DagSource, DagSpec
from ..model.spec.tasks import (
    AirflowTask,
    BashFunctionTask,
    BashSensorTask,
    BashTask,
    CallTask,
    EmptyTask,
    FileSensorTask,
    LatestOnlyTask,
    SparkWork,
    TimeTask,
)
from ..model.states import RunState, TaskState
from .local_airflow import AirflowFile

Told = Callable[[TaskInstance], None]


@dataclass(frozen=True)
class OfAirflow:
    """A DAG of a file that is imported here, with Airflow."""

    file: AirflowFile
    dag_id: str


LocalDag = DAG | OfAirflow


def run_locally(
    dag: LocalDag,
    *,
    logical_date: datetime | None = None,
    conf: dict[str, Any] | None = None,
    told: Told = lambda _: None,
) -> RunDetails:
    """Runs *dag* to its end and returns the run with its tasks. *told* hears of every task that ends.

    Raises InvalidInputError for a DAG that cannot be registered, or a kind of task that needs a server.
    """
    with _begun(dag, logical_date, conf, told) as local:
        return local.run()


def try_locally(
    dag: LocalDag, task_id: str, *, logical_date: datetime | None = None, conf: dict[str, Any] | None = None
) -> Outcome | Failure:
    """Runs one task of *dag* once, as if all upstream had succeeded without a result.

    Raises InvalidInputError for a task that the DAG has not, that is mapped, or that needs a server.
    """
    with _begun(dag, logical_date, conf, lambda _: None) as local:
        spec = local.state.spec
        if task_id not in spec.by_id:
            raise InvalidInputError(f"DAG {dag.dag_id!r} has no task {task_id!r}. It has {', '.join(spec.by_id)}")
        if task_id in spec.mapped:
            raise InvalidInputError(f"task {task_id!r} is mapped: its arguments are results. Run the whole DAG")
        instance = TaskInstance(task_id=task_id, try_number=1, started_at=datetime.now(UTC))
        return local.work(instance)


def _spec_of(dag: LocalDag) -> DagSpec:
    if isinstance(dag, OfAirflow):
        return dag.file.spec(dag.dag_id)
    path = dag.defined_in
    return dag.spec(source=DagSource(path=path, sha256="0" * 64) if path is not None else None)


@contextmanager
def _begun(
    dag: LocalDag, logical_date: datetime | None, conf: dict[str, Any] | None, told: Told
) -> Iterator["_LocalRun"]:
    spec = _spec_of(dag)
    now = datetime.now(UTC)
    request = TriggerRequest(logical_date=logical_date, conf=conf or {})
    with own_workplace() as workplace:
        state = DagRunState(run=manual_run(spec.dag_id, spec.schedule, request, now), spec=spec, started_at=now)
        yield _LocalRun(state, dag, workplace, told)


@dataclass(frozen=True)
class LocalFacts:
    """What tasks of a run without a server may ask: of their own DAG and run."""

    state: DagRunState
    run: KnownRun
    log_url: str = ""
    started_at: datetime | None = None

    def facts(self, question: Question) -> Any:
        """The answer; nothing is known of others."""
        spec = self.state.spec
        mine = question.dag_id == spec.dag_id
        if question.about == "runs":
            asked = mine and question.run_id in (None, self.run.run_id)
            return [self.run.model_dump(mode="json")] if asked else []
        if question.about == "xcom" and mine:
            made = self.state.of_task(question.task_ids[0])
            return {str(i.map_index): i.xcom[question.key] for i in made if question.key in i.xcom}
        return of_dag(spec) if mine and question.about == "dag" else {}

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The same for a child process."""
        return {"answer": self.facts(Question.model_validate(question))}

    def trigger(self, attempt: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """There is nobody who could start a run."""
        return {"error": f"DAG {wanted['dag_id']!r} cannot be triggered without a server. Use tidemill dags trigger"}


class _LocalRun:
    """One run, task after task."""

    def __init__(self, state: DagRunState, dag: LocalDag, workplace: Workplace, told: Told) -> None:
        state.fill()
        self.state = state
        self.plan = RunPlan(state.spec, state.states)
        known = {"run_type": str(state.run.run_type), "state": RunState.RUNNING, "queued_at": state.started_at}
        fields = {name: getattr(state.run, name) for name in ("run_id", "logical_date", "run_after")}
        self._facts = LocalFacts(
            state, KnownRun(**fields, **known, started_at=state.started_at), started_at=state.started_at
        )
        workplace.facts.run_facts = self._facts
        self._dag = dag
        self._workplace = workplace
        self._told = told
        self._values: dict[str, list[dict[str, Any]]] = {}

    def run(self) -> RunDetails:
        while (end := self.plan.end()) is None:
            for decision in self._decisions():
                self._follow(decision)
        return self._details(end)

    def _decisions(self) -> Sequence[Decision]:
        tasks = self.plan.mappable()
        scopes = self.state.spec.map_scopes
        for scope in dict.fromkeys(scopes[task_id] for task_id in tasks):
            self._expand([task_id for task_id in tasks if scopes[task_id] == scope])
        decisions = self.plan.decide()
        for key in [*self.plan.wanted_leases]:  # alone, a run has every pool to itself
            self.plan.grant(key)
        self.plan.wanted_leases.clear()
        return decisions

    def _expand(self, task_ids: list[str]) -> None:
        try:
            values = self.state.values_of(task_ids[0])
        except (NotMappableError, InvalidInputError) as error:
            for task_id in task_ids:
                self.plan.cannot_expand(task_id, str(error))
            return
        if not values:
            for task_id in task_ids:
                self._end(self.state.instances[task_id], TaskState.SKIPPED, "there is nothing to map it over")
            return
        self._values.update(dict.fromkeys(task_ids, values))
        self.state.expand(task_ids, len(values))
        self.plan.expand(task_ids, len(values))

    def _follow(self, decision: Decision) -> None:
        instance = self.state.instances[decision.key]
        if decision.state is TaskState.SHUTDOWN:
            return
        instance.move(decision.state, decision.reason)
        if decision.state is TaskState.QUEUED:
            self._try(instance)
        elif decision.state.finished:
            self._told(instance)

    def _try(self, instance: TaskInstance) -> None:
        """One try, and the next one at once where there is to be one."""
        task = self.state.spec.by_id[instance.task_id]
        while True:
            instance.try_number += 1
            instance.started_at = datetime.now(UTC)
            outcome = self.work(instance)
            instance.ended_at = datetime.now(UTC)
            failure = outcome if isinstance(outcome, Failure) else None
            again = failure is not None and may_retry(task, instance.try_number, failure)
            state = outcome.state if isinstance(outcome, Outcome) else TaskState.FAILED
            instance.attempts.append(
                Attempt(
                    try_number=instance.try_number,
                    state=TaskState.UP_FOR_RETRY if again else state,
                    started_at=instance.started_at,
                    ended_at=instance.ended_at,
                    failure=failure,
                )
            )
            if not again:
                break
        instance.move(TaskState.RUNNING)
        if isinstance(outcome, Outcome):
            instance.xcom, instance.mapped_length = outcome.xcom, outcome.mapped_length
            self.plan.skip(instance.key, instance.skips)
        self._end(instance, state, outcome.note if isinstance(outcome, Outcome) else outcome.error_type)

    def _end(self, instance: TaskInstance, state: TaskState, reason: str | None) -> None:
        instance.move(state, reason)
        self.plan.record(instance.key, state)
        self._told(instance)

    def work(self, instance: TaskInstance) -> Outcome | Failure:
        """What the present try of *instance* comes to."""
        try:
            values = self._values.get(instance.task_id)
            mine = values[instance.map_index] if values is not None else None
            attempt = self.state.attempt(instance, "local", mine)
            outcome = self._waited(attempt, instance)
            result = outcome.xcom.get("return_value")
            instance.skips = outcome.skips or skipped_tasks(self.state.spec, attempt.task, result)
            return outcome
        except ApplicationError as error:
            if error.type == TASK_FAILED and error.details:
                return Failure.model_validate(error.details[0])
            return Failure(error_type=error.type or "ApplicationError", message=error.message)
        except ValueError as error:
            return Failure(error_type=type(error).__name__, message=str(error), retryable=False)

    def _waited(self, attempt: TaskAttempt, instance: TaskInstance) -> Outcome:
        while True:
            outcome = self._performed(attempt)
            if outcome.state is not TaskState.UP_FOR_RESCHEDULE:
                return outcome
            instance.pokes += 1
            time.sleep(1)
            attempt = attempt.model_copy(update={"poke": attempt.poke + 1, "waiting_since": instance.started_at})

    def _performed(self, attempt: TaskAttempt) -> Outcome:
        here = ActivityEnvironment()
        match attempt.task:
            case AirflowTask() if isinstance(self._dag, OfAirflow):
                return self._dag.file.performed(attempt, self._facts, self._workplace.key_values)
            case EmptyTask() | TimeTask():
                return Outcome()
            case LatestOnlyTask():
                return Outcome(xcom={"return_value": True})
            case BashTask() | BashSensorTask():
                return here.run(BashActivities(self._workplace).run, attempt)
            case SparkWork():
                return self._spark(here, attempt)
            case FileSensorTask():
                return here.run(WaitingActivities(self._workplace).poke_file, attempt)
            case BashFunctionTask():
                return here.run(BashActivities(self._workplace).run_function, attempt)
            case CallTask():
                assert isinstance(self._dag, DAG)  # noqa: S101
                return _outcome(perform([self._dag], attempt, facts=self._facts))
            case _:
                raise InvalidInputError(
                    f"task {attempt.task.task_id!r} of kind {attempt.task.kind!r} needs a server. "
                    "Try the DAG out with `tidemill dev`"
                )

    def _spark(self, here: ActivityEnvironment, attempt: TaskAttempt) -> Outcome:
        spark = SparkActivities(self._workplace)
        outcome: Outcome = here.run(spark.run, attempt)
        if outcome.submission is not None:
            outcome = here.run(spark.watch, SubmittedAttempt(attempt=attempt, submission=outcome.submission))
        if outcome.staged is not None:
            here.run(OutputActivities(self._workplace).publish, outcome.staged)
        return outcome

    def _details(self, end: RunEnd) -> RunDetails:
        return run_details(self.state, progress(self.plan.counts), lambda i: why(self.plan, i), end.state)


def _outcome(result: dict[str, Any]) -> Outcome:
    if "failure" in result:
        failure = Failure.model_validate(result["failure"])
        raise ApplicationError(failure.message, failure.model_dump(mode="json"), type=TASK_FAILED)
    return Outcome.model_validate(result["outcome"])
