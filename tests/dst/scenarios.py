"""Small workflows that do one thing each, and scripts over them: the same on the model and on a real server."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, FailureError, WorkflowAlreadyStartedError

SECOND = timedelta(seconds=1)
SHORT = timedelta(milliseconds=200)
ONCE, TWICE = RetryPolicy(maximum_attempts=1), RetryPolicy(maximum_attempts=2, initial_interval=SHORT)
Script = tuple[tuple[Any, ...], ...]


@activity.defn(name="works")
async def works() -> int:
    return 1


@activity.defn(name="fails")
async def fails() -> None:
    raise ApplicationError("no", type="No")


@activity.defn(name="fails_for_good")
async def fails_for_good() -> None:
    raise ApplicationError("never", type="Never", non_retryable=True)


@activity.defn(name="lasts")
async def lasts() -> None:
    """Until it is cancelled."""
    while True:
        activity.heartbeat()
        await asyncio.sleep(0.1)


@activity.defn(name="hangs")
async def hangs() -> None:
    """Longer than it may, silently."""
    await asyncio.sleep(3)


ACTIVITIES = [works, fails, fails_for_good, lasts, hangs]


@workflow.defn(name="Steps", sandboxed=False)
class Steps:
    """Does one thing after the other, by their names."""

    def __init__(self) -> None:
        self.signals = 0
        self.open = False

    @workflow.run
    async def run(self, steps: list[str]) -> str:
        for number, step in enumerate(steps):
            if step == "continue":
                workflow.continue_as_new(steps[number + 1 :])
            name, _, argument = step.partition(" ")
            await getattr(self, f"_{name}")(argument)
        return "done"

    async def _timer(self, seconds: str) -> None:
        await asyncio.sleep(float(seconds or 0.2))

    async def _cancelled_timer(self, _: str) -> None:
        timer = asyncio.create_task(asyncio.sleep(100))
        await asyncio.sleep(0.2)
        timer.cancel()
        await asyncio.sleep(0.2)

    async def _brief_timer(self, _: str) -> None:
        """Started and cancelled in one workflow task."""
        timer = asyncio.create_task(asyncio.sleep(100))
        await asyncio.sleep(0)
        timer.cancel()
        with suppress(asyncio.CancelledError):
            await timer

    async def _activity(self, name: str, **options: Any) -> None:
        with suppress(FailureError):
            await workflow.execute_activity(
                name, start_to_close_timeout=options.pop("within", 10 * SECOND),
                retry_policy=options.pop("policy", ONCE), **options,
            )  # fmt: skip

    async def _tried_twice(self, name: str) -> None:
        await self._activity(name, policy=TWICE)

    async def _timed_out(self, _: str) -> None:
        await self._activity("hangs", within=0.5 * SECOND)

    async def _silent(self, _: str) -> None:
        await self._activity("hangs", heartbeat_timeout=0.5 * SECOND)

    async def _cancelled(self, how: str) -> None:
        kind = getattr(workflow.ActivityCancellationType, how)
        task = workflow.start_activity(
            "lasts", start_to_close_timeout=100 * SECOND, heartbeat_timeout=5 * SECOND, cancellation_type=kind
        )
        await asyncio.sleep(0.5)
        task.cancel()
        with suppress(FailureError, asyncio.CancelledError):
            await task
        await asyncio.sleep(3)

    async def _brief_activity(self, _: str) -> None:
        """Asked for and cancelled in one workflow task."""
        task = workflow.start_activity("lasts", start_to_close_timeout=100 * SECOND)
        await asyncio.sleep(0)
        task.cancel()
        with suppress(FailureError, asyncio.CancelledError):
            await task

    async def _child(self, argument: str) -> None:
        child_id, _, steps = argument.partition(" ")
        with suppress(FailureError, WorkflowAlreadyStartedError):
            await workflow.execute_child_workflow("Steps", steps.split("+"), id=f"{_prefix()}{child_id}")

    async def _rejected_child(self, child_id: str) -> None:
        with suppress(WorkflowAlreadyStartedError):
            await workflow.execute_child_workflow(
                "Steps", ["timer"], id=f"{_prefix()}{child_id}", id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE
            )

    async def _abandoned_child(self, argument: str) -> None:
        child_id, _, steps = argument.partition(" ")
        await workflow.start_child_workflow(
            "Steps", steps.split("+"), id=f"{_prefix()}{child_id}",
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
        )  # fmt: skip

    async def _kept_child(self, argument: str) -> None:
        """A child that ends with its parent."""
        child_id, _, steps = argument.partition(" ")
        await workflow.start_child_workflow("Steps", steps.split("+"), id=f"{_prefix()}{child_id}")

    async def _tell(self, other: str) -> None:
        with suppress(FailureError):
            await workflow.get_external_workflow_handle(f"{_prefix()}{other}").signal("signal")

    async def _wait(self, n: str) -> None:
        wanted = int(n)
        await workflow.wait_condition(lambda: self.signals >= wanted)

    async def _opened(self, _: str) -> None:
        await workflow.wait_condition(lambda: self.open)

    async def _patch(self, name: str) -> None:
        workflow.patched(name)

    async def _memo(self, _: str) -> None:
        workflow.upsert_memo({"a": 1})

    async def _busy(self, seconds: str) -> None:
        """Takes its time within a workflow task, so that something can come meanwhile."""
        if not workflow.unsafe.is_replaying():
            time.sleep(float(seconds))

    async def _fail(self, _: str) -> None:
        raise ApplicationError("as it was told to", non_retryable=True)

    @workflow.signal
    def signal(self) -> None:
        self.signals += 1

    @workflow.update
    def now(self) -> int:
        return self.signals

    @workflow.update
    async def later(self) -> int:
        await asyncio.sleep(0.3)
        self.open = True
        return self.signals

    @workflow.update
    def refused(self) -> None:
        raise AssertionError

    @refused.validator
    def _refuse(self) -> None:
        raise ApplicationError("never")


def _prefix() -> str:
    return workflow.info().workflow_id.rpartition("/")[0] + "/"


# What is named "_a" is not compared: there a race decides on the order of its events.
SCENARIOS: dict[str, Script] = {
    "a timer": (("start", "a", "timer"),),
    "a timer that is cancelled": (("start", "a", "cancelled_timer"),),
    "a timer that is never asked for": (("start", "a", "brief_timer", "timer"),),
    "an activity": (("start", "a", "activity works", "timer"),),
    "an activity that fails": (("start", "a", "activity fails"),),
    "an activity that is tried twice": (("start", "a", "tried_twice fails"),),
    "an activity that is not tried again": (("start", "a", "tried_twice fails_for_good"),),
    "an activity that takes too long": (("start", "a", "timed_out"),),
    "an activity that is silent": (("start", "a", "silent"),),
    "a cancelled activity that is waited for": (("start", "a", "cancelled WAIT_CANCELLATION_COMPLETED"),),
    "a cancelled activity that is not waited for": (("start", "a", "cancelled TRY_CANCEL"),),
    "an abandoned activity": (("start", "a", "cancelled ABANDON"),),
    "an activity that is never asked for": (("start", "a", "brief_activity", "timer"),),
    "a child": (("start", "a", "child b timer"),),
    "a child that fails": (("start", "a", "child b fail"),),
    "a child whose id runs": (("start", "b", "wait 1"), ("start", "a", "child b timer"), ("end", "a"), ("signal", "b")),
    "a child that has run": (("start", "b", "timer"), ("end", "b"), ("start", "a", "rejected_child b")),
    "a child that runs again": (("start", "b", "timer"), ("end", "b"), ("start", "a", "child b timer")),
    "a child that outlives": (("start", "a", "abandoned_child b wait+1", "timer"), ("end", "a"), ("terminate", "b")),
    "a child that is terminated": (
        ("start", "a", "child b wait 1"), ("until", "a", "ChildWorkflowExecutionStarted"),
        ("until", "b", "WorkflowTaskCompleted"), ("terminate", "b"),
    ),
    "a child that is cancelled": (
        ("start", "a", "child b wait 1"), ("until", "a", "ChildWorkflowExecutionStarted"),
        ("until", "b", "WorkflowTaskCompleted"), ("cancel", "b"),
    ),
    "a child over continue-as-new": (("start", "a", "child b timer+continue+timer"),),
    "a parent that goes on as new": (
        ("start", "a", "abandoned_child b wait 1", "continue", "timer"), ("end", "a"), ("signal", "b"), ("end", "b"),
    ),
    "a signal to another": (("start", "b", "wait 1"), ("start", "a", "tell b")),
    "a signal to nobody": (("start", "a", "tell b")),  # type: ignore[dict-item]
    "a signal": (
        ("start", "a", "wait 2"), ("until", "a", "WorkflowTaskCompleted"), ("signal", "a"),
        ("until", "a", "WorkflowTaskCompleted", 2), ("signal", "a"),
    ),
    "continue as new": (("start", "a", "timer", "continue", "timer"),),
    "an update": (("start", "a", "wait 1"), ("until", "a", "WorkflowTaskCompleted"), ("update", "a", "now"), ("signal", "a")),
    "an update that takes its time": (
        ("start", "a", "opened"), ("until", "a", "WorkflowTaskCompleted"), ("update", "a", "later"),
    ),
    "an update that is refused": (
        ("start", "a", "wait 1"), ("until", "a", "WorkflowTaskCompleted"), ("update", "a", "refused"), ("signal", "a"),
    ),
    "an update of an ended one": (("start", "a", "timer"), ("end", "a"), ("update", "a", "now")),
    "a patch": (("start", "a", "patch one", "patch two", "patch one", "timer"),),
    "a memo": (("start", "a", "memo", "timer"),),
    "something that comes meanwhile": (("start", "a", "timer", "busy 1"), ("until", "a", "WorkflowTaskStarted", 2), ("signal", "a")),
    "something that comes before going on as new": (
        ("start", "a", "timer", "busy 1", "continue", "timer"), ("until", "a", "WorkflowTaskStarted", 2), ("signal", "a"),
    ),
    "terminated": (("start", "a", "wait 1"), ("until", "a", "WorkflowTaskCompleted"), ("terminate", "a")),
    "terminated within a workflow task": (
        ("start", "a", "timer", "busy 1", "timer"), ("until", "a", "WorkflowTaskStarted", 2), ("terminate", "a"),
    ),
    "cancelled": (("start", "a", "wait 1"), ("until", "a", "WorkflowTaskCompleted"), ("cancel", "a")),
    "failed": (("start", "a", "fail"),),
    "reset": (
        ("start", "a", "timer", "wait 1", "timer 0.3"), ("until", "a", "TimerStarted"), ("signal", "a"),
        ("until", "a", "TimerStarted", 2), ("reset", "a", 0), ("end", "a"),
    ),
    "reset with an activity": (
        ("start", "a", "activity works", "wait 1"), ("until", "a", "WorkflowTaskCompleted", 2), ("reset", "a", 1),
        ("until", "a", "WorkflowTaskCompleted", 2), ("signal", "a"), ("end", "a"),
    ),
    "reset to before a child's start is known": (
        ("start", "a", "timer", "busy 1", "abandoned_child b wait 1", "wait 2"), ("until", "a", "WorkflowTaskStarted", 2),
        ("signal", "a"), ("until", "a", "ChildWorkflowExecutionStarted"), ("until", "b", "WorkflowTaskCompleted"),
        ("until", "a", "WorkflowTaskCompleted", 4), ("reset", "a", 2), ("until", "a", "WorkflowTaskCompleted", 3),
        ("signal", "a"), ("end", "a"), ("signal", "b"), ("end", "b"),
    ),
    "reset to before a child's end": (
        ("start", "a", "child b wait 1", "wait 1"), ("until", "a", "ChildWorkflowExecutionStarted"),
        ("until", "b", "WorkflowTaskCompleted"), ("until", "a", "WorkflowTaskCompleted", 2), ("signal", "b"), ("end", "b"),
        ("until", "a", "WorkflowTaskCompleted", 3), ("reset", "a", 1), ("until", "a", "WorkflowTaskCompleted", 2),
        ("signal", "a"), ("end", "a"),
    ),
    "a child of two resets": (
        ("start", "a", "child b wait 1"), ("until", "a", "ChildWorkflowExecutionStarted"),
        ("until", "b", "WorkflowTaskCompleted"), ("until", "a", "WorkflowTaskCompleted", 2),
        ("reset", "a", 1), ("until", "a", "WorkflowTaskCompleted", 2),
        ("reset", "a", 1), ("until", "a", "WorkflowTaskCompleted", 2), ("signal", "b"), ("end", "a"), ("end", "b"),
    ),
    "a child that is reset": (
        ("start", "a", "child b timer+wait 1"), ("until", "a", "ChildWorkflowExecutionStarted"),
        ("until", "b", "WorkflowTaskCompleted", 2), ("reset", "b", 1), ("until", "b", "WorkflowTaskCompleted", 2),
        ("signal", "b"), ("end", "a"), ("end", "b"),
    ),
    "a child and its parent that are reset": (
        ("start", "a", "child b timer+wait 1"), ("until", "a", "ChildWorkflowExecutionStarted"),
        ("until", "b", "WorkflowTaskCompleted", 2), ("until", "a", "WorkflowTaskCompleted", 2),
        ("reset", "b", 1), ("until", "b", "WorkflowTaskCompleted", 2),
        ("reset", "a", 1), ("until", "a", "WorkflowTaskCompleted", 2), ("signal", "b"), ("end", "a"), ("end", "b"),
    ),
    "reset to before a signal's answer": (
        ("start", "b", "wait 2"), ("until", "b", "WorkflowTaskCompleted"),
        ("start", "_a", "timer", "busy 1", "tell b", "wait 2"), ("until", "_a", "WorkflowTaskStarted", 2), ("signal", "_a"),
        ("until", "_a", "ExternalWorkflowExecutionSignaled"), ("until", "_a", "WorkflowTaskCompleted", 4), ("until", "b", "WorkflowTaskCompleted", 2),
        ("reset", "_a", 2), ("until", "_a", "WorkflowTaskCompleted", 3), ("end", "b"), ("signal", "_a"), ("end", "_a"),
    ),
}  # fmt: skip
SCENARIOS["a signal to nobody"] = (("start", "a", "tell b", "timer"),)
SCENARIOS["a child that outlives"] = (
    ("start", "a", "abandoned_child b wait 1", "timer"), ("end", "a"), ("terminate", "b"),
)  # fmt: skip
SCENARIOS["a child that ends with its parent"] = (
    ("start", "a", "kept_child b wait 1", "timer"),
    ("end", "a"),
    ("end", "b"),
)
SCENARIOS |= {
    "two signals that come meanwhile": (
        ("start", "a", "timer", "busy 1", "wait 2"), ("until", "a", "WorkflowTaskStarted", 2), ("signal", "a"), ("signal", "a"),
    ),
    "two signals before going on as new": (
        ("start", "a", "timer", "busy 1", "continue", "timer"), ("until", "a", "WorkflowTaskStarted", 2), ("signal", "a"), ("signal", "a"),
    ),
    "a signal and a cancellation at once": (
        ("start", "a", "timer", "busy 1", "wait 2"), ("until", "a", "WorkflowTaskStarted", 2), ("signal", "a"), ("cancel", "a"),
    ),
    "a signal, then terminated": (
        ("start", "a", "timer", "busy 1", "wait 2"), ("until", "a", "WorkflowTaskStarted", 2), ("signal", "a"), ("terminate", "a"),
    ),
    "an update, then a signal, then an update": (
        ("start", "a", "wait 2"), ("until", "a", "WorkflowTaskCompleted"), ("update", "a", "now"),
        ("until", "a", "WorkflowTaskCompleted", 2), ("signal", "a"), ("until", "a", "WorkflowTaskCompleted", 3),
        ("update", "a", "now"), ("until", "a", "WorkflowTaskCompleted", 4), ("signal", "a"),
    ),
    "refused twice, then taken": (
        ("start", "a", "wait 1"), ("until", "a", "WorkflowTaskCompleted"), ("update", "a", "refused"), ("update", "a", "refused"),
        ("update", "a", "now"), ("signal", "a"),
    ),
    "reset twice to one place": (
        ("start", "a", "timer", "wait 1", "timer 0.3"), ("until", "a", "TimerStarted"), ("until", "a", "WorkflowTaskCompleted", 2),
        ("reset", "a", 0), ("until", "a", "WorkflowTaskCompleted", 2), ("reset", "a", 0), ("until", "a", "WorkflowTaskCompleted", 2),
        ("signal", "a"), ("end", "a"),
    ),
    "reset after it has ended": (("start", "a", "timer", "timer"), ("end", "a"), ("reset", "a", 1), ("end", "a")),
    "reset of one with two signals": (
        ("start", "a", "timer", "wait 2", "timer"), ("until", "a", "WorkflowTaskCompleted", 2), ("signal", "a"),
        ("until", "a", "WorkflowTaskCompleted", 3), ("signal", "a"), ("end", "a"), ("reset", "a", 0), ("end", "a"),
    ),
}  # fmt: skip
