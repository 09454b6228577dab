"""Spark Connect: the client runs below this worker, its work on a server that others share.

A client that dies leaves its operations running on the server, and they commit. So each start of
an attempt has a session of its own, whose id follows from the attempt; the next start closes the
sessions of all before it, for ever, and only then begins.
"""

from typing import Any
from uuid import UUID, uuid5

from temporalio.exceptions import ApplicationError

from ...model.run.attempts import TaskAttempt
from ...model.run.task_instances import Outcome
from ...model.states import TaskState
from ..attempts.folder import RESULT
from ..attempts.lifecycle import attempt_variables, run_in_child, whole
from ..attempts.supervision import AttemptSupervisor, Closing, infrastructure_error
from ..names import MAX_STARTS
from ..processes.answers import ConnectEnded
from .command import application_file, contract, plain
from .place import invalid, shown, spark_task
from .starts import Mode, SparkStart

SESSION = "session.json"
"""Which session the last start of an attempt has had."""
SPARK_SESSION = "spark_session"
"""The XCom key of a session that a task has left open."""


def session_id(attempt: TaskAttempt, number: int, part: str = "") -> str:
    """The session of start *number* of the attempt, or of a *part* of it. Spark takes ids of UUID version 4 only."""
    return str(UUID(bytes=uuid5(attempt.uuid, f"{part}{number}").bytes, version=4))


class ConnectMode(Mode):
    """The driver is a server that others share; each start of an attempt has a session there."""

    def run(self, work: SparkStart) -> Outcome:
        """Run the client to its end."""
        return run_connect(work)

    def end(self, work: SparkStart, _: str | None) -> None:
        """Close the sessions of all starts, also of those that have not begun."""
        end_sessions(work, [*range(1, MAX_STARTS + 1)], AttemptSupervisor(None))


def run_connect(work: SparkStart) -> Outcome:
    """Runs the client and follows it to its end; returns the result of an earlier start if there is one."""
    earlier = work.earlier_result()
    if earlier is not None:
        return _with_session(work, earlier)
    watch = work.watch()
    if work.number > 1:
        end_sessions(work, [*range(1, work.number)], watch)
    plan = _plan(work)
    work.leave_plan()
    work.folder.write(SESSION, {"id": session_id(work.attempt, work.number, work.part)})
    try:
        lost = _client(work, plan, watch, calls_code=work.calls_code)
    except BaseException:
        # A result that is there already, and that the next start returns, is about a session that stays open.
        if not (work.keeps_session and work.folder.left(RESULT)):
            end_sessions(work, [work.number], Closing())
        raise
    if lost is not None:
        raise infrastructure_error(
            f"the Spark Connect server at {shown(work.options.master)} {lost}: the try begins again"
        )
    result = work.folder.left(RESULT)
    assert result is not None  # noqa: S101 - the client has answered that it is there
    return _with_session(work, work.ended(result))


def _with_session(work: SparkStart, outcome: Outcome) -> Outcome:
    """Return *outcome* with the session that its start has left open, where it was to."""
    if not work.keeps_session or outcome.state is not TaskState.SUCCESS:
        return outcome
    kept = work.folder.read(SESSION)
    return outcome.model_copy(update={"xcom": {**outcome.xcom, SPARK_SESSION: (kept or {}).get("id")}})


def _client(
    work: SparkStart, plan: dict[str, Any], watch: AttemptSupervisor, *, calls_code: bool = False
) -> str | None:
    """Has a fork of a warm client do what *plan* says. Raises the task's failure if it does not come to its end.

    Returns what has become of the server, where that was lost under it.
    """
    place, attempt, folder = work.workplace, work.attempt, work.folder
    ended = run_in_child(
        place, attempt, folder, "connect", watch, whole, calls_code=calls_code, connect=True, plan=plan
    )
    return ended.answer.lost if isinstance(ended.answer, ConnectEnded) else None


def _plan(work: SparkStart) -> dict[str, Any]:
    named = {} if work.options.name is None else {"spark.app.name": work.options.name}
    plan = work.plan(
        remote=work.options.master,
        session_id=session_id(work.attempt, work.number, work.part),
        tag=f"tidemill-{work.attempt.uuid.hex}",
        conf={**named, **plain(work.options.conf), **contract(work)},
        env={**work.filled["env"], **attempt_variables(work.attempt)},
        directory=str(work.directory),
        keep_session=work.keeps_session,
        clone=_source_of(work),
    )
    if work.script is not None:
        plan["argv"] = [application_file(work), *map(str, work.filled["application_args"])]
    return plan


def _source_of(work: SparkStart) -> str | None:
    """Return the session that the task begins with a copy of; None without one. Fails the task for what is none."""
    given = work.filled["session"]
    if work.part or spark_task(work.attempt).session is None:
        return None
    try:
        return str(UUID(given))
    except (ValueError, AttributeError, TypeError):
        raise invalid(
            f"session: {given!r} is not the id of one session. Name the result of one task that has kept its own: "
            "session=prepare.output['spark_session']"
        ) from None


def end_sessions(work: SparkStart, numbers: list[int], watch: AttemptSupervisor) -> None:
    """Ends what starts *numbers* of the attempt run on the server; returns when the server has confirmed it."""
    plan = {"remote": work.options.master, "end": [session_id(work.attempt, number, work.part) for number in numbers]}
    try:
        _client(work, plan, watch)
    except ApplicationError as error:
        where = shown(work.options.master)
        message = f"Spark Connect sessions of an earlier start could not be ended at {where}: {error.message}"
        raise infrastructure_error(message) from None
