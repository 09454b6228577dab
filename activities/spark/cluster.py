"""Cluster mode: the driver runs on a cluster, outlives its worker, and is found again from anywhere.

The attempt's folder has to be one that workers and drivers share. The driver claims the attempt
there before it does anything, so that of two drivers, however they came about, one ends at once;
and whoever takes the claim first on purpose keeps any driver from ever beginning.
"""

import re
import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, ClassVar

from temporalio.exceptions import ApplicationError

from ...model.run.task_instances import Failure, Outcome, Submission
from ...model.spec.tasks import SparkMode
from ...model.spec.tasks.spark import DEFAULT_MASTER
from ..attempts.folder import RESULT
from ..attempts.log import last_lines
from ..attempts.supervision import AttemptSupervisor, infrastructure_error, task_failure
from ..names import TASK_FAILED
from .causes import cause_of, is_refusal, waits_for_others
from .client import ended_of, launched
from .clusters import AppState, Cluster, NotConfiguredError, Status
from .command import spark_submit
from .driver import CLAIM, ContainerLostError
from .driver_room import SUBMISSION_MEGABYTES
from .place import invalid
from .starts import Mode, SparkStart, cluster_name

ASK_EVERY = 1.0
AGAIN_AFTER = 20.0
"""After so many seconds an application is submitted again that a quota left no room for."""
HOLDS_SLOT_FOR = 300.0
"""Seconds that it waits so in one of the worker's slots; then it queues for one again, behind the tasks of others."""
SILENT_AFTER = 30.0
"""A driver that its cluster does not know any more counts as lost when it has told nothing for so many seconds."""
NOBODY_ANSWERS_AFTER = 600.0
"""After so many seconds in which neither the driver nor its cluster answers, another worker tries its luck."""
RESULT_TIMEOUT = 3.0
DEATH_TIMEOUT = 60.0
APPLICATION = re.compile(r"(application_\d+_\d+|app-\d+-\d+|driver-\d+-\d+|spark-[0-9a-f]+)")
"""How clusters call what they run: the claim is written where the task may write, too."""


class ClusterMode(Mode):
    """The driver runs on a cluster, and is followed from there."""

    outlives_worker: ClassVar[bool] = True
    knows_by_name: ClassVar[bool] = False
    """Whether the cluster knows the driver by the attempt's name, and not by Spark's of the application."""

    @abstractmethod
    def cluster(self, start: SparkStart, launch: Callable[..., str], supervisor: AttemptSupervisor) -> Cluster:
        """Return the attempt's cluster; *launch* runs spark-submit for it."""

    def run(self, start: SparkStart) -> Outcome:
        """Have the application started, unless it is there already."""
        return submit(start)

    def end(self, start: SparkStart, application_id: str | None) -> None:
        """End it on its cluster, and keep it from beginning."""
        try:
            end(start, application_id, AttemptSupervisor(None))
        except OSError as error:
            raise infrastructure_error(str(error)) from None


def mode_of(start: SparkStart) -> ClusterMode:
    """Return the mode of a cluster. Raises an infrastructure error where a connection has changed meanwhile."""
    if not isinstance(start.mode, ClusterMode):
        message = f"the application was submitted to a cluster, and its connection says {start.options.mode} here now"
        raise infrastructure_error(f"{message}. Set it back, or let a worker follow it whose settings say where it is")
    return start.mode


def cluster_of(start: SparkStart, supervisor: AttemptSupervisor) -> Cluster:
    """The cluster that the attempt's options name."""

    def launch(*shipped: str) -> str:
        """Runs spark-submit, which hands the application over with the files *shipped* and ends; what it printed."""
        room = start.worker_context.submission_room(start.options.master or DEFAULT_MASTER)
        with room.reserved(SUBMISSION_MEGABYTES, supervisor):
            ended = launched(start, spark_submit(start, shipped=shipped), supervisor)
        output = "\n".join(ended.tail)
        code = ended_of(ended).code
        if code != 0:
            cause = cause_of(ended.tail)
            _raise_if_refused(cause)
            exists = " (AlreadyExists)" if "AlreadyExists" in output else ""
            raise OSError(f"spark-submit ended with exit code {code}: {cause}{exists}")
        return output

    return mode_of(start).cluster(start, launch, supervisor)


def _raise_if_refused(cause: str) -> None:
    if is_refusal(cause):
        failure = Failure(error_type="SparkSubmitRefused", message=f"the cluster refuses it: {cause}")
        raise task_failure(failure) from None


def submit(start: SparkStart) -> Outcome:
    """Has the application started unless it is there already; tells where it runs, or how it ended."""
    earlier = start.earlier_result()
    if earlier is not None:
        return earlier
    supervisor = start.watch()
    cluster, began = cluster_of(start, supervisor), time.monotonic()
    while True:
        try:
            found = _submitted(start, cluster, supervisor)
            break
        except NotConfiguredError as error:
            raise invalid(str(error)) from None
        except OSError as error:
            if start.number == 1:  # else an earlier start may have made what cannot be looked at now
                _raise_if_refused(str(error))
            if not waits_for_others(str(error)) or time.monotonic() - began > HOLDS_SLOT_FOR:
                raise infrastructure_error(str(error)) from None
            _wait_for_others(supervisor, str(error))
    return Outcome(submission=Submission(application_id=found, submitted_at=datetime.now(UTC)))


def _submitted(start: SparkStart, cluster: Cluster, supervisor: AttemptSupervisor) -> str:
    found = claimed(start) or cluster.find() or _recorded(start, cluster)
    if found is None:
        supervisor.check()
        try:
            found = cluster.submit()
        except OSError as error:
            _raise_if_refused(str(error))
            raise
        start.folder.write("submission.json", {"application_id": found})
    return found


def _wait_for_others(supervisor: AttemptSupervisor, cause: str) -> None:
    """Return after a while in which others may have given room; the try goes on, and says what it waits for."""
    until = time.monotonic() + AGAIN_AFTER
    while time.monotonic() < until:
        supervisor.check({"cluster": f"waits for room: {cause}"})
        time.sleep(ASK_EVERY)


def claimed(start: SparkStart) -> str | None:
    """The application whose driver has the attempt."""
    claim = start.folder.left(CLAIM)
    if claim is None or not APPLICATION.fullmatch(str(claim.get("application_id"))):
        return None
    return cluster_name(start) if mode_of(start).knows_by_name else str(claim["application_id"])


def _recorded(start: SparkStart, cluster: Cluster) -> str | None:
    """The application that an earlier start left a note of, if the cluster still has it."""
    note = start.folder.read("submission.json")
    if note is None or cluster.status(note["application_id"]).life in (AppState.UNKNOWN, AppState.ENDED):
        return None
    return str(note["application_id"])


def follow(start: SparkStart, submission: Submission) -> Outcome:
    """Waits for the driver's own word of how it went. Raises the task's failure if it ends without one."""
    supervisor, cluster = _Following(start, submission), None
    try:
        if (left := start.folder.left(RESULT)) is not None:
            return _started(start.ended(left), submission)
        cluster = cluster_of(start, supervisor)
        return _followed(start, submission, supervisor, cluster)
    except ApplicationError as error:
        if error.type != TASK_FAILED:
            raise
        failure = Failure.model_validate(error.details[0])
        if not _is_disruption(start, submission, supervisor, cluster, failure):
            raise
        raise task_failure(failure.model_copy(update={"is_disruption": True})) from None


def _is_disruption(
    start: SparkStart, submission: Submission, following: "_Following", cluster: Cluster | None, failure: Failure
) -> bool:
    """Whether the try has failed since its cluster took the driver from it; not, where the cluster cannot be asked."""
    if start.options.mode is SparkMode.YARN and failure.error_type == ContainerLostError.__name__:
        return True
    if start.options.mode is SparkMode.STANDALONE and start.folder.left(RESULT) is not None:
        return False  # it was cut off, and has come to an end of its own
    try:  # its word of how it went may have come before the cluster was asked again
        cluster = cluster or cluster_of(start, following)
        return cluster.status(claimed(start) or submission.application_id).is_disruption
    except (OSError, LookupError, ValueError, ApplicationError):
        return following.status is not None and following.status.is_disruption


def _followed(start: SparkStart, submission: Submission, following: "_Following", cluster: Cluster) -> Outcome:
    answered_at = time.time()
    while True:
        result = start.folder.left(RESULT)
        if result is not None:
            return _started(start.ended(result), submission)
        following.check()
        try:
            following.status = cluster.status(claimed(start) or submission.application_id)
            answered_at = time.time()
        except OSError as error:
            # It cannot be asked; the driver itself still can.
            following.status = Status(AppState.RUNNING, str(error))
            if time.time() - max(answered_at, _last_word(start)) > NOBODY_ANSWERS_AFTER:
                message = f"neither the driver nor its cluster has answered for {NOBODY_ANSWERS_AFTER:g} s: {error}"
                raise infrastructure_error(message) from None
        if _over(start, following.status) and not _late_result(start):
            if start.is_java and following.status.succeeded:
                return _started(start.ended({"outcome": {}}), submission)
            raise task_failure(_lost(start, following.status))
        time.sleep(ASK_EVERY)


def _over(start: SparkStart, status: Status) -> bool:
    if status.life is AppState.ENDED:
        return True
    if status.life is not AppState.UNKNOWN:
        return False
    return time.time() - _last_word(start) > SILENT_AFTER


def _last_word(start: SparkStart) -> float:
    """When the driver told something last, or whoever started it (seconds since 1970)."""
    progress = start.folder.left("progress.json")
    if progress is not None:
        return float(progress["at"])
    folder = start.folder
    for place, name in ((folder.work, CLAIM), (folder.path, "submission.json"), (folder.work, "plan.json")):
        with suppress(FileNotFoundError):
            return (place / name).lstat().st_mtime
    return 0.0


def _late_result(start: SparkStart) -> bool:
    """Whether the driver's result appears after all: file systems that hosts share may show it a moment later."""
    deadline = time.monotonic() + RESULT_TIMEOUT
    while time.monotonic() < deadline:
        if start.folder.left(RESULT) is not None:
            return True
        time.sleep(0.1)
    return False


def _lost(start: SparkStart, status: Status) -> Failure:
    claim = start.folder.left(CLAIM) or {}
    where = f" Its log: {claim['driver_log']}" if claim.get("driver_log") else ""
    message = f"the driver ended without telling how it went; the cluster says {status.message}.{where}"
    return Failure(error_type="SparkDriverLost", message=message, traceback=last_lines(start.folder.log))


def _started(outcome: Outcome, submission: Submission) -> Outcome:
    return outcome.model_copy(update={"started_at": outcome.started_at or submission.submitted_at})


class _Following(AttemptSupervisor):
    """A watch over what runs elsewhere: its time began with the submission, its progress includes the cluster's."""

    def __init__(self, start: SparkStart, submission: Submission) -> None:
        self.status: Status | None = None
        super().__init__(start.attempt.timeout, self._progress_with_cluster)
        self._work = start
        self._started -= (datetime.now(UTC) - submission.submitted_at).total_seconds()
        self._submission = submission

    def _progress_with_cluster(self) -> dict[str, Any]:
        progress: dict[str, Any] = {"submission": self._submission.application_id}
        if self.status is not None:
            progress["cluster"] = self.status.message
        return {**progress, **(self._work.folder.left("progress.json") or {})}


def end(start: SparkStart, known: str | None, supervisor: AttemptSupervisor) -> None:
    """Ends whatever the attempt has on its cluster, and returns when it is dead and none can begin.

    Raises OSError while that cannot be made sure.
    """
    cluster = cluster_of(start, supervisor)
    fenced = cluster.give_up()
    if not fenced:
        known = claimed(start) or known
    known = known or cluster.find() or (start.folder.read("submission.json") or {}).get("application_id")
    if known is None:
        return
    cluster.kill(known)
    deadline = time.monotonic() + DEATH_TIMEOUT
    while cluster.status(known).life in (AppState.WAITING, AppState.RUNNING):
        if time.monotonic() > deadline:
            raise OSError(f"{known} is still there {DEATH_TIMEOUT:g} s after it was killed")
        supervisor.check({"ending": known, "fenced": fenced})
        time.sleep(0.2)
