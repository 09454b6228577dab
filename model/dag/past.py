"""What the runs of a DAG have to know of each other, where tasks depend on the run before."""

from collections.abc import Collection, Mapping
from datetime import datetime

from ..run.identity import RunIdentity
from ..run.instance_keys import split_key
from ..run.messages import DagUpdate, TasksEnded
from ..run.past import Past, remembered, run_before
from ..states import RunState, TaskState
from .data import DagData
from .records import RunRecord, TrackedRun


class DagPast(DagData):
    """The part of a DAG's decisions that looks from one run to the next."""

    def unknown_past(self) -> dict[str, TaskState]:
        """What is known of a run that has told nothing: where the next run looks, nothing has ended well."""
        return dict.fromkeys(sorted(remembered(self.spec)), TaskState.NONE)

    def take_up(self, run_id: str) -> dict[str, TaskState]:
        """Take an ended run off the ledger because it runs again. Return how its tasks ended for the next run."""
        past = next((r.all_past(self.unknown_past()) for r in self.ledger if r.run_id == run_id), {})
        self.ledger = [record for record in self.ledger if record.run_id != run_id]
        return past

    def begin_again(self, tracked: TrackedRun, instances: Collection[str] | None = None) -> dict[str, TaskState]:
        """Takes note that tasks of a run that had ended begin anew: the next run waits for them until they end again.

        *instances* are those that are cleared or marked; None: all. Return what runs that look back at it have to hear.
        """
        looked_at = remembered(self.spec)
        tasks = looked_at if instances is None else looked_at & {split_key(key)[0] for key in instances}
        anew = dict.fromkeys(sorted(tasks), TaskState.NONE)
        tracked.past = {**tracked.past, **anew}
        return anew

    def past_of(self, tracked: TrackedRun) -> Past | None:
        """The run before, if tasks depend on it: what is known of it now."""
        unknown = self.unknown_past()
        if not unknown or tracked.ignores_past:
            return None
        known: list[RunIdentity | RunRecord] = [other.run for other in self.runs.values()]
        before = run_before(tracked.run, [*known, *self.ledger], catchup=self.spec.catchup)
        if before is None:
            return None
        states = before.all_past(unknown) if isinstance(before, RunRecord) else self.runs[before.key].past
        if isinstance(before, RunRecord) and not states:  # it ran when no task was looked back at
            return Past(run_id=before.run_id)
        return Past(run_id=before.run_id, states={**unknown, **states})

    def tasks_ended(self, ended: TasksEnded) -> list[TrackedRun]:
        """Takes note of how tasks of a run have ended, and returns the runs that have to hear of it."""
        tracked = self.runs.get(ended.key)
        if tracked is None:
            return []
        tracked.past = {**tracked.past, **ended.states} if ended.is_delta else ended.states
        return self.after(tracked.run.run_id)

    def after(self, before: str) -> list[TrackedRun]:
        """The runs under way that look back at the run *before*."""
        return [t for t in self.runs.values() if t.previous == before and t.state is RunState.RUNNING]

    def number_by_time(self, now: datetime) -> None:
        """Has messages to runs be numbered from *now* on: runs follow none that is older than one that they know.

        A DAG that was ended and begins anew, or that was reset, does not know how far its numbers had come: then, and
        when it finds a run under way later. In seconds, as release 0.3 has them: after a finer number no run would heed
        that one's messages.
        """
        self.last_update = max(self.last_update, int(now.timestamp()))

    def update_for_run(self, tracked: TrackedRun, changed: Mapping[str, TaskState] | None = None) -> DagUpdate:
        """What a run under way has to hear: all of the run before it, or only what has *changed* there."""
        self.last_update += 1
        if changed is not None and tracked.previous is not None:
            past = Past(run_id=tracked.previous, states=dict(changed))
            return DagUpdate(number=self.last_update, is_paused=self.is_paused, past=past, is_delta=True)
        before = self.past_of(tracked)
        tracked.previous = before.run_id if before is not None else None
        return DagUpdate(number=self.last_update, is_paused=self.is_paused, past=before)
