"""What operators measure of runs, tasks and pools. Nothing is measured on replay: it counts once, and costs no time.

Times are in milliseconds, as all of Temporal's own histograms are.
"""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import MetricMeter

from ..model.run.state import DagRunState
from ..model.run.task_instances import TaskInstance
from ..model.states import RunState, TaskState


def run_started(state: DagRunState) -> None:
    """How long after it fell due the run has begun (Airflow: dagrun.schedule_delay)."""
    if workflow.unsafe.is_replaying():
        return
    delay = workflow.now() - state.run.run_after
    _meter(state.run.dag_id).create_histogram_timedelta(
        "tidemill_schedule_delay", "From run_after to the start of the run", "ms"
    ).record(max(delay, timedelta()))


def run_ended(state: DagRunState, end: RunState) -> None:
    """That a run has ended, how, and how long it took (Airflow: dagrun.duration.*)."""
    if workflow.unsafe.is_replaying():
        return
    meter = _meter(state.run.dag_id, state=str(end))
    meter.create_counter("tidemill_dag_runs", "Runs that have ended").add(1)
    if state.started_at is not None:
        meter.create_histogram_timedelta("tidemill_dag_run_duration", "From start to end of the run", "ms").record(
            workflow.now() - state.started_at
        )


def task_ended(state: DagRunState, instance: TaskInstance) -> None:
    """That a task has ended, how, and how long it waited for its start."""
    if workflow.unsafe.is_replaying():
        return
    meter = _meter(state.run.dag_id, state=str(instance.state))
    meter.create_counter("tidemill_task_instances", "Task instances that have ended").add(1)
    if instance.queued_at is not None and instance.started_at is not None and instance.state is not TaskState.SKIPPED:
        meter.create_histogram_timedelta(
            "tidemill_task_queued_duration", "From queued to started, of the last try", "ms"
        ).record(max(instance.started_at - instance.queued_at, timedelta()))


def pool_changed(name: str, slots: int, used: int, waiting: int) -> None:
    """How full a pool is (Airflow: pool.open_slots and its kin)."""
    if workflow.unsafe.is_replaying():
        return
    meter = workflow.metric_meter().with_additional_attributes({"pool": name})
    meter.create_gauge("tidemill_pool_slots", "Slots that the pool has").set(slots)
    meter.create_gauge("tidemill_pool_slots_used", "Slots that are held").set(used)
    meter.create_gauge("tidemill_pool_waiting", "Leases that are waited for").set(waiting)


def _meter(dag_id: str, **attributes: str) -> MetricMeter:
    return workflow.metric_meter().with_additional_attributes({"dag_id": dag_id, **attributes})
