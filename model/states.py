"""The states of tasks and runs, as in Airflow, and which may follow which."""

from enum import StrEnum


class TaskState(StrEnum):
    """Where a task instance stands (Airflow: TaskInstanceState; NONE is Airflow's null)."""

    NONE = "none"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    UP_FOR_RETRY = "up_for_retry"
    UP_FOR_RESCHEDULE = "up_for_reschedule"
    DEFERRED = "deferred"
    AWAITING_INPUT = "awaiting_input"
    SHUTDOWN = "shutdown"
    RESTARTING = "restarting"
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"
    UPSTREAM_FAILED = "upstream_failed"
    REMOVED = "removed"

    @property
    def finished(self) -> bool:
        return self in FINISHED

    @property
    def holds_a_worker(self) -> bool:
        """Whether the task counts against max_active_tasks and its pool."""
        return self in (TaskState.QUEUED, TaskState.RUNNING, TaskState.SHUTDOWN)

    @property
    def is_active(self) -> bool:
        """Whether it counts against the limits on instances of one task: also while it waits outside of a worker."""
        return self.holds_a_worker or self in (TaskState.DEFERRED, TaskState.AWAITING_INPUT)

    @property
    def without_its_run(self) -> "TaskState":
        """How it stands where the execution of its run was ended from outside: what a worker had has failed."""
        if self.holds_a_worker or self is TaskState.RESTARTING:
            return TaskState.FAILED
        return self if self.finished else TaskState.NONE


_S = TaskState
FINISHED = frozenset({_S.SUCCESS, _S.FAILED, _S.SKIPPED, _S.UPSTREAM_FAILED, _S.REMOVED})
WAITS = frozenset({_S.DEFERRED, _S.AWAITING_INPUT, _S.UP_FOR_RESCHEDULE})
"""States of a try that goes on, while no worker has it."""
FAILURES = frozenset({_S.FAILED, _S.UPSTREAM_FAILED})

TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    _S.NONE: frozenset({_S.SCHEDULED, _S.SUCCESS, _S.FAILED, _S.SKIPPED, _S.UPSTREAM_FAILED, _S.REMOVED}),
    _S.SCHEDULED: frozenset({_S.NONE, _S.QUEUED, _S.SUCCESS, _S.FAILED, _S.SKIPPED, _S.REMOVED}),
    _S.QUEUED: frozenset({_S.RUNNING, _S.SHUTDOWN, _S.RESTARTING, _S.SUCCESS, _S.FAILED, _S.SKIPPED, _S.UP_FOR_RETRY}),
    _S.RUNNING: frozenset(
        {
            _S.SUCCESS,
            _S.FAILED,
            _S.SKIPPED,
            _S.UP_FOR_RETRY,
            _S.UP_FOR_RESCHEDULE,
            _S.DEFERRED,
            _S.AWAITING_INPUT,
            _S.SHUTDOWN,
            _S.RESTARTING,
        }
    ),
    _S.UP_FOR_RETRY: frozenset({_S.NONE, _S.SCHEDULED, _S.SUCCESS, _S.FAILED, _S.SKIPPED, _S.REMOVED}),
    _S.UP_FOR_RESCHEDULE: frozenset({_S.NONE, _S.SCHEDULED, _S.SUCCESS, _S.FAILED, _S.SKIPPED, _S.REMOVED}),
    _S.DEFERRED: frozenset({_S.NONE, _S.SCHEDULED, _S.SUCCESS, _S.FAILED, _S.SKIPPED, _S.UP_FOR_RETRY, _S.SHUTDOWN}),
    _S.AWAITING_INPUT: frozenset({_S.NONE, _S.SCHEDULED, _S.SUCCESS, _S.FAILED, _S.SKIPPED, _S.SHUTDOWN}),
    _S.SHUTDOWN: frozenset({_S.RESTARTING, _S.FAILED, _S.UP_FOR_RETRY, _S.SUCCESS, _S.SKIPPED}),
    _S.RESTARTING: frozenset({_S.SHUTDOWN, _S.NONE, _S.SCHEDULED, _S.FAILED, _S.UP_FOR_RETRY}),
    # A finished task moves again only when a person clears or marks it.
    **{
        finished: frozenset({_S.NONE, _S.SUCCESS, _S.FAILED, _S.SKIPPED, _S.REMOVED}) - {finished}
        for finished in FINISHED
    },
}
"""Which state may follow which. The run's workflow is the only writer, and holds itself to this."""


class IllegalTransitionError(RuntimeError):
    """A task was about to take a state that cannot follow the one it has: a defect of tidemill."""


def check_transition(task_id: str, old: TaskState, new: TaskState) -> None:
    if new not in TRANSITIONS[old]:
        raise IllegalTransitionError(f"task {task_id!r} cannot go from {old} to {new}")


class RunState(StrEnum):
    """Where a run stands (Airflow: DagRunState)."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"

    @property
    def finished(self) -> bool:
        return self in (RunState.SUCCESS, RunState.FAILED)
