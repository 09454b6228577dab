"""The list of properties: what each is called, what it says, and the function that finds where it does not hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

Found = Iterator[str]


@dataclass(frozen=True)
class Property:
    """One property. *level* says what is looked at: the kind of a workflow after each workflow task, one history,
    all histories together, or an installation in which everything has come to its end."""

    name: str
    level: str
    text: str
    check: Callable[..., Found]


EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass
class Look:
    """A workflow after one of its workflow tasks, and what was seen of it after the one before."""

    workflow_id: str
    now: datetime
    object: Any
    before: dict[str, Any]
    """Empty at the first look."""
    closed: str | None
    """How the execution has closed: `Completed`, `Failed`, `ContinuedAsNew`; None: it has not."""
    memo: dict[str, Any] | None
    """The view in the memo."""
    holding: bool
    """Whether the history is so long that the workflow may hold things back to continue as new."""
    idle: bool
    """Whether the workflow's main loop has nothing more to do, and sleeps."""
    jobs: Sequence[Any] = ()
    """What the workflow was told in this workflow task, as the SDK's activation jobs."""
    refused: Collection[str] = ()
    """The ids of updates that it has refused in this workflow task."""
    answered: Collection[str] = ()
    """The ids of updates that it has carried out by the end of this workflow task."""
    kind: str = ""
    """The type of the workflow; only where time is exact."""
    exact: bool = False
    """Whether what is due has been told by now, as in the simulation: a real service fires a timer late."""
    timers: Sequence[datetime] | None = None
    """When the timers fire that the service keeps for it; None: not known, or one has just fired."""
    began: datetime = EPOCH
    """When the execution has begun; only where time is exact."""
    is_much_too_long: bool = False
    """Whether the history has become twice as long since that was suggested; only where time is exact."""
    scheduled: Sequence[Any] = ()
    """The activities that it has asked for in this workflow task; only where time is exact."""
    memory: dict[str, Any] = field(default_factory=dict)
    """What properties keep of the workflow from one look to the next."""
    shared: dict[str, Any] = field(default_factory=dict)
    """What properties make of the workflow once for all of them."""

    @property
    def state(self) -> Any:
        return self.object.state

    @cached_property
    def messages(self) -> list[tuple[str, Any]]:
        """Name and first argument of each signal and update of this workflow task, as plain JSON, in their order."""
        found = []
        for job in self.jobs:
            if job.HasField("signal_workflow"):
                found.append((job.signal_workflow.signal_name, _plain(job.signal_workflow.input)))
            elif job.HasField("do_update") and job.do_update.protocol_instance_id not in self.refused:
                found.append((job.do_update.name, _plain(job.do_update.input)))
        return found

    def messages_of(self, *names: str) -> list[Any]:
        """The first arguments of the messages of these names that have been dealt with."""
        return [argument for name, argument in self._dealt_with if name in names]

    @cached_property
    def _dealt_with(self) -> list[tuple[str, Any]]:
        waiting = {
            job.do_update.name
            for job in self.jobs
            if job.HasField("do_update") and job.do_update.protocol_instance_id not in {*self.refused, *self.answered}
        }
        return [(name, argument) for name, argument in self.messages if name not in waiting]


def _plain(payloads: Sequence[Any]) -> Any:
    """The first of *payloads* as plain JSON; None where it is none, or in another encoding."""
    if not payloads or payloads[0].metadata.get("encoding") != b"json/plain":
        return None
    return json.loads(payloads[0].data)


PROPERTIES: list[Property] = []
SLEEPS = frozenset({"until", "something_happens"})
"""Coroutines in which the main loops of workflows sleep."""


def sleeps(instance: Any) -> bool:
    """Whether the main coroutine of a workflow, by the SDK's *instance* of it, sleeps where it has nothing to do."""
    coroutine = instance._primary_task.get_coro() if instance._primary_task is not None else None
    while coroutine is not None:
        code = getattr(coroutine, "cr_code", None)
        if code is not None and code.co_name in SLEEPS:
            return True
        coroutine = getattr(coroutine, "cr_await", None)
    return False


def prop(level: str) -> Callable[[Callable[..., Found]], Callable[..., Found]]:
    """Adds the function to the catalogue; its name, with dashes, is the property's, its docstring says what holds."""

    def add(check: Callable[..., Found]) -> Callable[..., Found]:
        name = check.__name__.replace("_", "-")
        assert check.__doc__ is not None, name
        assert name not in {known.name for known in PROPERTIES}, name
        PROPERTIES.append(Property(name, level, " ".join(check.__doc__.split()), check))
        return check

    return add


def of_level(level: str) -> list[Property]:
    """The properties of *level*."""
    return [known for known in PROPERTIES if known.level == level]
