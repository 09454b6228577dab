"""Watches the triggers of deferred tasks, many in one event loop, until the worker ends this process."""

from __future__ import annotations

import asyncio
import os
import signal
import traceback
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ....model.run.deferrals import TriggerEnd
from ....model.run.triggering import TriggerQuestion
from ...processes import channel
from ...processes.answers import Performed
from ..failures import print_failure
from .answers import Asking
from .answers.table import answer
from .supervisor_socket import answered, comms_with_words
from .task_report import TaskReport

if TYPE_CHECKING:
    from ..job import Job

NAME = "tidemill-trigger"
ORDER_TIMEOUT = 60.0
"""In seconds, for each of `on_kill` and `cleanup`."""
FAILED = "Trigger failure"
"""What a task hears of a trigger that has failed (Airflow's words)."""


def run(job: Job) -> Performed:
    """Watches what the worker names, until it is gone."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    job.imported()
    watching = _Watching(job)
    with answered(watching.answer, comms=comms_for_many):
        asyncio.run(watching.until_gone())
    return Performed()


_current: ContextVar[str] = ContextVar("tidemill_trigger", default="")
"""The trigger that asks: its name travels with each question."""


def comms_for_many(**options: Any) -> Any:
    """Airflow's way to its supervisor, for many that ask at the same time: one question after the other, each whole."""

    class ForMany(comms_with_words()):  # type: ignore[misc]
        def _make_frame(self, msg: Any) -> Any:
            frame = super()._make_frame(msg)
            return type(frame)(id=frame.id, body=frame.body, context_carrier={NAME: _current.get()})

        async def asend(self, msg: Any) -> Any:
            context = copy_context()  # a trigger that is cancelled meanwhile leaves the answer to nobody else
            pending = asyncio.get_running_loop().run_in_executor(None, context.run, self.send, msg)
            return await asyncio.shield(pending)

    return ForMany(**options)


@dataclass
class _Watching:
    job: Job
    asking: dict[str, Asking] = field(default_factory=dict)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    kills: set[str] = field(default_factory=set)

    def answer(self, message: dict[str, Any], carrier: dict[str, str] | None = None) -> dict[str, Any] | None:
        return answer(self.asking[(carrier or {}).get(NAME, "")], message)

    async def until_gone(self) -> None:
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.job.channel.fileno(), self._heed, gone.set)
        await gone.wait()

    def _heed(self, gone: Callable[[], None]) -> None:
        """Takes what the worker says."""
        received = channel.receive(self.job.channel)
        if received is None:
            gone()
            return
        message = received[0]
        if "add" in message:
            question = TriggerQuestion.model_validate(message["question"])
            name = message["add"]
            self.asking[name] = Asking(question.attempt, TaskReport(), self.job)
            self.tasks[name] = asyncio.create_task(self._watch(name, question))
        elif (task := self.tasks.pop(message.get("cancel", ""), None)) is not None:
            if message.get("kill"):
                self.kills.add(message["cancel"])
            task.cancel()

    async def _watch(self, name: str, question: TriggerQuestion) -> None:
        trigger: Any = None
        _current.set(name)
        try:
            trigger = trigger_of(question)
            end = await first_event(trigger)
        except asyncio.CancelledError:
            await put_in_order(trigger, kill=name in self.kills)
            self._forget(name)
            return
        except BaseException as error:
            print_failure(error)
            end = TriggerEnd(error=FAILED, traceback=tuple(traceback.format_exception(error)))
        self.tasks.pop(name, None)
        await put_in_order(trigger, kill=False)
        pushed = self.asking[name].report.results
        end = end.model_copy(update={"xcom": {**pushed, **end.xcom}})
        self._forget(name)
        self.job.tell(event=name, end=end.model_dump(mode="json"))

    def _forget(self, name: str) -> None:
        self.asking.pop(name, None)
        self.kills.discard(name)


def trigger_of(question: TriggerQuestion) -> Any:
    """The trigger as its task has described it."""
    from airflow.sdk.module_loading import import_string
    from airflow.sdk.serde import deserialize

    deferral = question.deferral
    trigger = import_string(deferral.trigger)(**deserialize(dict(deferral.trigger_kwargs)))
    trigger.task_instance = _instance(question)
    return trigger


def _instance(question: TriggerQuestion) -> Any:
    from types import SimpleNamespace

    from .task import identity_of

    attempt = question.attempt
    return SimpleNamespace(
        **identity_of(attempt),
        task=None,
        logical_date=attempt.run.logical_date,
    )


async def first_event(trigger: Any) -> TriggerEnd:
    """What *trigger* says first. Whatever it raises passes through."""
    from airflow.sdk.serde import serialize
    from airflow.triggers.base import BaseTaskEndEvent

    async for event in trigger.run():
        if isinstance(event, BaseTaskEndEvent):
            state = str(getattr(event.task_instance_state, "value", event.task_instance_state))
            return TriggerEnd(ended=state, xcom=event.xcoms or {})
        return TriggerEnd(event=serialize(event.payload))
    raise RuntimeError("the trigger has ended without an event")


async def put_in_order(trigger: Any, *, kill: bool) -> None:
    """Has a trigger put its things in order, and end what it has begun elsewhere if its task was ended.

    One that hangs at that is left: what it has said is waited for.
    """
    if trigger is None:
        return
    for name in ("on_kill", "cleanup") if kill else ("cleanup",):
        try:
            if (method := getattr(trigger, name, None)) is not None:
                await asyncio.wait_for(method(), ORDER_TIMEOUT)
        except Exception as error:
            print_failure(error)
