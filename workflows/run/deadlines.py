"""What should be done by some time: told when it is not, and never held against anything that runs."""

from datetime import datetime
from functools import partial

from ...model.base import iso
from ...model.run.state import DagRunState
from ...model.run.task_instances import TaskInstance
from ...model.spec.dag import DagSpec
from ...model.spec.deadlines import DeadlineAlert
from ...model.spec.notifiers import Event
from ...model.states import TaskState
from .clocks import Clocks
from .notices import Notices


def _name(alert: DeadlineAlert) -> str:
    """What no task is called."""
    return f"deadline {alert.number}"


def of_queueing(spec: DagSpec) -> set[str]:
    """The deadlines that count from when the run was queued: anew for one that is cleared, as in Airflow."""
    return {_name(alert) for alert in spec.deadline_alerts if alert.reference == "queued_at"}


IN_TIME = (TaskState.SUCCESS, TaskState.SKIPPED, TaskState.REMOVED)


class Deadlines:
    """The `deadline` of a run and the `sla` of its tasks."""

    def __init__(self, state: DagRunState, clocks: Clocks, notices: Notices) -> None:
        self._state = state
        self._clocks = clocks
        self._notices = notices

    def set(self) -> None:
        """Starts their clocks; a miss is told once, also after a downtime."""
        spec, due = self._state.spec, self._state.run.run_after
        if spec.deadline is not None and "" not in self._state.missed:
            self._clocks.set("deadline", due + spec.deadline, lambda: self._miss(None))
        for alert in spec.deadline_alerts:
            moment = alert.due(self._state.run.logical_date, self._state.queued_at or due)
            if moment is not None and _name(alert) not in self._state.missed:
                self._clocks.set(_name(alert), moment, partial(self._miss_alert, alert, moment))
        for task in spec.tasks:
            if task.sla is not None and task.task_id not in self._state.missed:
                self._clocks.set(f"sla {task.task_id}", due + task.sla, partial(self._miss, task.task_id))

    def _miss_alert(self, alert: DeadlineAlert, moment: datetime) -> None:
        self._state.missed.append(_name(alert))
        self._notices.tell(Event.DEADLINE_MISS, None, reason=iso(moment), number=alert.number)

    def _miss(self, task_id: str | None) -> None:
        """The time is over for a task, or for the run. Told once, of each instance that has not ended well."""
        self._state.missed.append(task_id or "")
        event = Event.DEADLINE_MISS if task_id is None else Event.SLA_MISS
        late: list[TaskInstance | None] = [None] if task_id is None else [*self._state.of_task(task_id)]
        for instance in late:
            if instance is None or instance.state not in IN_TIME:
                self._notices.tell(event, instance, reason="it should have ended by now")
