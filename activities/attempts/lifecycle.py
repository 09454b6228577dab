"""The way of an attempt through a worker: the same for every kind of task, in one direction.

1. find what an earlier start of the same try left, and return that;
2. lay out the code that the DAG was read from;
3. fork a child, which renders the task's templates and does its work;
4. watch it: heartbeats, its log, what it looks up; end it when it has to stop;
5. make an outcome of its answer, and keep that until Temporal has it for sure.

A kind of task says only what the child does, and how its answer is read.
"""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from ...model.errors import InvalidInputError, NotAllowedError
from ...model.run.attempts import TaskAttempt, task_path
from ...model.run.context import resolve
from ...model.run.task_instances import Failure, Outcome
from ...model.spec.dag import DagSource
from ...model.spec.owned import OwnedNames
from ...model.spec.references import texts
from ...model.states import WAITS
from .. import metrics, tracing
from ..kept import Kept
from ..masking import Masker
from ..names import TASK_FAILED
from ..processes.answers import ChildAnswer, Failed, Filled, Performed, as_left, read_exit, read_result
from ..processes.call import CallEnd, ServerGone
from ..processes.forks import CodePlace, ImportFailed
from ..processes.messages import Rendered, TriggerEvent
from ..secrets import STORED, look_up, names_of, new_masker, place_of, store
from ..worker_context import WorkerContext
from .beside_log import RENDERED, keep_beside
from .folder import EXIT, RESULT, AttemptFolder
from .key_values import ANY_TASK, KeyValues
from .log import AttemptLog, last_printed
from .outcomes import check_size, failure_of_child, outcome_of, unanswered
from .run_lookup import LookupProxy
from .storage import until_stored
from .supervision import AttemptSupervisor, infrastructure_error, stopping_cleanly, task_failure

log = logging.getLogger(__name__)
T = TypeVar("T")
INCLUDES = re.compile(r"\{%-?\s*(include|import|from|extends)\b")
"""What a template asks for another file with."""
LOOKED_UP = ("variable", "connection")
KEPT_OF = ("task", "asset_name", "asset_uri", "variables")


@dataclass(frozen=True)
class ChildResult:
    """What is known of a child that has ended: its answer, and the last lines that it printed."""

    answer: ChildAnswer
    last_line: str | None
    tail: tuple[str, ...]


def whole(result: ChildResult) -> ChildResult:
    """All that is known of a child, for who reads it later."""
    return result


def _as_answered(_: TaskAttempt, result: ChildResult) -> Outcome:
    return outcome_of(result.answer)


def _any_room(_: WorkerContext, __: TaskAttempt, ___: AttemptSupervisor) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True)
class WorkKind:
    """A kind of work, as the life cycle needs to know it."""

    work: str
    """What the child does: a name that `work.child.work_named` knows."""
    calls_code: bool
    """Whether it needs the DAG file."""
    outcome: Callable[[TaskAttempt, ChildResult], Outcome] = _as_answered
    """Reads the child's answer. Raises the task's failure."""
    grace: timedelta = timedelta()
    """How much longer than execution_timeout it may take: the child itself ends it in time."""
    room: Callable[[WorkerContext, TaskAttempt, AttemptSupervisor], AbstractContextManager[None]] = _any_room
    """What it waits for and holds as long as it works, of what the tasks of a worker share."""


def execute_attempt(worker_context: WorkerContext, attempt: TaskAttempt, kind: WorkKind) -> Outcome:
    """One start of a try of a task, from its beginning to its outcome. Raises the task's failure."""
    tracing.describe(attempt)
    supervisor = attempt_supervisor(
        worker_context, attempt.timeout + kind.grace if attempt.timeout is not None else None
    )
    noted = worker_context.under_way.noted(activity.info().task_token, worker_context.attempt_folder(attempt))
    kept = worker_context.results.keeping_pushed(attempt)
    with stopping_cleanly(), logging_early_failure(worker_context, attempt), metrics.running(kind.work), noted, kept:
        outcome = _outcome(worker_context, attempt, kind, supervisor)
        if attempt.owns is not None:  # the run refuses them: it takes no worker's word for it
            problem = attempt.owns.first_problem(("asset", event.asset.name) for event in outcome.asset_events)
            if problem is not None:
                worker_context.refused_of(attempt)("emit", problem)
        return _kept(worker_context, attempt, outcome)


def _kept(worker_context: WorkerContext, attempt: TaskAttempt, outcome: Outcome) -> Outcome:
    """*outcome* with its large values in the store. Where that cannot be, it is tried again, and not the work.

    Raises OSError when it could not be for an hour.
    """
    supervisor = attempt_supervisor(worker_context, None)  # the work has ended within its own time
    message = f"the result of {attempt.name} cannot be kept at {worker_context.results.url}"
    kept = until_stored(lambda: worker_context.results.put(attempt, outcome), message, supervisor)
    check_size(kept)
    return kept


def made_folder(worker_context: WorkerContext, attempt: TaskAttempt) -> AttemptFolder:
    """The folder of *attempt*, made. Raises OSError when it could not be for an hour."""
    folder = worker_context.attempt_folder(attempt)
    return until_stored(
        folder.make, f"no folder for {attempt.name} can be made", attempt_supervisor(worker_context, None)
    )


def _outcome(
    worker_context: WorkerContext, attempt: TaskAttempt, kind: WorkKind, supervisor: AttemptSupervisor
) -> Outcome:
    folder = made_folder(worker_context, attempt)
    worker_context.leftovers.forget_poke_before(attempt)
    earlier = _earlier(folder, attempt, kind)
    if earlier is None:
        folder.end_earlier_start()
        earlier = _now(worker_context, attempt, folder, kind, supervisor)
        if not (folder.path / RESULT).exists():
            try:
                folder.write(RESULT, as_left(Performed(outcome=earlier)))
            except OSError as error:  # it matters only where what follows, the report, is lost
                log.warning("no note of the outcome of %s can be kept: %s", attempt.name, error)
    if earlier.state not in WAITS:  # else it goes on in the same place
        worker_context.leftovers.add(AttemptFolder.of(worker_context.home, attempt.model_copy(update={"poke": 1})).path)
    return earlier


def _now(
    worker_context: WorkerContext,
    attempt: TaskAttempt,
    folder: AttemptFolder,
    kind: WorkKind,
    supervisor: AttemptSupervisor,
) -> Outcome:
    """Has the work done."""
    filled = worker_context.results.fill(attempt)
    try:
        with kind.room(worker_context, attempt, supervisor):
            outcome: Outcome = run_in_child(
                worker_context,
                filled,
                folder,
                kind.work,
                supervisor,
                partial(kind.outcome, attempt),
                calls_code=kind.calls_code,
            )
            return outcome
    except ApplicationError as error:
        # What it has come to counts, though its process has ended badly after that, as in a callback.
        if error.type != TASK_FAILED or (left := folder.left(RESULT)) is None:
            raise
        return outcome_of(read_result(left), new_masker())


def _earlier(folder: AttemptFolder, attempt: TaskAttempt, kind: WorkKind) -> Outcome | None:
    """What an earlier start has come to. Raises its failure."""
    if (result := folder.ending(RESULT)) is not None:
        return outcome_of(read_result(result), new_masker())
    if (end := read_exit(folder.ending(EXIT))) is not None:
        return kind.outcome(attempt, ChildResult(end, last_printed(folder.log), ()))
    return None


def run_in_child(
    worker_context: WorkerContext,
    attempt: TaskAttempt,
    folder: AttemptFolder,
    work: str,
    supervisor: AttemptSupervisor,
    read: Callable[[ChildResult], T],
    *,
    calls_code: bool = False,
    connect: bool = False,
    **more: Any,
) -> T:
    """Has a child do *work* for *attempt*, follows it, and returns what *read* makes of its answer.

    The last line of the log says how it has ended. Raises the task's failure, also if there is no answer.
    """
    code = worker_context.code_of(attempt) if calls_code or attempt.templates_need_code else None
    request = {
        **_template_folders(worker_context, attempt, attempt.task.templated()),
        "log_url": worker_context.log_url_of(attempt),
        "attempt": attempt.model_dump(mode="json"),
        "folder": str(folder.make().work),
        "directory": str(worker_context.directory(attempt)),
        "variables": attempt_variables(attempt),
        "grace": worker_context.grace.total_seconds(),
        **more,
    }
    supervisor.keep(folder.path, folder.log)
    masker = new_masker()
    with worker_context.log_at(folder.log, masker) as log:
        if log.is_new:
            log.note(_first_line(attempt))
        end = _followed(
            worker_context,
            work,
            request,
            ChildListener(
                log,
                masker,
                worker_context.facts,
                worker_context.key_values,
                task_path(attempt.run.dag_id, attempt.run.run_id, attempt.task.task_id, attempt.map_index),
                attempt.owns,
                worker_context.refused_of(attempt),
                lambda fields, masker: keep_beside(folder.log, RENDERED, fields, masker),
            ),
            supervisor,
            code,
            attempt.source if code is not None else None,
            connect=connect,
            began=folder.claim,
        )
        log.end_line()
        with _telling_the_end(log) as tell:
            if end.answer is None:
                raise task_failure(unanswered(end.code, memory=end.memory))
            if isinstance(end.answer, Failed):
                raise task_failure(failure_of_child(end.answer.failure, masker))
            found = read(ChildResult(end.answer, log.last_line, log.tail))
            tell(found)
            return found


@contextmanager
def logging_early_failure(worker_context: WorkerContext, attempt: TaskAttempt) -> Iterator[None]:
    """Has a try that fails before anything was started for it leave a log as well, which says why."""
    try:
        yield
    except ApplicationError as error:
        path = worker_context.attempt_folder(attempt).log
        if error.type == TASK_FAILED and not path.exists():
            with suppress(OSError), worker_context.log_at(path, new_masker()) as log:
                log.note(_first_line(attempt))
                log.error(f"the try has failed: {error.message}")
        raise


def _first_line(attempt: TaskAttempt) -> str:
    return f"{attempt.task.shown_class} {attempt.task.task_id}, try {attempt.try_number}"


@contextmanager
def _telling_the_end(log: AttemptLog) -> Iterator[Callable[[Any], None]]:
    """Has the last line of *log* say how the try has ended: who looks for the reason looks there first."""

    def tell(found: Any) -> None:
        if isinstance(found, Outcome):
            log.note(f"the try has ended as {found.state}" + (f": {found.note}" if found.note else ""))

    try:
        yield tell
    except ApplicationError as error:
        if error.type == TASK_FAILED and error.details:
            failure = Failure.model_validate(error.details[0])
            log.error(f"the try has failed: {failure.error_type}: {failure.message}")
        raise


def _followed(
    worker_context: WorkerContext,
    work: str,
    request: dict[str, Any],
    listener: "ChildListener",
    supervisor: AttemptSupervisor,
    code: CodePlace | None,
    source: DagSource | None,
    *,
    connect: bool,
    began: Callable[[str, int], None] | None = None,
) -> CallEnd:
    try:
        return worker_context.forks_of(source).call(
            work,
            request,
            listener=listener,
            checks=supervisor,
            code=code,
            grace=worker_context.grace.total_seconds(),
            connect=connect,
            began=began,
        )
    except ImportFailed as error:
        raise task_failure(failure_of_child(error.args[0], listener.masker)) from None
    except ServerGone:
        raise infrastructure_error("the process above the task's ended while the task ran") from None


class ChildListener:
    """What a worker hears from a child, and answers."""

    def __init__(
        self,
        log: AttemptLog | None,
        masker: Masker,
        lookup: LookupProxy | None = None,
        key_values: KeyValues | None = None,
        task: str | None = None,
        owns: OwnedNames | None = None,
        refused: Callable[[str, str], None] | None = None,
        rendered: Callable[[Any, Masker], None] | None = None,
    ) -> None:
        self._log = log
        self._task = task
        self._facts = lookup or LookupProxy()
        self._key_values = key_values
        self._owns = owns or OwnedNames()
        self._refused = refused
        self._rendered = rendered
        self.masker = masker

    def output(self, data: bytes) -> None:
        if self._log is not None:
            self._log.feed(data)

    def mask(self, secret: str) -> None:
        self.masker.add(secret)  # and nobody else's: a task could blind the logs of others

    def note(self, message: Rendered | TriggerEvent) -> None:
        """Takes what a child says without waiting for an answer. Whatever it is, the task goes on."""
        try:
            if isinstance(message, Rendered) and self._rendered is not None:
                self._rendered(message.rendered, self.masker)
        except Exception as error:  # such as RecursionError
            log.warning("rendered fields cannot be kept: %s", error)

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The text of a variable or connection, or what is known of a run.

        A backend that fails is the task's matter, not the worker's.
        """
        try:
            if "about" in question:
                return self._facts.answer(question)
            if "trigger" in question:
                return self._facts.trigger(question["attempt"], question["trigger"])
            if "store" in question:
                return self._kept(question)
            kind = question.get("names", question.get("look_up"))
            if kind not in LOOKED_UP:
                return {"error": f"{kind!r} is nothing that is looked up. Ask for a variable or a connection"}
            if "names" in question:
                return {
                    "names": [name for name in names_of(kind, self._key_values) if not self._owns.problem(kind, name)]
                }
            self._owns.check(kind, question["name"])
            return {"text": look_up(kind, question["name"], self._key_values)}
        except NotAllowedError as error:
            if self._refused is not None:
                self._refused("look_up", str(error))
            return {"error": str(error)}
        except InvalidInputError as error:
            return {"error": str(error)}
        except Exception as error:
            where = "what is kept" if "store" in question else "the secrets backend"
            return {"error": f"{where} failed: {type(error).__name__}: {self.masker.masked(str(error))}"}

    def _may_keep(self, _: dict[str, Any]) -> bool:
        """Whether the process works for the task whose values it asks for. One of one task need not say for which."""
        return self._task != ANY_TASK

    def _kept(self, question: dict[str, Any]) -> dict[str, Any]:
        """What is asked of values that tasks keep; where nobody keeps any, there are none.

        Raises NotAllowedError for what is others'.
        """
        if self._key_values is None:
            return {"found": False, "keys": []}
        if question.get("of") not in KEPT_OF:
            raise NotAllowedError(f"no values of {question.get('of')!r} are kept, and no question names a place itself")
        if question["of"] in ("asset_name", "asset_uri"):
            self._owns.check("asset", question["asset"])
        elif question["of"] == "variables":
            return self._variables(question)
        elif not self._may_keep(question):
            raise NotAllowedError("these are values of a task that this process does not work for")
        return self._key_values.answer(question, self._task)

    def _variables(self, question: dict[str, Any]) -> dict[str, Any]:
        """Sets or deletes a variable in the store: the one that people see, too.

        Raises NotAllowedError for one of others, InvalidInputError for what cannot be kept.
        """
        key, kept = str(question.get("key", "")), store(self._key_values)
        self._owns.check("variable", key)
        if kept is None:
            raise InvalidInputError(f"variable {key!r} cannot be kept: nobody keeps any here")
        if question["store"] == "delete":
            kept.remove("variable", key)
            return {}
        if question["store"] != "set":
            raise InvalidInputError(f"variables are set and deleted one by one, not: {question['store']}")
        by = f"set by {self._task}" if self._task not in (None, ANY_TASK) else None
        kept.put("variable", Kept(key, str(question["value"]), question.get("description") or by))
        place = place_of("variable", key, self._key_values)
        return {"hidden_by": place} if place not in (None, STORED) else {}


def attempt_supervisor(worker_context: WorkerContext, timeout: timedelta | None, **more: Any) -> AttemptSupervisor:
    """A watch over an attempt that may go on while its worker drains."""
    return AttemptSupervisor(timeout, drain=worker_context.drain, **more)


def rendered(
    worker_context: WorkerContext,
    attempt: TaskAttempt,
    values: Any,
    *,
    for_history: bool,
    supervisor: AttemptSupervisor,
) -> Any:
    """*values* with results and templates filled in, by a child. Fails the task where that cannot be done.

    What is *for_history* may hold no variables and connections.
    """
    folders = _template_folders(worker_context, attempt, values)
    if not folders and not any("{" in text for text in texts(values)):
        try:
            return resolve(values, attempt.xcom)
        except InvalidInputError as error:
            raise task_failure(Failure(error_type="TemplateError", message=str(error))) from None
    request = {
        "attempt": attempt.model_dump(mode="json"),
        "values": values,
        "for_history": for_history,
        "log_url": worker_context.log_url_of(attempt),
        **folders,
    }
    code = worker_context.code_of(attempt) if attempt.templates_need_code else None
    listener = ChildListener(
        None, new_masker(), worker_context.facts, owns=attempt.owns, refused=worker_context.refused_of(attempt)
    )
    source = attempt.source if code is not None else None
    end = _followed(worker_context, "render", request, listener, supervisor, code, source, connect=False)
    match end.answer:
        case Filled(values=found):
            return found
        case Failed(failure=failure):
            raise task_failure(failure_of_child(failure, listener.masker))
        case _:
            raise task_failure(unanswered(end.code, memory=end.memory))


def _template_folders(worker_context: WorkerContext, attempt: TaskAttempt, values: Any) -> dict[str, list[str]]:
    """Where template files are, for a child that will need one: one that is named, or that a template includes."""
    ends = attempt.task.template_ext
    if any(INCLUDES.search(text) or (ends and text.endswith(ends)) for text in texts(values)):
        return {"template_folders": [str(folder) for folder in worker_context.template_folders(attempt)]}
    return {}


def attempt_variables(attempt: TaskAttempt) -> dict[str, str]:
    """What a process is told of what it runs for: Airflow's variables, and OpenTelemetry's where a run is traced."""
    run = attempt.run
    values = {
        "AIRFLOW_CTX_DAG_ID": run.dag_id,
        "AIRFLOW_CTX_TASK_ID": attempt.task.task_id,
        "AIRFLOW_CTX_DAG_RUN_ID": run.run_id,
        "AIRFLOW_CTX_TRY_NUMBER": str(attempt.try_number),
        **tracing.environment(),
    }
    if run.logical_date is not None:
        values["AIRFLOW_CTX_LOGICAL_DATE"] = run.logical_date.isoformat()
    return values
