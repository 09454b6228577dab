"""Has Airflow's Task SDK run one try of a task, and tells what has come of it."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from ....model.errors import InvalidInputError
from ....model.run.attempts import CallbackCall, TaskAttempt, attempt_uuid
from ....model.run.facts import RunSummary
from ....model.run.identity import operator_run_id
from ....model.run.task_instances import Failure, Outcome
from ....model.spec.notifiers import Event
from ....model.states import RunState
from ...processes.answers import Failed, Performed, as_left
from ..dag_code import dag_of, file_of
from ..failures import describe_failure, print_failure
from .answers import Asking
from .answers.assets import consumed
from .answers.runs import dag_run
from .answers.table import answer
from .dag_conversion import is_mapped_operator
from .deadlines import call_missed
from .outcomes import result_of
from .start_from_trigger import TriggerFailed, begun_by_trigger, fail, is_failed_by_trigger
from .supervisor_socket import answered
from .task_report import TaskReport

if TYPE_CHECKING:
    from ..job import Job

TRIGGERS_RUNS = "TriggerDagRunOperator"
ENDS_WELL = ("success", "skipped", "deferred", "up_for_reschedule", "awaiting_input")


def run(job: Job) -> Performed | Failed:
    """Runs the task of the request's attempt, and leaves its result where another start of it finds it."""
    attempt = TaskAttempt.model_validate(job.request["attempt"])
    report = TaskReport()
    asking = Asking(attempt, report, job)
    with answered(lambda message, _: answer(asking, message)):
        try:
            dag = dag_of(job.imported().airflow_dags, attempt)
            task = _task_of(dag, attempt)
        except BaseException as error:
            print_failure(error)
            return Failed(failure=describe_failure(error))
        if attempt.callback is not None:
            return _call_back(dag, attempt)
        result = perform(task, attempt, report, job)
    if result is None:
        return Failed(failure=describe_failure(InterruptedError("the task was stopped")))
    _leave(job, result)
    return result


def _leave(job: Job, result: Performed | Failed) -> None:
    """Puts *result* where another start of the same try finds it."""
    if (folder := job.request.get("folder")) is not None:
        with suppress(OSError):  # another user may not write there: then the worker does, from the answer
            whole = Path(folder, "result.json")
            whole.with_suffix(".new").write_text(json.dumps(as_left(result)))
            whole.with_suffix(".new").replace(whole)


def perform(task: Any, attempt: TaskAttempt, report: TaskReport, job: Job) -> Performed | Failed | None:
    """Runs *task* to the end of its try; what has come of it, or None if it was stopped from outside.

    What has come of it is left before callbacks are called: a try that is killed in one does not run again.
    """
    from airflow.sdk.execution_time import task_runner

    started = datetime.now(UTC)
    try:
        ti = runtime_instance(task, attempt, started)
        context = ti.get_template_context()
        report.end = begun_by_trigger(task, context) if attempt.resume is None else None
    except BaseException as error:  # such as a param that does not fit its schema
        print_failure(error)
        return Failed(failure=describe_failure(error), started_at=started)
    log = _logger()
    if report.end is not None:
        return result_of(attempt, report, None, started)
    if is_failed_by_trigger(attempt):
        reason: BaseException | None = TriggerFailed("its trigger has ended the task")
        state, report.end = fail(ti, attempt, datetime.now(UTC))
    else:
        state, _, reason = task_runner.run(ti, context, log)
        if state not in ENDS_WELL and job.ask(ending=True)["ending"]:
            return None  # nobody's failure: it goes on elsewhere, or was not wanted any more
    context["exception"] = reason
    _leave(job, result_of(attempt, report, reason, started))
    task_runner.finalize(ti, state, context, log, reason)
    return result_of(attempt, report, reason, started)


def _logger() -> Any:
    import structlog

    return structlog.get_logger("airflow.task")


def _task_of(dag: Any, attempt: TaskAttempt) -> Any:
    if attempt.callback is not None:
        return None
    task = dag.task_dict.get(attempt.task.task_id)
    if task is None:
        raise InvalidInputError(
            f"task {attempt.task.task_id!r} is no longer in DAG {dag.dag_id!r} of {file_of(attempt)}. "
            "Put it back, or register the DAG again"
        )
    _name_its_run(task, operator_run_id(attempt.run, attempt.key, attempt.try_number))
    return task


def _name_its_run(task: Any, run_id: str) -> None:
    """Names the run that *task* starts, if it starts one and leaves that open.

    Else the moment would name it, and a try that is started again would start another run.
    """
    is_mapped = is_mapped_operator(task)
    kind = task.operator_class if is_mapped else type(task)
    if not any(base.__name__ == TRIGGERS_RUNS for base in kind.__mro__):
        return
    if is_mapped:
        task.partial_kwargs.setdefault("trigger_run_id", run_id)
    elif not task.trigger_run_id:
        task.trigger_run_id = run_id


def identity_of(attempt: TaskAttempt) -> dict[str, Any]:
    """What a task instance is called; its id is the same over the pokes of a try, and after it has waited."""
    run, task_id = attempt.run, attempt.task.task_id
    return {
        "id": attempt_uuid(run, task_id, attempt.try_number, attempt.map_index, attempt.execution),
        "task_id": task_id,
        "dag_id": run.dag_id,
        "run_id": run.run_id,
        "try_number": attempt.try_number,
        "map_index": attempt.map_index,
    }


def runtime_instance(task: Any, attempt: TaskAttempt, started: datetime) -> Any:
    """The task instance as Airflow's own runner makes it."""
    from airflow.sdk.api.datamodels._generated import TaskInstanceState, TIRunContext
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance, _register_deserialization_allowed_classes

    _register_deserialization_allowed_classes(task.dag, _logger())
    source, resume = attempt.source, attempt.resume
    version = source.sha256 if source is not None else ""
    context = TIRunContext.model_validate(run_context(attempt, started))
    return RuntimeTaskInstance.model_construct(
        **identity_of(attempt),
        dag_version_id=uuid5(NAMESPACE_URL, version),
        queue=task.queue,
        context_carrier=None,
        hostname="",
        task=task,
        bundle_instance=_bundle(attempt),
        _ti_context_from_server=context,
        max_tries=context.max_tries,
        start_date=resume.since if resume is not None and resume.since is not None else started,
        state=TaskInstanceState.RUNNING,
        is_mapped=attempt.map_index >= 0,
        sentry_integration="",
    )


def _bundle(attempt: TaskAttempt) -> Any:
    source = attempt.source
    path = Path(source.root or Path(source.path).parent) if source is not None else Path.cwd()
    return SimpleNamespace(
        name=(source.bundle if source is not None else None) or "dags-folder",
        version=source.snapshot if source is not None else None,
        path=path,
    )


def run_context(attempt: TaskAttempt, started: datetime) -> dict[str, Any]:
    """What Airflow's API server tells a task of its run."""
    resume = attempt.resume
    return {
        "dag_run": run_of(attempt),
        "task_reschedule_count": attempt.poke - 1 if resume is None else 0,
        "max_tries": attempt.max_tries,
        "should_retry": attempt.try_number <= attempt.max_tries,
        "next_method": resume.next_method if resume is not None else None,
        "next_kwargs": resume.next_kwargs if resume is not None else None,
        "start_date": (resume.since if resume is not None else None) or started,
    }


def run_of(attempt: TaskAttempt) -> dict[str, Any]:
    """The run as Airflow's models have it."""
    run, called = attempt.run, attempt.callback
    end = called.event.state if called is not None and called.of_run else None
    state = RunState(end) if end is not None else RunState.RUNNING
    known = RunSummary.of(run, state=state, started_at=attempt.run_started_at or run.run_after)
    events = [consumed(event) for event in run.asset_events]
    return {**dag_run(run.dag_id, known, "python"), "consumed_asset_events": events}


def _call_back(dag: Any, attempt: TaskAttempt) -> Performed | Failed:
    """Calls what the DAG wants called at the end of a run."""
    called = attempt.callback
    assert called is not None  # noqa: S101
    started = datetime.now(UTC)
    given = getattr(dag, called.event.value, None) or ()
    failure: Failure | None = None
    try:
        if called.event is Event.DEADLINE_MISS:
            call_missed(dag, attempt, run_of(attempt))
            return Performed(outcome=Outcome(started_at=started))
        context = _context_of_run(dag, attempt, started)
        for function in [given] if callable(given) else given:
            try:
                function(context)
            except BaseException as error:  # the others are called all the same, as in Airflow
                print_failure(error)
                failure = failure or describe_failure(error)
    except BaseException as error:
        print_failure(error)
        failure = describe_failure(error)
    if failure is not None:
        return Failed(failure=failure)
    return Performed(outcome=Outcome(started_at=started))


def _context_of_run(dag: Any, attempt: TaskAttempt, started: datetime) -> dict[str, Any]:
    """What a callback of the run is given: the context of the task by which it has ended, as in Airflow."""
    assert attempt.callback is not None  # noqa: S101
    about = attempt.callback.about
    task = dag.task_dict.get(about.task_id) if about is not None else None
    if about is None or task is None:
        context = {"dag": dag, "run_id": attempt.run.run_id, "dag_run": SimpleNamespace(**run_of(attempt))}
    else:
        ti = runtime_instance(task, attempt.seen_by_callback, started)
        ti.max_tries, ti.state = about.max_tries, about.state
        ti.start_date, ti.end_date = about.started_at, about.ended_at
        context = ti.get_template_context()
    return {**context, "reason": _reason(attempt.callback)}


def _reason(called: CallbackCall) -> str | None:
    """Why a run has ended, in Airflow's words where it has some."""
    if called.event is Event.ON_SUCCESS:
        return "success"
    if (called.reason or "").startswith("dagrun_timeout"):
        return "timed_out"
    if called.about is not None:
        return "task_failure"
    return called.reason
