"""When a task may start, given how its upstreams stand: Airflow's trigger rules as one table.

A rule looks at nothing but how many upstreams are in which state, so the answer to every rule
but all_success does not depend on the order in which they end.
"""

from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import Self

from ..spec.trigger_rule import TriggerRule
from ..states import TaskState


class Verdict(StrEnum):
    """What a rule says of a task: let it run, let it wait, or end it without running."""

    RUN = "run"
    WAIT = "wait"
    SKIPPED = "skipped"
    UPSTREAM_FAILED = "upstream_failed"


@dataclass(slots=True)
class Upstreams:
    """How many of a task's direct upstreams are in which state. `failed` includes upstream_failed."""

    total: int = 0
    success: int = 0
    skipped: int = 0
    failed: int = 0
    upstream_failed: int = 0
    removed: int = 0
    setups: int = 0
    setups_succeeded: int = 0
    setups_skipped: int = 0

    @classmethod
    def of(cls, states: Iterable[TaskState]) -> Self:
        counts = cls()
        for state in states:
            counts.total += 1
            counts.add(state, 1)
        return counts

    def add_setup(self, state: TaskState, n: int) -> None:
        """The same as `add`, for an upstream that is a setup."""
        self.add(state, n)
        self.setups_succeeded += n * (state is TaskState.SUCCESS)
        self.setups_skipped += n * (state is TaskState.SKIPPED)

    def plus(self, other: Self) -> Self:
        """Both together."""
        return type(self)(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def add(self, state: TaskState, n: int) -> None:
        """Counts *n* more upstreams in *state* (-1: one that leaves it). Unfinished ones are not counted."""
        match state:
            case TaskState.SUCCESS:
                self.success += n
            case TaskState.SKIPPED:
                self.skipped += n
            case TaskState.FAILED:
                self.failed += n
            case TaskState.UPSTREAM_FAILED:
                self.failed += n
                self.upstream_failed += n
            case TaskState.REMOVED:
                self.removed += n
            case _:
                pass

    @property
    def done(self) -> bool:
        return self.total == self.success + self.skipped + self.failed + self.removed


def _all_success(upstreams: Upstreams) -> Verdict:
    if upstreams.failed:
        return Verdict.UPSTREAM_FAILED
    if upstreams.skipped:
        return Verdict.SKIPPED
    return _when_done(upstreams)


def _all_failed(upstreams: Upstreams) -> Verdict:
    return Verdict.SKIPPED if upstreams.success or upstreams.skipped else _when_done(upstreams)


def _when_done(upstreams: Upstreams) -> Verdict:
    return Verdict.RUN if upstreams.done else Verdict.WAIT


def _all_done_setup_success(upstreams: Upstreams) -> Verdict:
    if not upstreams.done:
        return Verdict.WAIT
    if upstreams.setups and upstreams.setups_skipped == upstreams.setups:
        return Verdict.SKIPPED
    if upstreams.setups and not upstreams.setups_succeeded:
        return Verdict.UPSTREAM_FAILED
    return Verdict.RUN


def _all_done_min_one_success(upstreams: Upstreams) -> Verdict:
    if upstreams.skipped:
        return Verdict.SKIPPED
    if not upstreams.done:
        return Verdict.WAIT
    return Verdict.RUN if upstreams.success else Verdict.UPSTREAM_FAILED


def _all_skipped(upstreams: Upstreams) -> Verdict:
    if upstreams.success or upstreams.failed:
        return Verdict.SKIPPED
    # A removed upstream was never skipped: Airflow waits for it, for ever.
    return Verdict.RUN if upstreams.skipped == upstreams.total else Verdict.WAIT


def _one_success(upstreams: Upstreams) -> Verdict:
    if upstreams.success:
        return Verdict.RUN
    if not upstreams.done:
        return Verdict.WAIT
    return Verdict.SKIPPED if upstreams.skipped == upstreams.total else Verdict.UPSTREAM_FAILED


def _one_failed(upstreams: Upstreams) -> Verdict:
    return Verdict.RUN if upstreams.failed else _skip_when_done(upstreams)


def _one_done(upstreams: Upstreams) -> Verdict:
    return (
        Verdict.RUN if upstreams.success or upstreams.failed > upstreams.upstream_failed else _skip_when_done(upstreams)
    )


def _skip_when_done(upstreams: Upstreams) -> Verdict:
    return Verdict.SKIPPED if upstreams.done else Verdict.WAIT


def _none_failed(upstreams: Upstreams) -> Verdict:
    return Verdict.UPSTREAM_FAILED if upstreams.failed else _when_done(upstreams)


def _none_failed_min_one_success(upstreams: Upstreams) -> Verdict:
    if upstreams.failed:
        return Verdict.UPSTREAM_FAILED
    return _one_success(upstreams) if upstreams.done else Verdict.WAIT


def _none_skipped(upstreams: Upstreams) -> Verdict:
    return Verdict.SKIPPED if upstreams.skipped else _when_done(upstreams)


def _always(_: Upstreams) -> Verdict:
    return Verdict.RUN


RULES: dict[TriggerRule, Callable[[Upstreams], Verdict]] = {
    TriggerRule.ALL_SUCCESS: _all_success,
    TriggerRule.ALL_FAILED: _all_failed,
    TriggerRule.ALL_DONE: _when_done,
    TriggerRule.ALL_DONE_MIN_ONE_SUCCESS: _all_done_min_one_success,
    TriggerRule.ALL_DONE_SETUP_SUCCESS: _all_done_setup_success,
    TriggerRule.ALL_SKIPPED: _all_skipped,
    TriggerRule.ONE_SUCCESS: _one_success,
    TriggerRule.ONE_FAILED: _one_failed,
    TriggerRule.ONE_DONE: _one_done,
    TriggerRule.NONE_FAILED: _none_failed,
    TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS: _none_failed_min_one_success,
    TriggerRule.NONE_SKIPPED: _none_skipped,
    TriggerRule.ALWAYS: _always,
}


def judge(rule: TriggerRule, upstreams: Upstreams) -> Verdict:
    """What *rule* says. A task without upstreams may always run."""
    return RULES[rule](upstreams) if upstreams.total else Verdict.RUN
