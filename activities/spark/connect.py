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

    def run(self, start: SparkStart) -> Outcome:
        """Run the client to its end."""
        return run_connect(start)

    def end(self, start: SparkStart, _: str | None) -> None:
        """Close the sessions of all starts, also of those that have not begun."""
        end_sessions(start, [*range(1, MAX_STARTS + 1)], AttemptSupervisor(None))


def run_connect(start: SparkStart) -> Outcome:
    """Runs the client and follows it to its end; returns the result of an earlier start if there is one."""
    earlier = start.earlier_result()
    if earlier is not None:
        return _with_session(start, earlier)
    supervisor = start.watch()
    if start.number > 1:
        end_sessions(start, [*range(1, start.number)], supervisor)
    plan = _plan(start)
    start.leave_plan()
    start.folder.write(SESSION, {"id": session_id(start.attempt, start.number, start.part)})
    try:
        lost = _client(start, plan, supervisor, calls_code=start.calls_code)
    except BaseException:
        # A result that is there already, and that the next start returns, is about a session that stays open.
        if not (start.keeps_session and start.folder.left(RESULT)):
            end_sessions(start, [start.number], Closing())
        raise
    if lost is not None:
        raise infrastructure_error(
            f"the Spark Connect server at {shown(start.options.master)} {lost}: the try begins again"
        )
    result = start.folder.left(RESULT)
    assert result is not None  # noqa: S101 - the client has answered that it is there
    return _with_session(start, start.ended(result))


def _with_session(start: SparkStart, outcome: Outcome) -> Outcome:
    """Return *outcome* with the session that its start has left open, where it was to."""
    if not start.keeps_session or outcome.state is not TaskState.SUCCESS:
        return outcome
    kept = start.folder.read(SESSION)
    return outcome.model_copy(update={"xcom": {**outcome.xcom, SPARK_SESSION: (kept or {}).get("id")}})


def _client(
    start: SparkStart, plan: dict[str, Any], supervisor: AttemptSupervisor, *, calls_code: bool = False
) -> str | None:
    """Has a fork of a warm client do what *plan* says. Raises the task's failure if it does not come to its end.

    Returns what has become of the server, where that was lost under it.
    """
    place, attempt, folder = start.worker_context, start.attempt, start.folder
    ended = run_in_child(
        place, attempt, folder, "connect", supervisor, whole, calls_code=calls_code, connect=True, plan=plan
    )
    return ended.answer.lost if isinstance(ended.answer, ConnectEnded) else None


def _plan(start: SparkStart) -> dict[str, Any]:
    named = {} if start.options.name is None else {"spark.app.name": start.options.name}
    plan = start.plan(
        remote=start.options.master,
        session_id=session_id(start.attempt, start.number, start.part),
        tag=f"tidemill-{start.attempt.uuid.hex}",
        conf={**named, **plain(start.options.conf), **contract(start)},
        env={**start.filled["env"], **attempt_variables(start.attempt)},
        directory=str(start.directory),
        keep_session=start.keeps_session,
        clone=_source_of(start),
    )
    if start.script is not None:
        plan["argv"] = [application_file(start), *map(str, start.filled["application_args"])]
    return plan


def _source_of(start: SparkStart) -> str | None:
    """Return the session that the task begins with a copy of; None without one. Fails the task for what is none."""
    given = start.filled["session"]
    if start.part or spark_task(start.attempt).session is None:
        return None
    try:
        return str(UUID(given))
    except (ValueError, AttributeError, TypeError):
        raise invalid(
            f"session: {given!r} is not the id of one session. Name the result of one task that has kept its own: "
            "session=prepare.output['spark_session']"
        ) from None


def end_sessions(start: SparkStart, numbers: list[int], supervisor: AttemptSupervisor) -> None:
    """Ends what starts *numbers* of the attempt run on the server; returns when the server has confirmed it."""
    plan = {
        "remote": start.options.master,
        "end": [session_id(start.attempt, number, start.part) for number in numbers],
    }
    try:
        _client(start, plan, supervisor)
    except ApplicationError as error:
        where = shown(start.options.master)
        message = f"Spark Connect sessions of an earlier start could not be ended at {where}: {error.message}"
        raise infrastructure_error(message) from None
