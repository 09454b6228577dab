"""What activities do in the simulation: the project's own pure functions where there are some, else as is drawn."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure as ProtoFailure
from temporalio.exceptions import ApplicationError
from tidemill.activities.bundles.registering import (
    Compared,
    CompareQuestion,
    Registered,
    RegisterQuestion,
    TellQuestion,
)
from tidemill.activities.holders import Holders, HoldersQuestion
from tidemill.activities.names import INVALID_INPUT, JUST_ENDED, TASK_FAILED
from tidemill.activities.runs import LastExecution, Revised, RunConf, RunsQuestion
from tidemill.activities.tasks import WORK
from tidemill.activities.waiting import Moment, Rendered
from tidemill.model.asset.outlets import OutletEvent
from tidemill.model.asset.watching import Sighting, WatchAnswer, WatchQuestion
from tidemill.model.bundle.data import Listing, ListQuestion, ParsedDag, ParseQuestion, ParseResult
from tidemill.model.dag.backfill_walk import BackfillBatch, BackfillQuestion, backfill_batch
from tidemill.model.dag.manual_runs import (
    TriggerAnswer,
    TriggerQuestion,
    TriggersQuestion,
    answer_trigger,
    read_and_check,
)
from tidemill.model.dag.ticks import Ticks, TimetableQuery, coming_runs
from tidemill.model.dag.views import Registration
from tidemill.model.errors import InvalidInputError
from tidemill.model.pool.state import LeaseRequest, RunLeases
from tidemill.model.run.attempts import TaskAttempt
from tidemill.model.run.changes import keeps_times
from tidemill.model.run.deferrals import Deferral, TriggerEnd
from tidemill.model.run.identity import RunColumns, RunIdentity, dag_workflow_id, operator_run_id
from tidemill.model.run.messages import RunReport
from tidemill.model.run.poking import PokeReturnValue, poked
from tidemill.model.run.revisions import ReviseQuestion
from tidemill.model.run.state import DagRunState
from tidemill.model.run.task_instances import Failure, Outcome
from tidemill.model.run.triggering import TriggerQuestion as WatchedTrigger
from tidemill.model.spec.references import RETURN_VALUE
from tidemill.model.spec.tasks import ExternalTaskTask, PokedTask, TimeTask, TriggerDagTask
from tidemill.model.states import RunState, TaskState

from .clock import SECOND, instant
from .history import Activity, Execution, Status
from .world import SimulatedWorker, World

if TYPE_CHECKING:
    from .installation import Folder

BEATS_TIMEOUT = 2 * SECOND


class Work:
    """The activities of one installation. *folder*: the DAG files that bundles look after."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.registered: set[str] = set()

    def perform(self, world: World, worker: SimulatedWorker, execution: Execution, activity: Activity) -> None:
        """Has *worker* do *activity*, beginning now."""
        _Try(self, world, worker, execution, activity).begin()

    @property
    def folder(self) -> Folder:
        return self._folder


class _Try:
    """One start of one activity on one worker."""

    def __init__(
        self, work: Work, world: World, worker: SimulatedWorker, execution: Execution, activity: Activity
    ) -> None:
        self._work, self._world, self._worker = work, world, worker
        self._execution, self._activity = execution, activity
        self._life, self._attempt = worker.life, activity.attempt
        self._key = (execution.run_id, activity.scheduled_id, activity.attempt)
        self._done = False
        self._random = random.Random(f"{world.seed}/{self._name()}")

    def _name(self) -> str:
        first = self._activity.activity_id
        return f"{self._execution.workflow_id}/{first}"

    def begin(self) -> None:
        handler = self._handler(self._activity.kind)
        self._worker.cancels[self._key] = self._canceled
        if self._world.chance("activity_raises") and self._activity.kind != "foreign":
            self._later(self._brief(), lambda: self._fail(ApplicationError("a lost connection", type="Trouble")))
            return
        handler()

    def _handler(self, kind: str) -> Callable[[], None]:
        """What does activities of the name *kind*. Raises AttributeError for one of tidemill's own that nobody does."""
        if kind in WORK:
            return self._do_work
        own = kind.removeprefix("tidemill.")
        return self._do_foreign if own == kind else cast(Callable[[], None], getattr(self, f"_do_{own}"))

    # The end of it

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        def act() -> None:
            if self._worker.life == self._life and not self._done:
                action()

        self._world.later(delay, act)

    def _brief(self) -> int:
        return self._world.random.randint(5_000, 80_000)

    def _end(self, report: Callable[[], bool]) -> None:
        """Tells the service, unless the worker dies between doing and telling."""
        world, worker = self._world, self._worker
        if worker.cut_off_until > world.now:
            self._later(worker.cut_off_until - world.now + world.delay(), lambda: self._end(report))
            return
        if world.chance("dies_before_telling"):
            world.kill(worker, world.random.randint(SECOND, 30 * SECOND))
            return
        self._done = True
        worker.running.pop(self._key, None)
        worker.cancels.pop(self._key, None)
        if not report():
            world.counts["activity ended in vain"] += 1
        elif world.chance("told_twice"):
            report()

    def _complete(self, value: Any) -> None:
        [payload] = self._world.to_payloads(value)
        run_id, scheduled_id, attempt = self._key
        self._end(lambda: self._world.service.complete_activity(run_id, scheduled_id, attempt, payload))

    def _fail(self, error: ApplicationError) -> None:
        failure = ProtoFailure()
        converter = self._world.converter
        converter.failure_converter_class().to_failure(error, converter.payload_converter, failure)
        run_id, scheduled_id, attempt = self._key
        self._end(lambda: self._world.service.fail_activity(run_id, scheduled_id, attempt, failure))

    def _canceled(self) -> None:
        """The worker has heard that nobody wants it any more."""
        if self._done:
            return
        if self._random.random() < 0.2:  # it comes to its end before it can be stopped
            return
        run_id, scheduled_id, attempt = self._key
        self._end(lambda: self._world.service.acknowledge_cancel(run_id, scheduled_id, attempt))

    def _refuse(self, text: str) -> None:
        self._fail(ApplicationError(text, type=INVALID_INPUT, non_retryable=True))

    def _asked(self, kind: Any) -> Any:
        return self._world.value(self._activity.input[0], kind)

    @property
    def _clock(self) -> datetime:
        """What the worker's own clock says."""
        return instant(self._world.now + self._worker.skew)

    # Questions of workflows

    def _do_coming_runs(self) -> None:
        question: TimetableQuery = self._asked(TimetableQuery)
        self._later(self._brief(), lambda: self._complete(self._ticks(question)))

    def _ticks(self, question: TimetableQuery) -> Ticks:
        if self._world.chance("timetable_raises"):
            return Ticks(error="OSError: the calendar is away")
        try:
            return coming_runs(question)
        except Exception as error:
            return Ticks(error=f"{type(error).__name__}: {error}")

    def _do_backfill_part(self) -> None:
        question: BackfillQuestion = self._asked(BackfillQuestion)
        self._later(self._brief(), lambda: self._complete(self._batch(question)))

    _do_backfill_batch = _do_backfill_part

    def _batch(self, question: BackfillQuestion) -> BackfillBatch:
        """As much as there is time for: of a long range a part, which here is drawn."""
        try:
            in_time = lambda: not self._world.chance("counts_in_parts")  # noqa: E731
            return backfill_batch(question.timetable.next_dagrun_info, question, in_time)
        except Exception as error:
            return BackfillBatch(total=0, error=f"{type(error).__name__}: {error}")

    def _do_answer_trigger(self) -> None:
        question: TriggerQuestion = self._asked(TriggerQuestion)
        self._later(self._brief(), lambda: self._complete(self._trigger_answer(question)))

    def _do_answer_triggers(self) -> None:
        question: TriggersQuestion = self._asked(TriggersQuestion)

        def answer() -> None:
            answers = []
            for each in question.one_by_one():
                answers.append(self._trigger_answer(each))
                if answers[-1].run is None:
                    break
            self._complete(answers)

        self._later(self._brief(), answer)

    @staticmethod
    def _trigger_answer(question: TriggerQuestion) -> TriggerAnswer:
        try:
            return answer_trigger(question, read_and_check(question), None)
        except InvalidInputError as error:
            return TriggerAnswer(error=str(error))

    def _do_ended_runs(self) -> None:
        question: RunsQuestion = self._asked(RunsQuestion)

        def answer() -> None:
            reports = [self._report(key, workflow_id) for key, workflow_id in question.workflow_ids.items()]
            self._complete([report for report in reports if report is not None])

        self._later(self._brief(), answer)

    def _report(self, key: str, workflow_id: str) -> RunReport | None:
        found = self._world.service.find(workflow_id)
        if found is None:
            reason = "its workflow is gone from Temporal"
            return RunReport(key=key, state=RunState.FAILED, ended_at=self._clock, reason=reason)
        if found.running:
            return None
        state = RunState.SUCCESS if found.status is Status.COMPLETED else RunState.FAILED
        reason = f"its workflow is {found.status.lower()}"
        at = instant(found.closed_at or 0)
        return RunReport(key=key, state=state, ended_at=at, reason=reason, run=self._columns(workflow_id))

    def _columns(self, workflow_id: str) -> RunColumns | None:
        found = self._world.service.find(workflow_id)
        if found is None or not found.steps:
            return None
        run = self._world.query(found, "identity", result_type=RunIdentity)
        return RunColumns(**run.shown) if run is not None else None

    def _do_run_there(self) -> None:
        workflow_id: str = self._asked(str)
        self._later(self._brief(), lambda: self._complete(self._columns(workflow_id)))

    def _do_holders(self) -> None:
        question: HoldersQuestion = self._asked(HoldersQuestion)

        def answer() -> None:
            held: list[LeaseRequest] = []
            waiting: list[LeaseRequest] = []
            for execution in self._world.listed("DagRun"):
                if execution.running and execution.steps:  # who has ended meanwhile is not found any more
                    found = self._world.query(execution, "leases", question.pool, result_type=RunLeases) or RunLeases()
                    held += found.held
                    waiting += found.waiting
            pools = [e for e in self._world.service.executions.values() if e.workflow_id == question.pool]
            self._complete(Holders(held=tuple(held), waiting=tuple(waiting), follows_another=len(pools) > 1))

        self._later(self._brief(), answer)

    def _do_conf_of_run(self) -> None:
        workflow_id: str = self._asked(str)

        def answer() -> None:
            found = self._world.service.find(workflow_id)
            run = self._world.query(found, "identity", result_type=RunIdentity) if found is not None else None
            execution = found.run_id if found is not None and run is not None else None
            self._complete(RunConf(conf=run.conf if run is not None else {}, execution=execution))

        self._later(self._brief(), answer)

    def _do_load_run(self) -> None:
        last: LastExecution = self._asked(LastExecution)

        def answer() -> None:
            execution = last.execution
            while True:
                found = self._world.service.executions.get(execution)
                if found is None:
                    self._refuse("its history is no longer kept by Temporal")
                    return
                state = self._world.query(found, "whole_state", result_type=DagRunState)
                if state is None:
                    self._refuse("its last execution cannot be read")
                    return
                if state.revision is None:
                    self._complete(state)
                    return
                execution = state.revision.execution

        self._later(self._brief(), answer)

    def _do_revise_run(self) -> None:
        question: ReviseQuestion = self._asked(ReviseQuestion)
        self._later(self._brief(), lambda: self._revise(question))

    def _revise(self, question: ReviseQuestion) -> None:
        found = self._world.service.find(question.workflow_id)
        if found is None:
            self._refuse("its history is no longer kept by Temporal")
        elif found.running:
            self._revise_running(question)
        else:
            self._revise_ended(found, question)

    def _revise_running(self, question: ReviseQuestion) -> None:
        name, argument = "set_state", question.mark_run
        if question.clear is not None:
            name, argument = "clear_tasks", question.clear  # type: ignore[assignment]
        elif question.mark is not None:
            name, argument = "set_task_state", question.mark  # type: ignore[assignment]

        def answered(result: Payload | None, failure: ProtoFailure | None) -> None:
            if failure is not None and failure.application_failure_info.type in ("Closed", JUST_ENDED):
                self._fail(ApplicationError("the run has just ended", type=JUST_ENDED))
            elif failure is not None:
                self._refuse(failure.message)
            elif name == "set_state":
                self._complete(Revised())
            else:
                assert result is not None
                self._complete(Revised(instances=tuple(self._world.value(result, list[str]))))

        def late(result: Payload | None, failure: ProtoFailure | None) -> None:
            self._later(0, lambda: answered(result, failure))

        if not self._world.update(question.workflow_id, name, argument, answered=late):
            self._fail(ApplicationError("the run has just ended", type=JUST_ENDED))

    def _revise_ended(self, found: Execution, question: ReviseQuestion) -> None:
        run = self._world.query(found, "identity", result_type=RunIdentity)
        keys: list[str] | None = []
        keeps = question.mark_run is not None
        if question.clear is not None:
            keys = self._world.query(found, "would_clear", question.clear, result_type=list[str])
        elif question.mark is not None:
            keys = self._world.query(found, "would_mark", question.mark, result_type=list[str])
            before = self._world.query(found, "whole_state", result_type=DagRunState)
            if keys is not None:
                before.settle_ended()
                keeps = keeps_times(before, question.mark, None)
        if run is None or keys is None:
            self._refuse("it is refused by the run")
        else:
            self._complete(Revised(instances=tuple(keys), execution=found.run_id, run=run, keeps_times=keeps))

    def _do_moment(self) -> None:
        attempt: TaskAttempt = self._asked(TaskAttempt)
        assert isinstance(attempt.task, TimeTask)
        run = attempt.run
        since = run.data_interval.end if run.data_interval is not None else run.run_after
        at = since + (attempt.task.delta or timedelta())
        self._later(self._brief(), lambda: self._complete(Moment(at=at, note=f"until {at}")))

    def _do_render(self) -> None:
        attempt: TaskAttempt = self._asked(TaskAttempt)
        value = attempt.task.templated()[0]
        values = (value,) if isinstance(value, str) else tuple(value)
        self._later(self._brief(), lambda: self._complete(Rendered(values=values)))

    # Tasks

    def _do_work(self) -> None:
        attempt: TaskAttempt = self._asked(TaskAttempt)
        random_ = self._random
        seconds = random_.choice((1, 5, 30, 120, 600)) * (0.5 + random_.random())
        if isinstance(attempt.task, PokedTask):
            seconds = 1
        self._later(int(seconds * SECOND), lambda: self._task_ended(attempt))

    def _task_ended(self, attempt: TaskAttempt) -> None:
        random_, task = self._random, attempt.task
        self._world.counts["tries ended"] += 1
        if random_.random() < self._world.rates.get("task_fails", 0.1):
            retryable = random_.random() < 0.9
            kind = "ValueError" if retryable else "ResultTooLarge"
            failure = Failure(error_type=kind, message="a drawn failure", retryable=retryable)
            if random_.random() < self._world.rates.get("disrupted", 0):
                failure = failure.model_copy(update={"retry_delay": timedelta(seconds=random_.choice((0, 45)))})
            self._fail(ApplicationError(failure.message, failure, type=TASK_FAILED, non_retryable=True))
        elif isinstance(task, PokedTask):
            found = random_.random() < 0.4
            self._complete(poked(attempt, PokeReturnValue(found, 1), self._clock))
        elif task.kind == "airflow" and attempt.resume is None and random_.random() < 0.7:
            self._complete(self._deferred(attempt))
        elif random_.random() < 0.05:
            self._complete(Outcome(state=TaskState.SKIPPED, started_at=self._clock, note="a drawn skip"))
        else:
            self._complete(self._outcome(attempt))

    def _outcome(self, attempt: TaskAttempt) -> Outcome:
        task, random_ = attempt.task, self._random
        value: Any = attempt.try_number
        if task.kind == "branch":
            below = self._below(attempt)
            value = random_.choice([None, *below, below]) if below else None
        elif task.kind == "short_circuit":
            value = random_.random() < 0.6
        elif task.task_id.startswith("list"):
            value = [*range(random_.choice((0, 1, 2, 3, 4)))]
        events: tuple[OutletEvent, ...] = ()
        return Outcome(started_at=self._clock, xcom={RETURN_VALUE: value}, asset_events=events)

    def _below(self, attempt: TaskAttempt) -> list[str]:
        """The tasks downstream in the version that the run began with."""
        state = self._execution.input[0]
        spec = self._world.value(state, DagRunState).spec
        return sorted(spec.downstreams.get(attempt.task.task_id, ()))

    def _deferred(self, attempt: TaskAttempt) -> Outcome:
        random_, now = self._random, self._clock
        moment = now + timedelta(seconds=random_.choice((5, 60, 900)))
        timed = random_.random() < 0.5
        deferral = Deferral(
            next_method="execute_complete",
            trigger="package.module.Trigger",
            moment=moment if timed else None,
            ends_task=timed and random_.random() < 0.3,
            timeout_at=now + timedelta(hours=1) if random_.random() < 0.5 else None,
            since=now,
        )
        return Outcome(state=TaskState.DEFERRED, started_at=now, deferral=deferral)

    def _do_airflow_trigger(self) -> None:
        self._asked(WatchedTrigger)
        random_ = self._random
        ended = random_.choice((None, None, None, "success", "failed", "skipped"))
        error = "the trigger has failed" if random_.random() < 0.1 else None
        end = TriggerEnd(event=1, ended=None if error else ended, error=error)
        self._later(random_.choice((1, 20, 300)) * SECOND, lambda: self._complete(end))

    def _do_trigger_dag(self) -> None:
        attempt: TaskAttempt = self._asked(TaskAttempt)
        task = attempt.task
        assert isinstance(task, TriggerDagTask)
        run_id = operator_run_id(attempt.run, attempt.key, attempt.try_number)
        request = {"run_id": run_id, "triggered_by": "operator"}

        def answered(_: Payload | None, __: ProtoFailure | None) -> None:
            done = PokeReturnValue(is_done=True, xcom_value=run_id)
            self._later(0, lambda: self._complete(poked(attempt, done, self._clock)))

        def ask() -> None:
            if not self._world.update(dag_workflow_id(task.trigger_dag_id), "trigger_run", request, answered=answered):
                failure = Failure(error_type="DagNotFound", message="no such DAG")
                self._fail(ApplicationError(failure.message, failure, type=TASK_FAILED, non_retryable=True))

        self._later(self._brief(), ask)

    def _do_external_task(self) -> None:
        attempt: TaskAttempt = self._asked(TaskAttempt)
        assert isinstance(attempt.task, ExternalTaskTask)
        self._later(self._brief(), lambda: self._complete(poked(attempt, self._random.random() < 0.5, self._clock)))

    def _do_foreign(self) -> None:
        result = self._random.random() < 0.8
        if result:
            self._later(SECOND * self._random.randint(1, 60), lambda: self._complete(self._activity.attempt))
        else:
            self._later(SECOND, lambda: self._fail(ApplicationError("a foreign failure", type="Foreign")))

    def _do_notify(self) -> None:
        """A notifier that fails is given up by its worker: whoever waits for it is told so."""
        if self._world.chance("notice_fails"):
            error = ApplicationError("a notifier that fails", type="NotifyFailed", non_retryable=True)
            self._later(self._brief(), lambda: self._fail(error))
        else:
            self._later(self._brief(), lambda: self._complete(None))

    # Assets and bundles

    def _do_watch(self) -> None:
        question: WatchQuestion = self._asked(WatchQuestion)
        position = (question.position or 0) + 1
        found = tuple(Sighting(key=f"{position}") for _ in range(self._random.randint(0, 1)))
        answer = WatchAnswer(found=found, position=position if found else question.position)
        self._later(self._random.choice((1, 100, 500)) * SECOND, lambda: self._complete(answer))

    def _do_list_files(self) -> None:
        question: ListQuestion = self._asked(ListQuestion)

        def answer() -> None:
            listing = self._work.folder.listing(question.settings.name)
            same = listing.digest == question.known
            self._complete(Listing(digest=listing.digest, files=None if same else listing.files))

        self._later(self._brief(), answer)

    def _do_parse_file(self) -> None:
        question: ParseQuestion = self._asked(ParseQuestion)

        def answer() -> None:
            digest, specs = self._work.folder.content(question.settings.name, question.path)
            error = None if specs is not None else "SyntaxError: invalid syntax"
            dags = tuple(ParsedDag(dag_id=spec.dag_id, version=spec.version) for spec in specs or ())
            self._complete(ParseResult(digest=digest, dags=dags, error=error, seconds=0.1))

        self._later(self._brief(), answer)

    def _do_register_dags(self) -> None:
        question: RegisterQuestion = self._asked(RegisterQuestion)
        errors: dict[str, str | None] = {}
        versions: dict[str, str] = {}

        def registered(dag_id: str, result: Payload | None, failure: ProtoFailure | None) -> None:
            errors[dag_id] = None if failure is None else failure.message
            if result is not None:
                versions[dag_id] = self._world.value(result, Registration).version
            if len(errors) == len(question.dags):
                self._complete(Registered(errors=errors, versions=versions))

        def ask() -> None:
            for dag in question.dags:
                spec = self._work.folder.version(dag.dag_id, dag.version)
                workflow_id = dag_workflow_id(dag.dag_id)
                self._world.service.start("Dag", workflow_id, self._world.to_payloads(spec))

                def answered(result: Payload | None, failure: ProtoFailure | None, dag_id: str = dag.dag_id) -> None:
                    self._later(0, lambda: registered(dag_id, result, failure))

                self._world.update(workflow_id, "register", spec, answered=answered)

        self._later(self._brief(), ask)

    def _do_compare_dags(self) -> None:
        question: CompareQuestion = self._asked(CompareQuestion)

        def answer() -> None:
            running = {execution.workflow_id for execution in self._world.listed("Dag")}
            strays = [dag_id for dag_id in question.versions if dag_workflow_id(dag_id) not in running]
            self._complete(Compared(strays=tuple(strays)))

        self._later(self._brief(), answer)

    def _do_tell_dags(self) -> None:
        question: TellQuestion = self._asked(TellQuestion)

        def tell() -> None:
            for dag_id, state in question.states.items():
                self._world.service.signal(dag_workflow_id(dag_id), "file_state", self._world.to_payloads(state))
            self._complete(None)

        self._later(self._brief(), tell)
