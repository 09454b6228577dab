"""What holds of each history, and of all histories of an installation together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tidemill.model.run.identity import RunType
from tidemill.model.run.state import DagRunState
from tidemill.model.spec.dag import DagSpec

from .catalogue import Found, prop

HISTORY, ALL = "history", "installation"
MAX_EVENTS, MAX_PENDING, MAX_COMMANDS = 51_200, 2_000, 600
CLOSING = {
    "WorkflowExecutionCompleted", "WorkflowExecutionFailed", "WorkflowExecutionCanceled",
    "WorkflowExecutionTerminated", "WorkflowExecutionContinuedAsNew", "WorkflowExecutionTimedOut",
}  # fmt: skip
ENDS_OF_ACTIVITIES = {"ActivityTaskCompleted", "ActivityTaskFailed", "ActivityTaskTimedOut", "ActivityTaskCanceled"}
ENDS_OF_CHILDREN = {
    "StartChildWorkflowExecutionFailed", "ChildWorkflowExecutionCompleted", "ChildWorkflowExecutionFailed",
    "ChildWorkflowExecutionCanceled", "ChildWorkflowExecutionTerminated", "ChildWorkflowExecutionTimedOut",
}  # fmt: skip
EXPECTED_FAILURES = ("UnhandledCommand", "ResetWorkflow", "ForceCloseCommand")
"""Causes for which a workflow task fails without anybody's fault."""


# One history: `execution.events`, each with event_id, at, kind and data


@prop(HISTORY)
def events_are_in_order(execution: Any) -> Found:
    """Events are numbered from 1 without a gap."""
    for number, event in enumerate(execution.events, 1):
        if event.event_id != number:
            yield f"event {event.event_id} is number {number}"
            return


@prop(HISTORY)
def a_history_begins_once_and_ends_once(execution: Any) -> Found:
    """A history begins with its start, and nothing comes after its end."""
    kinds = [event.kind for event in execution.events]
    if kinds[0] != "WorkflowExecutionStarted" or kinds.count("WorkflowExecutionStarted") > 1:
        yield f"{kinds[:3]}"
    if any(kind in CLOSING for kind in kinds[:-1]):
        yield f"{kinds[-3:]}"


@prop(HISTORY)
def histories_have_room(execution: Any) -> Found:
    """No history comes near to what Temporal lets it have."""
    if len(execution.events) > MAX_EVENTS // 2:
        yield f"{len(execution.events)} events"


@prop(HISTORY)
def a_timer_ends_once(execution: Any) -> Found:
    """Each timer fires or is cancelled once, after it was started."""
    started: set[int] = set()
    ended: set[int] = set()
    for event in execution.events:
        if event.kind == "TimerStarted":
            started.add(event.data["seq"])
        elif event.kind in ("TimerFired", "TimerCanceled"):
            seq = event.data["seq"]
            if seq not in started or seq in ended:
                yield f"timer {seq} at event {event.event_id}"
            ended.add(seq)


@prop(HISTORY)
def an_activity_ends_once(execution: Any) -> Found:
    """Each activity ends once, after it was scheduled."""
    scheduled: set[int] = set()
    for event in execution.events:
        if event.kind == "ActivityTaskScheduled":
            scheduled.add(event.data["seq"])
        elif event.kind in ENDS_OF_ACTIVITIES:
            if event.data["seq"] not in scheduled:
                yield f"activity {event.data['seq']} at event {event.event_id}"
            scheduled.discard(event.data["seq"])


@prop(HISTORY)
def activities_of_an_execution_are_told_apart(execution: Any) -> Found:
    """No two activities of tasks in one history have one id: a try is made once."""
    ids = Counter(
        event.data["activity"].activity_id
        for event in execution.events
        if event.kind == "ActivityTaskScheduled" and "/" in event.data["activity"].activity_id
    )
    for activity_id, n in ids.items():
        if n > 1:
            yield f"{activity_id}: {n}"


@prop(HISTORY)
def little_is_pending(execution: Any) -> Found:
    """No workflow has more activities and children pending than Temporal takes."""
    pending = 0
    for event in execution.events:
        pending += event.kind in ("ActivityTaskScheduled", "StartChildWorkflowExecutionInitiated")
        pending -= event.kind in ENDS_OF_ACTIVITIES or event.kind in ENDS_OF_CHILDREN
        if pending > MAX_PENDING:
            yield f"{pending} at event {event.event_id}"
            return


@prop(HISTORY)
def a_step_asks_for_little(execution: Any) -> Found:
    """No workflow task asks for so much that Temporal would end the workflow."""
    asked = 0
    for event in execution.events:
        if event.kind == "WorkflowTaskCompleted":
            asked = 0
        asked += event.kind in ("ActivityTaskScheduled", "StartChildWorkflowExecutionInitiated",
                                "SignalExternalWorkflowExecutionInitiated", "TimerStarted")  # fmt: skip
        if asked > MAX_COMMANDS:
            yield f"{asked} commands before event {event.event_id}"
            return


@prop(HISTORY)
def a_patch_is_marked_once(execution: Any) -> Found:
    """Each patch is marked once in a history."""
    for patch, n in Counter(e.data["patch"] for e in execution.events if e.kind == "MarkerRecorded").items():
        if n > 1:
            yield f"{patch}: {n}"


@prop(HISTORY)
def workflow_tasks_do_not_fail(execution: Any) -> Found:
    """A workflow task fails only because something new has come, a worker was lost, or somebody has reset it.

    Or because a worker of the last release has got a history with a path that is new.
    """
    for event in execution.events:
        if event.kind != "WorkflowTaskFailed" or event.data.get("by_last_release"):
            continue
        if event.data["cause"] not in EXPECTED_FAILURES:
            yield f"event {event.event_id}: {event.data['cause']}"


@prop(HISTORY)
def workflow_tasks_alternate(execution: Any) -> Found:
    """Each workflow task is scheduled, started and then completed, failed or timed out."""
    expected = {"WorkflowTaskScheduled"}
    following = {
        "WorkflowTaskScheduled": {"WorkflowTaskStarted", "WorkflowTaskTimedOut"},
        "WorkflowTaskStarted": {"WorkflowTaskCompleted", "WorkflowTaskFailed", "WorkflowTaskTimedOut"},
    }
    for event in execution.events:
        if event.kind.startswith("WorkflowTask"):
            if event.kind not in expected:
                yield f"event {event.event_id}: {event.kind} and not {sorted(expected)}"
                return
            expected = following.get(event.kind, {"WorkflowTaskScheduled"})


@prop(HISTORY)
def runs_and_pools_outlive_their_parents(execution: Any) -> Found:
    """Runs, pools, assets and watchers are started so that the end of who starts them does not end them."""
    for event in execution.events:
        if event.kind == "StartChildWorkflowExecutionInitiated":
            child = event.data["child"]
            if child.kind in ("DagRun", "Pool", "Asset", "Watcher") and child.parent_close_policy != 2:
                yield f"{child.workflow_id}: {child.parent_close_policy}"


@prop(HISTORY)
def updates_are_answered(execution: Any) -> Found:
    """Each update that was taken on is answered before its execution ends, unless it is ended from outside."""
    open_: set[str] = set()
    for event in execution.events:
        if event.kind == "WorkflowExecutionUpdateAccepted":
            open_.add(event.data["update_id"])
        elif event.kind == "WorkflowExecutionUpdateCompleted":
            open_.discard(event.data["update_id"])
    if open_ and execution.events[-1].kind in ("WorkflowExecutionCompleted", "WorkflowExecutionContinuedAsNew"):
        yield f"{sorted(open_)}"


@prop(HISTORY)
def nothing_under_way_is_dropped(execution: Any) -> Found:
    """A workflow that goes on as new, or ends by itself, has no activity under way that does a task's work."""
    if execution.events[-1].kind not in ("WorkflowExecutionCompleted", "WorkflowExecutionContinuedAsNew"):
        return
    pending: dict[int, str] = {}
    questions: set[int] = set()
    for event in execution.events:
        if event.kind == "ActivityTaskScheduled":
            pending[event.data["seq"]] = event.data["activity"].kind
            if event.data["activity"].activity_id.isdigit():
                questions.add(event.data["seq"])
        elif event.kind in ENDS_OF_ACTIVITIES:
            pending.pop(event.data["seq"], None)
        elif event.kind == "ActivityTaskCancelRequested" and event.data["seq"] in questions:
            pending.pop(event.data["seq"], None)  # nobody waits for the answer any more
    left = [kind for kind in pending.values() if kind not in ("tidemill.airflow_trigger", "tidemill.watch")]
    if left:
        yield f"{left}"


# All histories: `installation` has executions, value (of a payload), and limits


class Installation:
    """All executions of an installation, with what is read from them more than once."""

    def __init__(
        self,
        executions: Sequence[Any],
        value: Callable[[Any, Any], Any],
        slots: dict[str, int],
        parallelism: int | None,
    ) -> None:
        self.executions = executions
        self.value = value
        self.slots = slots
        """By pool, the most slots that it ever had."""
        self.parallelism = parallelism
        self._runs: dict[str, DagRunState] = {}
        self.deleted: set[str] = set()
        """Workflow ids of runs that people have deleted, and that may begin anew."""
        self.disturbed: set[str] = set()
        """Workflow ids of runs that somebody has ended or reset from outside."""
        self.disturbed_dags: set[str] = set()
        """DAGs whose workflow somebody has ended or reset: they begin without their memory."""
        self.forgets = True
        """Whether runs may be beyond their retention, so that nobody can know that they have been."""
        self.restored = False
        """Whether the store was replaced by an older copy of itself."""

    def of_kind(self, kind: str) -> list[Any]:
        return [execution for execution in self.executions if execution.kind == kind]

    def state_of(self, execution: Any) -> DagRunState:
        """What an execution of a run has begun with."""
        if execution.run_id not in self._runs:
            self._runs[execution.run_id] = self.value(execution.input[0], DagRunState)
        return self._runs[execution.run_id]

    def specs(self) -> dict[str, list[DagSpec]]:
        found: dict[str, list[DagSpec]] = defaultdict(list)
        for execution in self.of_kind("DagRun"):
            found[self.state_of(execution).run.dag_id].append(self.state_of(execution).spec)
        return found


def _spans(execution: Any, wanted: Callable[[str], int]) -> Iterable[tuple[int, int]]:
    """Changes of how many slots the activities of an execution take, by time."""
    pending: dict[int, int] = {}
    for event in execution.events:
        if event.kind == "ActivityTaskScheduled" and _is_work(event.data["activity"].activity_id):
            slots = wanted(event.data["activity"].activity_id)
            if slots:
                pending[event.data["seq"]] = slots
                yield event.at, slots
        elif event.kind in ENDS_OF_ACTIVITIES and event.data["seq"] in pending:
            yield event.at, -pending.pop(event.data["seq"])
    end = execution.events[-1]
    for slots in pending.values():
        yield end.at, -slots


def _is_work(activity_id: str) -> bool:
    """Whether an activity is a try of a task: what watches for it outside of a worker takes no slots."""
    return "/" in activity_id and not activity_id.endswith("/trigger")


def _most(changes: Iterable[tuple[int, int]]) -> int:
    level = most = 0
    for _, change in sorted(changes):
        level += change
        most = max(most, level)
    return most


def _task_id(activity_id: str) -> str:
    return activity_id.split("/")[0].split("[")[0]


def _undisturbed(installation: Installation) -> list[Any]:
    return [each for each in installation.of_kind("DagRun") if each.workflow_id not in installation.disturbed]


@prop(ALL)
def pools_hold_at_every_instant(installation: Installation) -> Found:
    """At no instant do tasks work in a pool that take more slots than it ever had."""
    for pool, most in installation.slots.items():
        changes: list[tuple[int, int]] = []
        for execution in _undisturbed(installation):
            spec = installation.state_of(execution).spec

            def slots(activity_id: str, spec: DagSpec = spec, pool: str = pool) -> int:
                task = spec.by_id.get(_task_id(activity_id))
                return task.pool_slots if task is not None and task.pool == pool else 0

            changes += _spans(execution, slots)
        if (found := _most(changes)) > most:
            yield f"{pool}: {found} of {most}"


@prop(ALL)
def limits_of_tasks_hold_at_every_instant(installation: Installation) -> Found:
    """At no instant do more instances of a task work over all runs than max_active_tis_per_dag."""
    limits: dict[tuple[str, str], int] = {}
    for dag_id, specs in installation.specs().items():
        for spec in specs:
            for task in spec.tasks:
                if task.max_active_tis_per_dag is not None:
                    key = (dag_id, task.task_id)
                    limits[key] = max(limits.get(key, 0), task.max_active_tis_per_dag)
    for (dag_id, task_id), most in limits.items():
        changes: list[tuple[int, int]] = []
        for execution in _undisturbed(installation):
            if installation.state_of(execution).run.dag_id == dag_id:
                changes += _spans(execution, lambda name, task_id=task_id: int(_task_id(name) == task_id))
        if (found := _most(changes)) > most:
            yield f"{dag_id}.{task_id}: {found} of {most}"


@prop(ALL)
def parallelism_holds_at_every_instant(installation: Installation) -> Found:
    """At no instant do more tasks work in the whole installation than its limit."""
    if installation.parallelism is None:
        return
    changes: list[tuple[int, int]] = []
    for execution in _undisturbed(installation):
        changes += _spans(execution, lambda _: 1)
    if (found := _most(changes)) > installation.parallelism:
        yield f"{found} of {installation.parallelism}"


@prop(ALL)
def runs_of_a_dag_keep_to_its_limit(installation: Installation) -> Found:
    """At no instant do more scheduled runs of a DAG go on than max_active_runs."""
    by_dag: dict[str, list[tuple[int, int]]] = defaultdict(list)
    limits: dict[str, int] = {}
    revised: set[str] = set()
    for execution in _undisturbed(installation):
        state = installation.state_of(execution)
        if state.revision is not None or execution.continued_from in revised:
            revised.add(execution.run_id)  # a run under way may wait for it
        limits[state.run.dag_id] = max(limits.get(state.run.dag_id, 0), state.spec.max_active_runs)
        lost = state.run.dag_id in installation.disturbed_dags
        if state.run.run_type is RunType.SCHEDULED and execution.run_id not in revised and not lost:
            told = [e.at for e in execution.events if _reports_end(e)]
            end = told[-1] if told else execution.events[-1].at
            by_dag[state.run.dag_id] += [(execution.events[0].at, 1), (end, -1)]
    for dag_id, changes in by_dag.items():
        if (found := _most(changes)) > limits[dag_id] and not installation.restored:
            yield f"{dag_id}: {found} of {limits[dag_id]}"


def _reports_end(event: Any) -> bool:
    return event.kind == "SignalExternalWorkflowExecutionInitiated" and event.data["name"] == "run_finished"


@prop(ALL)
def a_run_is_created_once(installation: Installation) -> Found:
    """Each run is begun once; begun again only by a person's change, or after it was deleted."""
    begun: Counter[str] = Counter()
    for execution in installation.of_kind("DagRun"):
        fresh = execution.continued_from is None and execution.reset_from is None
        state = installation.state_of(execution)
        if fresh and state.revision is None and state.run.run_type is not RunType.BACKFILL:
            begun[execution.workflow_id] += 1
    for workflow_id, n in begun.items():
        lost = workflow_id.split(":")[1] in installation.disturbed_dags
        forgotten = installation.restored or (lost and installation.forgets)
        if n > 1 and workflow_id not in installation.deleted and not forgotten:
            yield f"{workflow_id}: {n} times"


@prop(ALL)
def a_run_has_the_workflow_of_its_date(installation: Installation) -> Found:
    """A run's workflow id is made of its DAG and its date, or its run_id where it has none."""
    for execution in installation.of_kind("DagRun"):
        if installation.state_of(execution).run.workflow_id != execution.workflow_id:
            yield execution.workflow_id


@prop(ALL)
def no_run_begins_before_its_time(installation: Installation) -> Found:
    """No workflow of a run begins before its run_after."""
    from dst.clock import microseconds

    for execution in installation.of_kind("DagRun"):
        run = installation.state_of(execution).run
        if execution.events[0].at < microseconds(run.run_after):
            yield f"{run.run_id} at {execution.events[0].at}"


@prop(ALL)
def an_event_makes_one_run(installation: Installation) -> Found:
    """No event of an asset is taken by two runs of one DAG, unless somebody has had the DAG forget, as by a reset."""
    taken: dict[tuple[str, str], str] = {}
    for execution in installation.of_kind("DagRun"):
        run = installation.state_of(execution).run
        if run.run_type is not RunType.ASSET_TRIGGERED or run.partition_key is not None or installation.restored:
            continue
        if run.dag_id in installation.disturbed_dags:
            continue
        for event in run.asset_events:
            before = taken.setdefault((run.dag_id, event.cause), run.run_id)
            if before != run.run_id:
                yield f"{event.cause} by {before} and {run.run_id}"


@prop(ALL)
def a_run_says_its_end_once(installation: Installation) -> Found:
    """Each execution of a run tells its DAG of its end at most once, as the last that it does."""
    for execution in installation.of_kind("DagRun"):
        told = [event for event in execution.events if _reports_end(event)]
        if len(told) > 1 and not execution.reset_from:
            yield f"{execution.workflow_id}: {len(told)} times"


@prop(ALL)
def one_execution_runs_at_a_time(installation: Installation) -> Found:
    """No two executions of one workflow go on at the same time."""
    running: dict[str, str] = {}
    for execution in installation.executions:
        if execution.events[-1].kind not in CLOSING:
            if execution.workflow_id in running:
                yield f"{execution.workflow_id}: {running[execution.workflow_id]} and {execution.run_id}"
            running[execution.workflow_id] = execution.run_id


@prop(ALL)
def continue_as_new_carries_the_state(installation: Installation) -> Found:
    """An execution begins with what the one before has left it."""
    left = {
        execution.run_id: execution.events[-1].data["input"]
        for execution in installation.executions
        if execution.events[-1].kind == "WorkflowExecutionContinuedAsNew"
    }
    for execution in installation.executions:
        before = left.get(execution.continued_from or "")
        if before is not None and [p.data for p in before] != [p.data for p in execution.input]:
            yield execution.workflow_id
