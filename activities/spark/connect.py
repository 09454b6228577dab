"""Spark Connect: the client runs below this worker, its work on a server that others share.

A client that dies leaves its operations running on the server, and they commit. So each start of
an attempt has a session of its own, whose id follows from the attempt; the next start closes the
sessions of all before it, for ever, and only then begins.
"""

from typing import Any
from uuid import UUID, uuid5

from ...model.attempts import TaskAttempt
from ...model.task_instances import Failure, Outcome
from ...model.tasks import PySparkTask, SparkSubmitTask
from ..attempt_folder import AttemptFolder
from ..bash import airflow_variables
from ..fork_servers import ServerGone
from ..outcomes import describe_exit
from ..supervision import Closing, Watch, handed_over, task_failed
from .command import contract, plain
from .starts import SparkStart


def session_id(attempt: TaskAttempt, number: int) -> str:
    """The session of start *number* of the attempt. Spark takes ids of UUID version 4 only."""
    return str(UUID(bytes=uuid5(attempt.uuid, str(number)).bytes, version=4))


def run_connect(work: SparkStart) -> Outcome:
    """Runs the client and follows it to its end; returns the result of an earlier start if there is one."""
    earlier = work.earlier_result()
    if earlier is not None:
        return earlier
    watch = work.watch()
    if work.number > 1:
        end_sessions(work, [*range(1, work.number)], watch)
    work.leave_plan()
    try:
        code = _call(work, _plan(work), watch)
    except ServerGone:
        raise handed_over("the process that keeps clients of Spark Connect warm ended while the task ran") from None
    except BaseException:
        end_sessions(work, [work.number], Closing())
        raise
    result = work.folder.read("result.json")
    if result is None:
        raise task_failed(Failure(error_type="ProcessEnded", message=f"the client's process {describe_exit(code)}"))
    return work.ended(result)


def _call(work: SparkStart, plan: dict[str, Any], watch: Watch) -> int:
    code = work.workplace.code_of(work.attempt) if isinstance(work.attempt.task, PySparkTask) else None
    with work.workplace.servers.for_code(code, connect=True) as server:
        server.ready(watch)
        return server.call(work.attempt, work.folder, watch, plan)


def _plan(work: SparkStart) -> dict[str, Any]:
    task = work.attempt.task
    plan = work.plan(
        remote=work.options.master,
        session_id=session_id(work.attempt, work.number),
        tag=f"tidemill-{work.attempt.uuid.hex}",
        conf={**plain(work.options.conf), **contract(work)},
        env={**work.filled["env"], **airflow_variables(work.attempt)},
        directory=str(work.directory),
    )
    if isinstance(task, SparkSubmitTask):
        plan["argv"] = [str(work.file(work.filled["application"])), *map(str, work.filled["application_args"])]
    return plan


def end_sessions(work: SparkStart, numbers: list[int], watch: Watch) -> None:
    """Ends what starts *numbers* of the attempt run on the server; returns when the server has confirmed it."""
    folder = AttemptFolder.of(work.workplace.home, work.attempt)
    plan = {"remote": work.options.master, "end": [session_id(work.attempt, number) for number in numbers]}
    try:
        with work.workplace.servers.for_code(None, connect=True) as server:
            server.ready(watch)
            code = server.call(work.attempt, folder, watch, plan)
    except ServerGone:
        code = -1
    if code != 0:
        raise handed_over(f"Spark Connect sessions of an earlier start could not be ended at {work.options.master}")
