"""What lineage hears of runs. Told once and never on replay; nothing waits for it, and nothing of it is in history.

Who listens is the worker's matter: nobody, unless OpenLineage is configured.
"""

from collections.abc import Callable

from temporalio import workflow

from ..model.asset.outlets import OutletEvent
from ..model.run.lineage import LineageFact, run_fact, task_fact
from ..model.run.state import DagRunState
from ..model.run.task_instances import Failure, TaskInstance
from ..model.states import RunState, TaskState

listeners: list[Callable[[LineageFact], None]] = []
"""Must return at once, and raise nothing."""


def run_started(state: DagRunState) -> None:
    """That a run has begun."""
    _of_run(state, None)


def run_ended(state: DagRunState, end: RunState) -> None:
    """That a run has ended."""
    _of_run(state, end)


def task_started(state: DagRunState, instance: TaskInstance) -> None:
    """That a try of a task has begun."""
    _of_task(state, instance, None)


def task_ended(
    state: DagRunState,
    instance: TaskInstance,
    end: TaskState,
    failure: Failure | None,
    outlet_events: tuple[OutletEvent, ...],
) -> None:
    """That a try of a task has ended, and what it said of the assets that it writes."""
    _of_task(state, instance, end, failure, outlet_events)


def _of_run(state: DagRunState, end: RunState | None) -> None:
    if _nobody_listens():
        return
    _tell(run_fact(state, workflow.info().first_execution_run_id, end, workflow.now()))


def _of_task(
    state: DagRunState,
    instance: TaskInstance,
    end: TaskState | None,
    failure: Failure | None = None,
    outlet_events: tuple[OutletEvent, ...] = (),
) -> None:
    if _nobody_listens():
        return
    info = workflow.info()
    _tell(
        task_fact(
            state,
            info.first_execution_run_id,
            info.run_id,
            instance,
            end,
            workflow.now(),
            failure=failure,
            outlet_events=outlet_events,
        )
    )


def _nobody_listens() -> bool:
    return not listeners or workflow.unsafe.is_replaying()


def _tell(fact: LineageFact) -> None:
    for listener in listeners:
        listener(fact)
