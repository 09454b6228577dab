"""A DAG run in this process, without any server: for trying out a DAG, and for a debugger.

The engine of every run decides; Python functions are called right here, other tasks as a worker would.
Nothing is waited for that only takes time: retry delays and timers count as over at once.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from ...activities.attempts.outcomes import outcome_of
from ...activities.attempts.run_lookup import of_dag, states_of
from ...activities.attempts.xcom_store import XComStore
from ...activities.dag_files import own_worker_context
from ...activities.names import TASK_FAILED
from ...activities.notifying import NotifyActivities
from ...activities.spark.activity import SparkActivities
from ...activities.spark.output import OutputActivities
from ...activities.tasks import WORK, task_activity
from ...activities.waiting import WaitingActivities
from ...activities.work.function import perform
from ...activities.worker_context import WorkerContext
from ...model.asset.outlets import OutletEvent
from ...model.authoring.dags import DAG
from ...model.dag.manual_runs import check_conf
from ...model.errors import InvalidInputError
from ...model.run.attempts import SubmittedAttempt, TableAttempt, TaskAttempt, dag_path
from ...model.run.engine import CANCELLED, RunEngine
from ...model.run.facts import Question, RunSummary
from ...model.run.identity import TriggerRequest, manual_run
from ...model.run.moments import is_behind_timeout, timed_out
from ...model.run.notices import EVENTS, Notice, end_of_run, notices_of
from ...model.run.progress import progress
from ...model.run.state import DagRunState
from ...model.run.task_instances import Failure, Outcome, TaskInstance
from ...model.run.triggering import TriggerQuestion
from ...model.run.views import RunDetails, run_details, why
from ...model.spec.dag import DagSource, DagSpec
from ...model.spec.notifiers import Event, FunctionNotifier
from ...model.spec.params import conf_problem
from ...model.spec.tasks import (
    AirflowTask,
    BaseTask,
    BashFunctionTask,
    CallTask,
    EmptyTask,
    LatestOnlyTask,
    SparkWork,
    TimeTask,
)
from ...model.states import RunState, TaskState
from ..settings.time_limits import limited
from .airflow import AirflowFile, end_of_trigger
from .stand_ins import NOBODY, StandIns, check_stand_ins, outcome_instead, stands_in

NOTHING_FOLLOWS = "nothing follows in the run, and it has not ended: this is a defect of tidemill"
BETWEEN_POKES = 1.0
"""Seconds, whatever the sensor's own interval is."""
OnChange = Callable[[TaskInstance], None]


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
    on_change: OnChange = lambda _: None,
    outcomes: StandIns = NOBODY,
) -> RunDetails:
    """Runs *dag* to its end and returns the run with its tasks. *on_change* hears of every try that begins (its task is
    QUEUED) and of every task that ends. What tasks print and log is printed. *outcomes* stand in for the work of tasks.

    Raises InvalidInputError for a DAG that cannot be registered, or a kind of task that needs a server.
    """
    with _begun(dag, logical_date, conf, on_change, outcomes) as local:
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
        return local.try_once(local.state.instances[task_id])


def _spec_of(dag: LocalDag) -> DagSpec:
    if isinstance(dag, OfAirflow):
        return dag.file.spec(dag.dag_id)
    path = dag.defined_in
    return dag.spec(source=DagSource(path=path, sha256="0" * 64) if path is not None else None)


@contextmanager
def _begun(
    dag: LocalDag,
    logical_date: datetime | None,
    conf: dict[str, Any] | None,
    on_change: OnChange,
    outcomes: StandIns = NOBODY,
) -> Iterator["_LocalRun"]:
    spec = _spec_of(dag)
    now = datetime.now(UTC)
    request = TriggerRequest(logical_date=logical_date, conf=conf or {})
    check_conf(spec, request)
    if (problem := conf_problem(spec.params, request.conf, costly=True)) is not None:
        raise InvalidInputError(f"DAG {spec.dag_id!r}: {problem}")
    check_stand_ins(spec, outcomes)
    with own_worker_context() as worker_context:
        state = DagRunState(run=manual_run(spec.dag_id, spec.schedule, request, now), spec=spec, started_at=now)
        yield _LocalRun(state, dag, worker_context, on_change, outcomes)


@dataclass(frozen=True)
class LocalFacts:
    """What tasks of a run without a server may ask: of their own DAG and run."""

    state: DagRunState
    run: RunSummary
    results: XComStore
    log_url: str = ""
    started_at: datetime | None = None

    def facts(self, question: Question) -> Any:
        """The answer; nothing is known of others."""
        spec = self.state.spec
        mine = question.dag_id == spec.dag_id
        is_this_run = mine and question.run_id in (None, self.run.run_id)
        if question.about == "runs":
            return [self.run.model_dump(mode="json")] if is_this_run else []
        if question.about == "xcom" and is_this_run:
            made = self.state.of_task(question.task_ids[0])
            left = {str(i.map_index): i.xcom[question.key] for i in made if question.key in i.xcom}
            found: dict[str, Any] = self.results.filled(left, dag_path(spec.dag_id))
            return found
        if question.about == "states" and mine:
            return states_of(self.state.instances.values()) if is_this_run else {}
        return of_dag(spec) if mine and question.about == "dag" else {}

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The same for a child process."""
        return {"answer": self.facts(Question.model_validate(question))}

    def trigger(self, attempt: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """There is nobody who could start a run."""
        return {"error": f"DAG {wanted['dag_id']!r} cannot be triggered without a server. Use tidemill dags trigger"}


class _LocalRun:
    """One run, task after task: the driver of its engine; see model.run.engine.RunDriver."""

    def __init__(
        self,
        state: DagRunState,
        dag: LocalDag,
        worker_context: WorkerContext,
        on_change: OnChange,
        outcomes: StandIns,
    ) -> None:
        self.engine = RunEngine(state, self)
        self.state = state
        self._facts = LocalFacts(
            state,
            RunSummary.of(state.run, state=RunState.RUNNING, queued_at=state.started_at, started_at=state.started_at),
            worker_context.results,
            started_at=state.started_at,
        )
        worker_context.facts.lookup = self._facts
        self._dag = dag
        self._worker_context = worker_context
        self.results = worker_context.results
        self._on_change = on_change
        self._outcomes = outcomes
        self._changed = False
        self._attempts: dict[str, TaskInstance] = {}
        """Those that were started, in their order: one is made at a time."""
        self._cancelled: set[str] = set()
        self._timers: dict[str, tuple[datetime, TaskInstance]] = {}
        self._shown: dict[Path, int] = {}
        """How much of each log is printed."""
        self._triggers: dict[str, TaskInstance] = {}
        """Those whose trigger is to be watched: one after the other."""

    def run(self) -> RunDetails:
        while (end := self.engine.end) is None or self._attempts:
            self._changed = False
            self.engine.go_on()
            if not self._attempts and (self._changed or self.engine.end is not None):
                continue
            if not self._go_on_with_one():
                raise RuntimeError(NOTHING_FOLLOWS)
        self._tell(end_of_run(end.state), None, end.state, end.reason)
        plan = self.engine.plan
        return run_details(self.state, progress(plan.counts), lambda i: why(plan, i), end.state)

    def try_once(self, instance: TaskInstance) -> Outcome | Failure:
        """What one try of *instance* comes to, whatever its trigger rule says."""
        if instance.state is TaskState.REMOVED:  # it is not for this date, and is tried all the same
            instance.state = TaskState.NONE
            self.engine.plan.record(instance.key, TaskState.NONE)
        self._move(instance, TaskState.SCHEDULED)
        while not instance.attempts:
            if instance.state is TaskState.SCHEDULED:
                self._move(instance, TaskState.QUEUED)
                self.engine.begin_try(instance)
            elif not self._go_on_with_one():
                raise RuntimeError(NOTHING_FOLLOWS)
        if instance.failure is not None:
            return instance.failure
        return Outcome(
            state=instance.state,
            xcom=self.results.filled(instance.xcom, dag_path(self.state.spec.dag_id)),
            note=instance.reason,
        )

    def _move(self, instance: TaskInstance, state: TaskState) -> None:
        instance.move(state)
        self.engine.plan.record(instance.key, state)

    def _go_on_with_one(self) -> bool:
        """Makes one attempt, or waits for one trigger or timer. False if there is none."""
        if self._attempts:
            self._make(next(iter(self._attempts.values())))
        elif self._triggers:
            self._watch(next(iter(self._triggers.values())))
        elif self._timers:
            self._wait()
        else:
            return False
        return True

    def _make(self, instance: TaskInstance) -> None:
        outcome: Outcome | Failure
        if instance.key in self._cancelled:
            self._cancelled.discard(instance.key)
            outcome = CANCELLED
        else:
            try:
                outcome = self.work(self.engine.attempt_of(instance, "local"))
            except (ValueError, LookupError) as error:  # values that do not fit what they are mapped to
                outcome = Failure(error_type=type(error).__name__, message=str(error), retryable=False)
        del self._attempts[instance.key]
        self.engine.end_attempt(instance, outcome)

    def _wait(self) -> None:
        """Has the first timer go off: at once, but for pokes of sensors and moments, which look at the world."""
        key, (until, instance) = min(self._timers.items(), key=lambda timer: timer[1][0])
        del self._timers[key]
        if instance.state is TaskState.UP_FOR_RESCHEDULE:
            time.sleep(BETWEEN_POKES)
        elif instance.deferral is not None:
            time.sleep(max(0.0, (until - datetime.now(UTC)).total_seconds()))
        self.engine.wake(instance)

    def _watch(self, instance: TaskInstance) -> None:
        """Waits for what the trigger of *instance* says, or for the end of its time."""
        deferral, timer = self._triggers.pop(instance.key).deferral, self._timers.get(instance.key)
        assert deferral is not None  # noqa: S101
        question = TriggerQuestion(attempt=self.state.attempt(instance, "local"), deferral=deferral)
        end = end_of_trigger(question, timer[0] if timer is not None else None)
        if end is not None:
            self.engine.end_trigger(instance, deferral, end)
        else:
            self.forget_timer(instance.key)
            self.engine.wake(instance)

    def work(self, attempt: TaskAttempt) -> Outcome | Failure:
        """What *attempt* comes to."""
        try:
            return self.results.put(attempt, self._printed(self.results.fill(attempt)))
        except ApplicationError as error:
            if error.type == TASK_FAILED and error.details:
                return Failure.model_validate(error.details[0])
            return Failure(error_type=error.type or "ApplicationError", message=error.message)
        except ValueError as error:
            return Failure(error_type=type(error).__name__, message=str(error), retryable=False)

    def _printed(self, attempt: TaskAttempt) -> Outcome:
        """What *attempt* comes to; what its processes have logged is printed here."""
        try:
            return self._performed(attempt)
        finally:
            path = self._worker_context.attempt_folder(attempt).log
            with suppress(FileNotFoundError), path.open(encoding="utf-8", errors="replace") as log:
                log.seek(self._shown.get(path, 0))  # a sensor's next poke goes on in the same file
                print(log.read(), end="", flush=True)
                self._shown[path] = log.tell()

    # What the engine decides: see RunDriver

    def current_time(self) -> datetime:
        return datetime.now(UTC)

    def changed(self) -> None:
        self._changed = True

    def softens_failures(self) -> bool:
        return True

    def tears_down(self) -> bool:
        return True

    def is_under_way(self, key: str) -> bool:
        return key in self._attempts

    def start_attempt(self, instance: TaskInstance) -> None:
        self._attempts[instance.key] = instance

    def stop_attempt(self, key: str) -> None:
        self._cancelled.add(key)

    def set_timer(self, instance: TaskInstance, until: datetime) -> None:
        self._timers[instance.key] = until, instance

    def forget_timer(self, key: str) -> None:
        self._timers.pop(key, None)

    def exchange_slots(self, wanted: Sequence[str], returned: Sequence[str]) -> bool:  # noqa: ARG002
        for key in wanted:  # alone, a run has every pool to itself
            self.engine.plan.grant(key)
        return bool(wanted)

    def return_slots(self, keys: Sequence[str]) -> None: ...

    def park_slots(self, key: str) -> None: ...

    def replan(self) -> None: ...

    def begin_trigger(self, instance: TaskInstance) -> None:
        deferral = instance.deferral
        if deferral is not None and deferral.trigger is not None and deferral.moment is None:
            self._triggers[instance.key] = instance

    def stop_trigger(self, key: str) -> None:
        self._triggers.pop(key, None)

    def tell_of_try(self, instance: TaskInstance) -> None:
        self._on_change(instance)
        self._tell(Event.ON_EXECUTE, instance)

    def tell_of_end_of_try(
        self,
        instance: TaskInstance,
        state: TaskState,
        outcome: Outcome | Failure,  # noqa: ARG002
        reason: str | None,
    ) -> None:
        if state in EVENTS:
            self._tell(EVENTS[state], instance, state, reason)

    def tell_of_assets(self, instance: TaskInstance, events: tuple[OutletEvent, ...]) -> None: ...

    def tell_of_end(self, instance: TaskInstance) -> None:
        self._on_change(instance)

    # Callbacks

    def _tell(
        self, event: Event, instance: TaskInstance | None, state: str | None = None, reason: str | None = None
    ) -> None:
        """Calls what the DAG wants called; one that fails is said, and changes nothing."""
        for notice in notices_of(self.state, "local", event, instance, state, reason):
            try:
                self._deliver(notice)
            except (ApplicationError, LookupError, ValueError) as error:
                print(f"{event} has failed: {error}", flush=True)

    def _deliver(self, notice: Notice) -> None:
        if not isinstance(notice.notifier, FunctionNotifier):
            ActivityEnvironment().run(NotifyActivities(self._worker_context).notify, notice)
            return
        attempt = self.results.fill(notice.call_of(notice.notifier))
        if isinstance(self._dag, OfAirflow):
            self._dag.file.performed(attempt, self._facts, self._worker_context.key_values)
        else:
            outcome_of(perform([self._dag], attempt, facts=self._facts))

    # Attempts

    def _performed(self, attempt: TaskAttempt) -> Outcome:
        if (name := stands_in(self._outcomes, attempt)) is not None:
            return outcome_instead(self._outcomes[name], attempt)
        environment = ActivityEnvironment()
        match attempt.task:
            case AirflowTask() if isinstance(self._dag, OfAirflow):
                with limited(attempt.timeout):
                    return self._dag.file.performed(attempt, self._facts, self._worker_context.key_values)
            case EmptyTask():
                return Outcome()
            case TimeTask() as task:
                moment, now = (
                    environment.run(WaitingActivities(self._worker_context).find_moment, attempt),
                    datetime.now(UTC),
                )
                return timed_out(task, now) if is_behind_timeout(task, now, moment.at) else Outcome()
            case LatestOnlyTask():
                return Outcome(xcom={"return_value": True})
            case SparkWork():
                return self._spark(environment, attempt)
            case CallTask() if not isinstance(attempt.task, BashFunctionTask):  # right here, for a debugger
                assert isinstance(self._dag, DAG)  # noqa: S101
                with limited(attempt.timeout):
                    return outcome_of(perform([self._dag], attempt, facts=self._facts))
            case BaseTask(activity=str(name)) if name in WORK:
                return environment.run(task_activity(name, self._worker_context), attempt)
            case _:
                raise InvalidInputError(
                    f"task {attempt.task.task_id!r} of kind {attempt.task.kind!r} needs a server. "
                    "Try the DAG out with `tidemill dev`"
                )

    def _spark(self, environment: ActivityEnvironment, attempt: TaskAttempt) -> Outcome:
        spark = SparkActivities(self._worker_context)
        outcome: Outcome = environment.run(spark.run, attempt)
        if outcome.submission is not None:
            outcome = environment.run(spark.watch, SubmittedAttempt(attempt=attempt, submission=outcome.submission))
        if outcome.staged is not None:
            environment.run(OutputActivities(self._worker_context).publish, outcome.staged)
        if outcome.staged_table is not None:
            environment.run(spark.publish_table, TableAttempt(attempt=attempt, staged=outcome.staged_table))
        return outcome
