"""Something that happened to a task or a run, on its way to one who wants to know."""

from typing import Any

from ..asset.state import Lateness
from ..base import Model, OmitDefaults
from ..spec.notifiers import Event, FunctionNotifier, Notifier
from ..spec.tasks import EmptyTask
from ..states import RunState, TaskState
from ..web_pages import run_page, task_page
from .attempts import WHOLE_RUN, CallbackCall, EndedTry, TaskAttempt
from .identity import RunIdentity, asset_pseudo_run
from .state import DagRunState
from .task_instances import TaskInstance


class Notice(OmitDefaults, Model):
    """Something that happened, for one notifier."""

    notifier: Notifier
    event: Event
    run: RunIdentity
    state: str
    reason: str | None = None
    attempt: TaskAttempt
    """The try that it happened to; of a run as a whole, one of no task in particular."""
    about: EndedTry | None = None
    """Of the end of a run: the task instance by which it has ended."""
    of_run: bool = False
    """Whether the notifier is one of the DAG's, and not of the task's."""
    number: int
    """Which notice of its run this is."""
    asset: str | None = None
    """The asset that it happened to, in the place of a run."""
    written_for: str = "tidemill"
    """Whose classes the DAG is written with: a function of its file is called as they do it."""

    @property
    def key(self) -> str:
        """The same for the same notice, however often it is delivered."""
        return f"{self.run.dag_id}/{self.run.run_id}/{self.number}/{self.event}"

    def call_of(self, notifier: FunctionNotifier) -> TaskAttempt:
        """Return the attempt by which the function of the DAG file is called that *notifier* means."""
        called = CallbackCall(
            event=self.event,
            number=notifier.number,
            of_run=self.of_run,
            reason=self.reason,
            asset=self.asset,
            about=self.about,
        )
        execution = f"{self.attempt.execution}-notice-{self.number}"
        return self.attempt.model_copy(update={"callback": called, "execution": execution})

    def facts(self, base_url: str | None = None) -> dict[str, Any]:
        """What happened, in plain words; with *base_url*, the address of the web, also the `url` of the page for it."""
        if self.asset is not None:
            return {"event": str(self.event), "asset": self.asset, "state": self.state, "reason": self.reason}
        task = self.attempt if self.attempt.task.task_id != WHOLE_RUN else None
        return {
            "event": str(self.event),
            "dag_id": self.run.dag_id,
            "run_id": self.run.run_id,
            "logical_date": self.run.logical_date.isoformat() if self.run.logical_date is not None else None,
            "task_id": task.task.task_id if task is not None else None,
            "map_index": task.map_index if task is not None else None,
            "try_number": task.try_number if task is not None else None,
            "state": self.state,
            "reason": self.reason,
            **({"url": self._page(base_url, task)} if base_url is not None else {}),
        }

    def _page(self, base_url: str, task: TaskAttempt | None) -> str:
        dag_id, run_id = self.run.dag_id, self.run.run_id
        if task is None:
            return run_page(base_url, dag_id, run_id)
        return task_page(base_url, dag_id, run_id, task.task.task_id, task.map_index, task.try_number)


EVENTS = {
    TaskState.SUCCESS: Event.ON_SUCCESS,
    TaskState.FAILED: Event.ON_FAILURE,
    TaskState.UP_FOR_RETRY: Event.ON_RETRY,
    TaskState.SKIPPED: Event.ON_SKIPPED,
}
"""What is told of a try that has ended, by the state that its task has then."""


def end_of_run(state: RunState) -> Event:
    """Return what is told of a run that has ended."""
    return Event.ON_SUCCESS if state is RunState.SUCCESS else Event.ON_FAILURE


def notices_of(
    state: DagRunState,
    execution: str,
    event: Event,
    instance: TaskInstance | None,
    state_name: str | None = None,
    reason: str | None = None,
    number: int | None = None,
) -> list[Notice]:
    """Return a notice of *event* for each who is to be told, and count them in *state*.

    *instance*: None for one of the run. *state_name*: what it is in; None: what the instance is in. *number*: for that
    function of the file alone.
    """
    task = state.spec.by_id[instance.task_id] if instance is not None else None
    own = task.callbacks.get(event, ()) if task is not None else ()
    common = state.spec.callbacks.get(event, ()) if task is None or event is Event.SLA_MISS else ()
    if number is not None:
        common = tuple(one for one in common if isinstance(one, FunctionNotifier) and one.number == number)
    found = []
    for notifier, of_run in (*((one, False) for one in own), *((one, True) for one in common)):
        state.notices += 1
        found.append(
            Notice(
                notifier=notifier,
                event=event,
                run=state.run,
                state=state_name or (instance.state if instance is not None else RunState.RUNNING),
                reason=reason,
                attempt=_attempt_of(state, instance, execution),
                about=decisive(state, RunState(state_name)) if instance is None and state_name is not None else None,
                of_run=of_run,
                number=state.notices,
                written_for=state.spec.written_for,
            )
        )
    return found


def _attempt_of(state: DagRunState, instance: TaskInstance | None, execution: str) -> TaskAttempt:
    if instance is not None:
        return state.attempt(instance, execution)
    return TaskAttempt(
        run=state.run,
        task=EmptyTask(task_id=WHOLE_RUN),
        try_number=1,
        execution=execution,
        params=state.run.conf,
        run_started_at=state.began,
        source=state.spec.source,
    )


def decisive(state: DagRunState, end: RunState) -> EndedTry | None:
    """The task instance by which a run has ended: the last that has failed, or that has succeeded (as in Airflow)."""
    wanted = TaskState.SUCCESS if end is RunState.SUCCESS else TaskState.FAILED
    made = [(one.ended_at, one) for one in state.instances.values() if one.state is wanted and one.ended_at is not None]
    if not made:
        return None
    _, last = max(made, key=lambda ended: ended[0])
    return EndedTry(
        task_id=last.task_id,
        map_index=last.map_index,
        try_number=last.try_number,
        max_tries=last.max_tries(state.spec.by_id[last.task_id].retries),
        state=last.state,
        started_at=last.started_at,
        ended_at=last.ended_at,
    )


def late_notice(asset: str, lateness: Lateness, execution: str) -> Notice:
    """That an asset is late, for one notifier."""
    run = asset_pseudo_run(asset, lateness.dag_id, lateness.since)
    attempt = TaskAttempt(
        run=run, task=EmptyTask(task_id=WHOLE_RUN), try_number=1, execution=execution, source=lateness.source
    )
    return Notice(
        notifier=lateness.notifier,
        event=Event.ASSET_LATE,
        run=run,
        state="late",
        reason=lateness.reason,
        attempt=attempt,
        number=lateness.number,
        asset=asset,
    )
