"""What was known, what was decided, and why nothing else: one step for each time that a workflow was woken."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..base import Instant, Model

WAITING_KEPT = 2000
"""Of so many waiting subjects a step keeps the reason: working one out takes time, at each step."""


class Change(Model):
    """Something that has another state after a step than before it."""

    about: str
    """A task's instance, such as `load[3]`; or a run of a DAG, or the DAG."""
    before: str | None
    after: str
    reason: str = ""


class Step(Model):
    """One step of a workflow, in the order in which they were taken."""

    at: Instant
    execution: str
    """Which execution of the workflow it belongs to, by its run_id in Temporal: a long one goes on in further ones."""
    event_id: int
    """Where it is in the history of that execution: the number of its WorkflowTaskStarted event."""
    learned: tuple[str, ...] = ()
    """What had happened since the step before."""
    decided: tuple[Change, ...] = ()
    ordered: tuple[str, ...] = ()
    """What Temporal was asked to do: activities, timers, children, messages."""
    waiting: dict[str, str] = {}
    """Why what might have begun did not; of each subject when its reason is another than before."""

    def waiting_by_reason(self) -> dict[str, list[str]]:
        """What waits, by the reason for it."""
        found: dict[str, list[str]] = {}
        for about, why in self.waiting.items():
            found.setdefault(why, []).append(about)
        return found

    def concerns(self, about: str) -> bool:
        """Whether the run or task *about*, or an instance of the task, is named in it."""
        subjects = [*self.waiting, *(change.about for change in self.decided)]
        if any(about in (subject, subject.partition("[")[0]) for subject in subjects):
            return True
        # `load/1` and `load[3]/1` are ids of activities; workflow ids of runs end with what tells the run apart.
        named = re.compile(rf"(?<!\S){re.escape(about)}(\[\d+\])?/\d|:{re.escape(about)}(?!\S)")
        return any(named.search(words) for words in (*self.learned, *self.ordered))


@dataclass(frozen=True)
class Picture:
    """How things are after a step."""

    states: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By subject, its state and the reason for it."""
    waiting: Mapping[str, str] = field(default_factory=dict)


def changes_between(before: Picture, after: Picture) -> tuple[Change, ...]:
    """What has another state in *after*, in its order."""
    found = [
        Change(about=about, before=before.states[about][0] if about in before.states else None, after=state, reason=why)
        for about, (state, why) in after.states.items()
        if about not in before.states or before.states[about][0] != state
    ]
    return tuple(found)


def newly_waiting(before: Picture, after: Picture) -> dict[str, str]:
    """What waits in *after* for another reason than before."""
    return {about: why for about, why in after.waiting.items() if before.waiting.get(about) != why}
