"""What registering another version of a DAG would do to its schedule, before it is done."""

from datetime import datetime

from ..base import Model, iso
from ..spec.dag import DagSpec
from ..spec.timetables import Custom, DagRunInfo
from .state import DagState
from .ticks import Ticks, coming_runs

RUNS_SHOWN = 5


class Preview(Model):
    """The next runs as things are, and as they would be."""

    changed: bool
    current: tuple[DagRunInfo, ...]
    proposed: tuple[DagRunInfo, ...]
    transition: str


def preview(state: DagState, spec: DagSpec, now: datetime) -> Preview:
    """The effect of registering *spec*, or of its bundle doing so where it has the DAG. Nothing is changed."""
    after = state.model_copy(deep=True)
    changed = after.register(_in_its_bundle(state, spec), now)
    return Preview(
        changed=changed,
        current=upcoming(state, now).infos,
        proposed=upcoming(after, now).infos,
        transition=_transition(state, after, changed),
    )


def _in_its_bundle(state: DagState, spec: DagSpec) -> DagSpec:
    """*spec* as the bundle would read it that has the DAG, where somebody shows a file of it by hand."""
    mine, offered = state.spec.source, spec.source
    if mine is None or offered is None or not state.is_replaced_by_hand(spec):
        return spec
    source = mine.model_copy(update={"sha256": offered.sha256})
    return DagSpec.model_validate({**spec.model_dump(), "source": source})


def upcoming(state: DagState, now: datetime, limit: int = RUNS_SHOWN) -> Ticks:
    """The next *limit* runs from *state*. A user's own timetable is not asked here: of it, what is known already."""
    if isinstance(state.spec.schedule, Custom):
        return Ticks(infos=state.ticks[:limit], ended=state.ticks_ended)
    question = state.ask(now)
    if state.spec.schedule.answers_by_moment:  # what follows the next run depends on when that ends
        return coming_runs(question)
    return coming_runs(question.model_copy(update={"limit": limit}))


def _transition(before: DagState, after: DagState, changed: bool) -> str:
    if not changed:
        return "nothing changes: this version is in place"
    if before.spec.schedule == after.spec.schedule:
        if before.spec.restriction != after.spec.restriction:
            return (
                "the schedule stays, within other bounds (start_date, end_date or catchup); runs that exist stay, too"
            )
        return "the schedule stays; new runs use the new version, runs that exist keep theirs"
    if after.resume_at is None:
        return "the schedule changes; no automated run was made yet, so the new one starts from start_date"
    return (
        f"the schedule changes; the last run's interval ended at {iso(after.resume_at)}, "
        "and the first interval that begins then or later is the next"
    )
