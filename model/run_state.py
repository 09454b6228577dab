"""One run from its first task to its last, as the data that its workflow carries and shows."""

from typing import Any

from .attempts import TaskAttempt
from .base import Instant, Model, Record
from .dag import DagSpec, param_value
from .graph import ancestors
from .runs import RunIdentity
from .states import TaskState
from .task_instances import TaskInstance
from .tasks import Task


class DagRunState(Record):
    """A run's state, also the input of its workflow: how it starts, and how it goes on after continue-as-new."""

    run: RunIdentity
    spec: DagSpec
    started_at: Instant | None = None
    instances: dict[str, TaskInstance] = {}
    executions: int = 1

    def fill(self) -> None:
        """Gives every task of the DAG its instance."""
        for task in self.spec.tasks:
            self.instances.setdefault(task.task_id, TaskInstance(task_id=task.task_id))

    def attempt(self, task: Task, execution: str) -> TaskAttempt:
        """The present try of *task* as its worker gets it, in the workflow execution *execution*."""
        defaults = {name: param_value(value) for name, value in {**self.spec.params, **task.params}.items()}
        return TaskAttempt(
            run=self.run,
            task=task,
            try_number=self.instances[task.task_id].try_number,
            execution=execution,
            params={**defaults, **self.run.conf},
            xcom=self.results_for(task),
            source=self.spec.source,
            render_template_as_native_obj=self.spec.render_template_as_native_obj,
        )

    def results_for(self, task: Task) -> dict[str, dict[str, Any]]:
        """The results that *task* can see: those it names, or all upstream of it if it may pull any."""
        wanted = ancestors(self.spec.upstreams, task.task_id) if task.pulls_xcom else task.uses()
        return {other: xcom for other in sorted(wanted) if (xcom := self.instances[other].xcom)}


class Progress(Model):
    """How far a run is. The field names are those of Airflow's old progress line."""

    total_tasks: int
    finished: int
    succeeded: int
    skipped: int
    failed: int

    @property
    def pct(self) -> float:
        """Finished tasks of all tasks, in percent; a run without tasks is complete."""
        return 100.0 * self.finished / self.total_tasks if self.total_tasks else 100.0


def progress(instances: dict[str, TaskInstance]) -> Progress:
    states = [instance.state for instance in instances.values()]
    return Progress(
        total_tasks=len(states),
        finished=sum(state.finished for state in states),
        succeeded=states.count(TaskState.SUCCESS),
        skipped=states.count(TaskState.SKIPPED),
        failed=states.count(TaskState.FAILED) + states.count(TaskState.UPSTREAM_FAILED),
    )


def task_table(state: DagRunState, most: int = 40) -> str:
    """The run as Markdown, for Temporal's own UI."""
    counts = progress(state.instances)
    lines = [f"**{state.run.run_id}**: {counts.finished} of {counts.total_tasks} tasks finished"]
    if len(state.instances) <= most:
        lines += ["", "| task | state | try | |", "|---|---|---|---|"]
        lines += [
            f"| {i.task_id} | {i.state} | {i.try_number or ''} | {_remark(i)} |" for i in state.instances.values()
        ]
    return "\n".join(lines)


def _remark(instance: TaskInstance) -> str:
    if instance.failure is not None and instance.state is not TaskState.SUCCESS:
        return f"{instance.failure.error_type}: {instance.failure.message}".split("\n")[0][:120].replace("|", "\\|")
    return instance.reason or ""
