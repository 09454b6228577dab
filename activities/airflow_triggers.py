"""Triggers of deferred tasks: many in one process, which has imported the DAG file of their version.

Each is an activity that waits for its trigger without a thread. A worker that dies takes its triggers with it; their
activities are started again on another, which is what triggers are made for.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

from temporalio import activity

from ..model.run.attempts import TaskAttempt
from ..model.run.deferrals import TriggerEnd
from ..model.run.triggering import TriggerQuestion
from ..model.spec.owned import OwnedNames
from .attempts.key_values import ANY_TASK
from .attempts.lifecycle import ChildListener
from .attempts.supervision import infrastructure_error
from .processes.call import ServerGone
from .processes.forks import ImportFailed
from .processes.messages import Rendered, TriggerEvent
from .secrets import new_masker
from .worker_context import WorkerContext

HEARTBEAT_EVERY = 1.0
FULL_FOR = 0.05
IDLE_SECONDS = 60.0
"""So long a process is kept that watches nothing."""
TOO_LONG = "Trigger timeout"

log = logging.getLogger(__name__)


class _Over(Exception):  # noqa: N818
    """Nobody needs the process any more."""


@dataclass
class _Host:
    """A process that watches the triggers of one version of a DAG file."""

    loop: asyncio.AbstractEventLoop
    waiting: dict[str, asyncio.Future[TriggerEnd]] = field(default_factory=dict)
    outgoing: SimpleQueue[dict[str, Any] | None] = field(default_factory=SimpleQueue)
    idle_since: datetime | None = None
    closed: bool = False
    tasks: set[str] = field(default_factory=set)
    """The paths of the task instances whose triggers it watches: it may keep values for them."""

    def tell(self, message: dict[str, Any]) -> None:
        """Has a message sent; it may have to wait while the process imports its file."""
        self.outgoing.put(message)

    def connected(self, send: Callable[[dict[str, Any]], None]) -> None:
        """Of the process's thread: messages can be sent now."""
        threading.Thread(target=self._send_all, args=(send,), name="tidemill-airflow-tell", daemon=True).start()

    def _send_all(self, send: Callable[[dict[str, Any]], None]) -> None:
        while (message := self.outgoing.get()) is not None and not self.closed:
            while not self.closed:
                try:
                    send(message)
                    break
                except BlockingIOError:  # it reads nothing yet, or many at once
                    time.sleep(FULL_FOR)
                except OSError:
                    return self.lost("the process that watches triggers is gone")
        return None

    def heard(self, name: str, end: TriggerEnd) -> None:
        """Of the process's thread: a trigger has ended."""
        self._in_loop(self._settle, name, end)

    def _in_loop(self, work: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the worker's loop is closed, and nobody waits any more
            self.loop.call_soon_threadsafe(work, *arguments)

    def _settle(self, name: str, end: TriggerEnd) -> None:
        future = self.waiting.pop(name, None)
        if future is not None and not future.done():
            future.set_result(end)

    def lost(self, reason: str) -> None:
        """Of the process's thread: it has ended, and with it what it watched."""
        self._in_loop(self._lose, reason)

    def _lose(self, reason: str) -> None:
        self.closed = True
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(infrastructure_error(reason))
        self.waiting.clear()
        self.outgoing.put(None)

    def check(self) -> None:
        """Of the process's thread: ends a process that has had nothing to watch for long."""
        if self.closed:
            raise _Over
        if self.waiting:
            self.idle_since = None
        elif self.idle_since is None:
            self.idle_since = datetime.now(UTC)
        elif (datetime.now(UTC) - self.idle_since).total_seconds() > IDLE_SECONDS:
            self.closed = True
            raise _Over


class _Listening(ChildListener):
    """What is heard of a process that watches triggers."""

    def __init__(self, host: _Host, worker_context: WorkerContext, owns: OwnedNames | None) -> None:
        super().__init__(None, new_masker(), worker_context.facts, worker_context.key_values, ANY_TASK, owns)
        self._host = host

    def output(self, data: bytes) -> None:
        for line in self.masker.masked(data.decode(errors="replace")).splitlines():
            log.info("trigger: %s", line.lstrip("\x1e"))

    def _may_keep(self, question: dict[str, Any]) -> bool:
        return question.get("task") in self._host.tasks

    def note(self, message: Rendered | TriggerEvent) -> None:
        if isinstance(message, TriggerEvent):
            try:
                hidden = {name: self.masker.masked_all(message.end.get(name)) for name in ("error", "traceback")}
                end = TriggerEnd.model_validate({**message.end, **hidden})
            except (ValueError, RecursionError) as error:  # the trigger's own doing
                end = TriggerEnd(error=f"the trigger has told what is no end: {type(error).__name__}")
            self._host.heard(message.event, end)


class TriggerActivities:
    """The triggers of a worker."""

    def __init__(self, worker_context: WorkerContext) -> None:
        self._worker_context = worker_context
        self._hosts: dict[str, _Host] = {}

    @activity.defn(name="tidemill.airflow_trigger")
    async def watch(self, question: TriggerQuestion) -> TriggerEnd:
        """What the trigger says first, or that it has failed, or that its time is over."""
        host = await self._host_of(question.attempt)
        name = f"{activity.info().workflow_run_id}/{activity.info().activity_id}/{activity.info().attempt}"
        future: asyncio.Future[TriggerEnd] = host.loop.create_future()
        host.waiting[name] = future
        host.tasks.add(task := question.attempt.path.rpartition("/")[0])
        host.tell({"add": name, "question": question.model_dump(mode="json")})
        kill = False
        try:
            return await _first(future, question.deferral.timeout_at)
        except asyncio.CancelledError:
            details = activity.cancellation_details()
            kill = details is not None and details.cancel_requested
            raise
        finally:
            host.tasks.discard(task)
            if host.waiting.pop(name, None) is not None:
                host.tell({"cancel": name, "kill": kill})

    async def _host_of(self, attempt: TaskAttempt) -> _Host:
        code = await asyncio.to_thread(self._worker_context.code_of, attempt)
        bundle = attempt.source.bundle if attempt.source is not None else None
        key = f"{bundle} {attempt.owns} {code.path} {code.digest()}"
        host = self._hosts.get(key)
        if host is None or host.closed:
            self._hosts = {known: other for known, other in self._hosts.items() if not other.closed}
            host = self._hosts[key] = _Host(asyncio.get_running_loop())
            forks = self._worker_context.forks_of(attempt.source)
            threading.Thread(
                target=self._serve,
                args=(host, forks, code, attempt.owns),
                name="tidemill-airflow-triggers",
                daemon=True,
            ).start()
        return host

    def _serve(self, host: _Host, forks: Any, code: Any, owns: OwnedNames | None) -> None:
        reason = "the process that watches triggers has ended"
        try:
            listening = _Listening(host, self._worker_context, owns)
            forks.call("airflow_triggers", {}, listener=listening, checks=host, code=code, connected=host.connected)
        except (_Over, ServerGone):
            pass
        except ImportFailed as error:
            reason = f"the DAG file cannot be imported: {error.args[0].message}"
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        host.lost(reason)


async def _first(future: asyncio.Future[TriggerEnd], timeout_at: datetime | None) -> TriggerEnd:
    while not future.done():
        left = HEARTBEAT_EVERY
        if timeout_at is not None:
            left = min(left, (timeout_at - datetime.now(UTC)).total_seconds())
            if left <= 0:
                return TriggerEnd(error=TOO_LONG)
        await asyncio.wait([future], timeout=left)
        if activity.is_worker_shutdown() and not future.done():
            raise infrastructure_error("the worker that watched the trigger is stopped")
        activity.heartbeat()
    return future.result()
