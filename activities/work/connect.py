"""A Spark Connect client, in a fork of a warm process: runs one attempt in a session of its own, or ends sessions.

Imported before the fork, so that a small task does not pay for the import; no channel is opened before it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.errors import InvalidInputError
from ..processes.answers import ConnectEnded
from ..spark.driver import finish, load_beside, raise_, run_in, run_script, write_json
from ..spark.driver_tables import begin

if TYPE_CHECKING:
    from .job import Job


def preload() -> None:
    """Imports what every client needs, also what gRPC would import with the first channel."""
    import grpc._channel  # noqa: F401
    import pyspark.sql.connect.client
    import pyspark.sql.connect.dataframe
    import pyspark.sql.connect.functions
    import pyspark.sql.connect.session  # noqa: F401


def run_attempt(folder: Path, plan: dict[str, Any]) -> str | None:
    """Runs the attempt that *folder* describes and leaves its result there.

    Returns why it has none where the server was lost under it: that is nobody's failure, and the try begins again.
    """
    os.environ["SPARK_REMOTE"] = plan["remote"]
    os.environ.update(plan["env"])

    def work(session: Any, known: dict[str, Any]) -> dict[str, Any]:
        if "table" in plan:
            keep_to_branch(plan["conf"])
        if "side" in plan:
            result: dict[str, Any] = load_beside(folder, plan["side"]["file"]).run_connected(plan["side"], known)
            return result
        if "argv" not in plan:
            return run_in(session, folder, plan)
        if "table" in plan:
            begin(session, plan["table"])
        return run_script(folder, plan["argv"])

    def run() -> dict[str, Any]:
        session = opened(plan)
        session.addTag(plan["tag"])
        application_id = application_of(session)
        # All else is the server's own: it does not say which of its work was for whom.
        write_json(folder / "figures.json", {"application_id": application_id})
        progress = _Progress(folder, plan, application_id)
        session.registerProgressHandler(progress)
        try:
            if not plan.get("keep_session"):
                return work(session, progress.known)
            return keeping_session(session, plan, lambda: work(session, progress.known))
        finally:
            with contextlib.suppress(Exception):
                session.stop()

    try:
        result = run()
    except BaseException as error:
        if (why := server_lost(error)) is not None:
            traceback.print_exc()
            return why
        finish(folder, plan, partial(raise_, error))
    else:
        finish(folder, plan, lambda: result)
    return None


LOST = {
    "SESSION_CHANGED": "was started anew under the task: its session is gone",
    "OPERATION_NOT_FOUND": "was started anew under the task: its session is gone",
    "RESPONSE_ALREADY_RECEIVED": "was started anew under the task: its session is gone",
    "OPERATION_ABANDONED": "gave up what it ran, since it had not heard of this worker for too long",
    "RETRIES_EXCEEDED": "does not answer",
}
"""By the conditions of Spark's errors: what has become of the server, where the task is not to blame."""
CONDITION = re.compile(r"(?:\([\w.$]+\) )?\[(?:INVALID_HANDLE\.)?([A-Z_]+)\]")
"""How their texts begin; what comes behind may be anybody's words."""
DETAILS = re.compile(r'details = "([^"]*)"')


def server_lost(error: BaseException) -> str | None:
    """Return what has become of the server, if that is what *error* of Spark's client says; None for all others.

    A session that the server has closed (SESSION_CLOSED) is none of these: the next one would be closed, too.
    """
    known: BaseException | None = error
    # Asked what a lost session was about, the client raises that there is none, while it handles what was answered.
    while known is not None and type(known).__module__.startswith(("pyspark.errors", "grpc")):
        text = str(known)
        condition = CONDITION.match(text)
        if condition is not None and condition[1] in LOST:
            return f"{LOST[condition[1]]} ({text[:200]})"
        details = DETAILS.search(text)
        if text.startswith("<_") and "StatusCode.UNAVAILABLE" in text:
            return f"does not answer ({details[1] if details is not None else text[:200]})"
        if text.startswith("<_") and details is not None and (named := CONDITION.match(details[1])) is not None:
            return f"{LOST[named[1]]} ({details[1][:200]})" if named[1] in LOST else None
        known = known.__cause__ or known.__context__
    return None


def session_url(remote: str, session_id: str) -> str:
    """The server's URL with the session's id among its parameters."""
    return f"{remote.rstrip('/')}{';' if '/;' in remote else '/;'}session_id={session_id}"


def open_session(remote: str, session_id: str, conf: dict[str, str]) -> Any:
    """The session of that id, as the one that `SparkSession.builder.getOrCreate()` returns from now on."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(session_url(remote, session_id)).getOrCreate()
    session.client.set_retry_policies([_patience()])
    configure(session, conf)
    return session


_CATCHING = threading.Lock()
"""Who catches warnings has those of all threads."""


def configure(session: Any, conf: dict[str, str]) -> None:
    """Sets *conf*. What only a server can be started with is passed over with a warning.

    Raises InvalidInputError for a value that Spark refuses: by Connect's own it would go on with the default.
    """
    with _CATCHING, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session.conf._set_all(configs=conf, silent=True)
    for warning in caught:
        text = str(warning.message)
        if text.startswith("Failed to set ") and "[CANNOT_MODIFY" not in text:
            raise InvalidInputError(f"conf: {text}")
        warnings.warn(text, warning.category, stacklevel=2)


def opened(plan: dict[str, Any]) -> Any:
    """Return the attempt's session; where the plan names another, a copy of that, without what was that attempt's."""
    place = (plan["remote"], plan["session_id"])
    if not plan.get("clone"):
        return open_session(*place, plan["conf"])
    clone_session(plan["remote"], plan["clone"], plan["session_id"])
    try:
        session = open_session(*place, plan["conf"])
        for key in session.conf.getAll:
            if key.startswith(OF_ATTEMPTS) and key not in plan["conf"]:
                session.conf.unset(key)
    except BaseException:
        with contextlib.suppress(Exception):
            end_session(*place)
        raise
    return session


def keeping_session(session: Any, plan: dict[str, Any], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what *work* comes to; its session stays open where that is a success, whoever stops it on the way."""
    session.release_session_on_close = False
    result: dict[str, Any] = {}
    try:
        result = work()
    finally:
        if "outcome" not in result or result["outcome"].get("state", "success") != "success":
            with contextlib.suppress(Exception):  # its own end counts; the server ends what nobody uses
                end_session(plan["remote"], plan["session_id"])
    return result


OF_ATTEMPTS = ("spark.tidemill.", "spark.wap.")
"""How conf begins that is one attempt's own: a copy of its session has none of it."""


SESSION_GONE = re.compile(r"INVALID_HANDLE\.SESSION_(?:NOT_FOUND|CLOSED)")


class SessionGoneError(Exception):
    """The session that the task begins with is not on the server any more."""


class SessionNotCopiedError(Exception):
    """Client or server are of a Spark that cannot copy sessions."""


def clone_session(remote: str, source: str, session_id: str) -> None:
    """Make the session *session_id* as a copy of *source*. Raises SessionGoneError where that is not there."""
    from pyspark.sql.connect.client import SparkConnectClient

    if not hasattr(SparkConnectClient, "clone"):
        raise SessionNotCopiedError("session: the PySpark of this worker copies none. Install 4.1 or later")
    client = SparkConnectClient(session_url(remote, source))
    client.set_retry_policies([_patience()])
    try:
        client.clone(session_id).close()
    except Exception as error:
        message = str(error)
        if "TARGET_SESSION_ID_ALREADY_EXISTS" in message:
            return  # the answer to an earlier request has got lost
        if "StatusCode.UNIMPLEMENTED" in message:
            raise SessionNotCopiedError(
                "session: the Connect server copies none. It needs Spark 4.1 or later"
            ) from error
        if SESSION_GONE.search(message):
            remedy = "Clear the task that has left it, with those after it"
            raise SessionGoneError(f"session {source} is not on the server any more. {remedy} ({message})") from error
        raise
    finally:
        client.close()


def application_of(session: Any) -> str | None:
    """The application that the server is; None where it does not say."""
    try:
        return str(session.conf.get("spark.app.id"))
    except Exception as error:
        if server_lost(error) is not None:
            raise
        return None


def keep_to_branch(conf: dict[str, str]) -> None:
    """Has every further session of this process begin with *conf*: of themselves they know none of it."""
    from pyspark.sql.connect.session import SparkSession

    opened, created = SparkSession.newSession, SparkSession.Builder.create

    def new_session(session: Any) -> Any:
        return configured(opened(session))

    def create(builder: Any) -> Any:
        return configured(created(builder))

    def configured(session: Any) -> Any:
        configure(session, conf)
        return session

    SparkSession.newSession = new_session
    SparkSession.Builder.create = create


def _patience() -> Any:
    """By default a client asks for ten minutes before it believes that its server is gone."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    return DefaultPolicy(max_retries=8, max_backoff=5000)


def end_sessions(folder: Path, plan: dict[str, Any]) -> None:
    """Interrupts whatever runs in the sessions, and closes them for ever: a client of one is refused from then on."""
    for session_id in plan["end"]:
        end_session(plan["remote"], session_id)
    write_json(folder / "ended.json", {"sessions": plan["end"]})


def end_session(remote: str, session_id: str) -> None:
    """Raises what the client raises if the server cannot be reached."""
    from pyspark.sql.connect.client import SparkConnectClient

    client = SparkConnectClient(session_url(remote, session_id))
    client.set_retry_policies([_patience()])
    try:
        # Makes the session if there is none: only one that there was can be closed for ever.
        client._analyze(method="spark_version")
        client.interrupt_all()
        client.release_session()
    except Exception as error:
        if "SESSION_CLOSED" not in str(error):
            raise
    finally:
        client.close()


class _Progress:
    """Writes what the server tells of the operation that runs."""

    def __init__(self, folder: Path, plan: dict[str, Any], application_id: str | None) -> None:
        self._path = folder / "progress.json"
        self.known = {"application_id": application_id, "session": plan["session_id"], "ui": plan.get("ui")}
        self._lock = threading.Lock()

    def __call__(self, stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        going_on = [stage for stage in stages or () if stage.num_completed_tasks < stage.num_tasks]
        progress: dict[str, Any] = {"operation": operation_id}
        if going_on and not done:
            stage = min(going_on, key=lambda found: found.stage_id)
            progress |= {
                "stage": stage.stage_id,
                "tasks": stage.num_tasks,
                "tasks_done": stage.num_completed_tasks,
                "tasks_active": inflight_tasks,
            }
        with self._lock, contextlib.suppress(OSError):
            write_json(self._path, {**self.known, **progress})


def run(job: Job) -> ConnectEnded:
    """What a fork does with the plan of its request; what came of it is in the attempt's folder."""
    folder, plan = Path(job.request["folder"]), job.request["plan"]
    sys.path.insert(0, str(plan.get("directory", folder)))
    if "end" in plan:
        end_sessions(folder, plan)
    else:
        return ConnectEnded(lost=run_attempt(folder, plan))
    return ConnectEnded()
