"""A model of Temporal's service: executions, their histories, and every rule by which events get there.

It is plain data and one queue, reads no clock and draws nothing by itself; whoever owns it gives it the time, a delay
for each step, and workers. `docs/properties.md` says what it leaves out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.workflow_activation import WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import WorkflowCommand

from . import failures
from .clock import SECOND, Agenda
from .history import Activity, Child, Event, Execution, PendingUpdate, Status, Step
from .jobs import TERMINAL, done_update, job_of

TASK_TIMEOUT = 10 * SECOND
ABANDON, TERMINATE, REQUEST_CANCEL = 2, 1, 3
REJECT_DUPLICATE = 3
LONGEST = 3650 * 86_400 * SECOND
"""A timeout of so long is none."""


class Host(Protocol):
    """Who polls the service, and waits for its answers."""

    def offer_workflow_task(self, run_id: str, token: int) -> None: ...

    def offer_activity(self, run_id: str, scheduled_id: int, attempt: int) -> None: ...

    def activity_cancel_requested(self, activity: Activity) -> None: ...

    def update_answered(self, update_id: str, result: Payload | None, failure: Failure | None) -> None: ...

    def delay(self) -> int: ...

    def new_id(self) -> str: ...

    def recorded(self, execution: Execution, event: Event) -> None: ...

    def suggests(self) -> bool: ...


@dataclass
class Service:
    """The service of one namespace."""

    host: Host
    suggests_from: int = 4096
    """From how many events on it may be suggested to continue as new; `Host.suggests` says when."""
    retention: int = 10 * 365 * 86_400 * SECOND
    now: int = 0
    agenda: Agenda = field(default_factory=Agenda)
    executions: dict[str, Execution] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)
    """By workflow id, the run id of the newest execution."""

    def copied(self) -> Service:
        """This service as a store keeps it that is restored later."""
        host, self.host = self.host, None  # type: ignore[assignment]
        try:
            made = copy.deepcopy(self)
        finally:
            self.host = host
        made.host = host
        return made

    # Time

    def work_until(self, now: int) -> None:
        """Does the next thing that is due at *now*, if there is one."""
        self.now = max(self.now, now)
        name, arguments = self.agenda.pop()
        handler: Callable[..., None] = getattr(self, f"on_{name}")
        handler(*arguments)

    def _soon(self, name: str, *arguments: Any) -> None:
        self.agenda.add(self.now + self.host.delay(), name, *arguments)

    def _at_another(self, name: str, *arguments: Any) -> None:
        """Does something at another execution: a queue, and a call from it."""
        self.agenda.add(self.now + self.host.delay() + self.host.delay(), name, *arguments)

    # What clients do

    def find(self, workflow_id: str) -> Execution | None:
        """The newest execution of *workflow_id*; None where there is none, or retention has taken it."""
        run_id = self.current.get(workflow_id)
        found = self.executions.get(run_id) if run_id is not None else None
        if found is not None and found.closed_at is not None and found.closed_at + self.retention < self.now:
            return None
        return found

    def open(self, workflow_id: str) -> Execution | None:
        """The running execution of *workflow_id*."""
        found = self.find(workflow_id)
        return found if found is not None and found.running else None

    def start(
        self,
        kind: str,
        workflow_id: str,
        arguments: Sequence[Payload],
        *,
        task_queue: str = "tidemill",
        memo: dict[str, Payload] | None = None,
        parent: tuple[str, str, int] | None = None,
        may_run_again: bool = True,
    ) -> Execution | None:
        """A new execution; None where the id is taken."""
        before = self.find(workflow_id)
        if before is not None and (before.running or not may_run_again):
            return None
        return self._begin(kind, workflow_id, list(arguments), task_queue, dict(memo or {}), parent=parent)

    def signal(self, workflow_id: str, name: str, arguments: Sequence[Payload]) -> bool:
        """Whether there is a running execution that hears of it."""
        found = self.open(workflow_id)
        if found is None:
            return False
        self._record(found, "WorkflowExecutionSignaled", name=name, input=list(arguments))
        return True

    def update(self, workflow_id: str, name: str, arguments: Sequence[Payload], update_id: str) -> bool:
        """Whether there is a running execution that will answer."""
        found = self.open(workflow_id)
        if found is None:
            return False
        found.updates[update_id] = PendingUpdate(update_id, name, list(arguments))
        self._schedule_task(found, speculative=True)
        return True

    def cancel(self, workflow_id: str) -> bool:
        found = self.open(workflow_id)
        if found is None or found.cancel_requested:
            return False
        found.cancel_requested = True
        self._record(found, "WorkflowExecutionCancelRequested")
        return True

    def terminate(self, workflow_id: str) -> bool:
        found = self.open(workflow_id)
        if found is None:
            return False
        if found.task == "started" and found.task_attempt == 1 and not found.speculative:
            self._append(found, "WorkflowTaskFailed", cause="ForceCloseCommand")
        self._flush(found)
        self._append(found, "WorkflowExecutionTerminated")
        self._close(found, Status.TERMINATED, None, failures.terminated())
        return True

    def reset(self, workflow_id: str, step: int) -> Execution | None:
        """Goes on from before the completion of workflow task *step* (from 0), as another execution."""
        base = self.find(workflow_id)
        if base is None or step >= len(base.steps):
            return None
        base.reset_to = self.host.new_id()
        if base.running:
            self.terminate(workflow_id)
        return self._reset(base, step, base.reset_to)

    # The life of an execution

    def _begin(
        self,
        kind: str,
        workflow_id: str,
        arguments: list[Payload],
        task_queue: str,
        memo: dict[str, Payload],
        *,
        parent: tuple[str, str, int] | None = None,
        continued_from: Execution | None = None,
    ) -> Execution:
        run_id = self.host.new_id()
        made = Execution(
            workflow_id=workflow_id,
            run_id=run_id,
            kind=kind,
            task_queue=task_queue,
            started_at=self.now,
            first_run_id=continued_from.first_run_id if continued_from is not None else run_id,
            original_run_id=run_id,
            input=arguments,
            memo=dict(memo),
            started_memo=memo,
            continued_from=continued_from.run_id if continued_from is not None else None,
            parent=parent,
        )
        self.executions[run_id] = made
        self.current[workflow_id] = run_id
        self._append(made, "WorkflowExecutionStarted")
        self._schedule_task(made)
        return made

    def _append(self, execution: Execution, kind: str, **data: Any) -> Event:
        event = Event(execution.next_id, self.now, kind, data)
        execution.events.append(event)
        self.host.recorded(execution, event)
        return event

    def _record(self, execution: Execution, kind: str, **data: Any) -> None:
        """Adds an event that a workflow task has to tell of; while one is under way, it waits for its end."""
        if not execution.running:
            return
        if execution.task == "started":
            execution.buffered.append((self.now, kind, data))
            return
        self._append(execution, kind, **data)
        self._schedule_task(execution)

    def _close(
        self, execution: Execution, status: Status, result: Payload | None = None, failure: Failure | None = None
    ) -> None:
        execution.status, execution.closed_at, execution.task = status, self.now, None
        for update in [*execution.updates.values()]:
            text = "workflow execution already completed"
            self.host.update_answered(update.update_id, None, failures.application(text, "Closed"))
        execution.updates.clear()
        if status is Status.CONTINUED_AS_NEW or execution.reset_to is not None:  # another has its parent and children
            return
        if execution.parent is not None:
            self._soon("child_closed", *execution.parent, execution.workflow_id, str(status), result, failure)
        for child in execution.children.values():
            self._soon("parent_closed", child.workflow_id, child.parent_close_policy)

    def on_parent_closed(self, workflow_id: str, policy: int) -> None:
        if policy == TERMINATE:
            self.terminate(workflow_id)
        elif policy == REQUEST_CANCEL:
            self.cancel(workflow_id)

    def _reset(self, base: Execution, step: int, run_id: str) -> Execution:
        """Copies the history up to the start of workflow task *step*, tells of what came later once more, and carries
        out what had not been answered then."""
        started_id = base.steps[step].started_id
        made = Execution(
            workflow_id=base.workflow_id,
            run_id=run_id,
            kind=base.kind,
            task_queue=base.task_queue,
            started_at=base.started_at,
            first_run_id=base.first_run_id,
            original_run_id=base.original_run_id,
            input=base.input,
            memo=dict(base.started_memo),
            started_memo=dict(base.started_memo),
            continued_from=base.continued_from,
            parent=base.parent,
            reset_from=base.run_id,
        )
        if base.suggested_at is not None and base.suggested_at < started_id:  # its history is as long
            made.suggested_at = base.suggested_at
        self.executions[made.run_id] = made
        self.current[made.workflow_id] = made.run_id
        made.steps = [copy.copy(each) for each in base.steps[:step]]
        for each in made.steps:
            each.strict = False
        for event in base.events[:started_id]:
            made.events.append(Event(event.event_id, event.at, event.kind, event.data))
            self._follow(made, event)
        made.seen = made.steps[-1].started_id if made.steps else 0
        self._append(made, "WorkflowTaskFailed", cause="ResetWorkflow")
        for event in base.events[started_id:]:
            if event.kind == "WorkflowExecutionSignaled" or _is_of_child(event, made.children):
                self._follow(made, self._append(made, event.kind, **event.data))
        self._schedule_task(made)
        self._go_on_with_pending(made)
        return made

    def _go_on_with_pending(self, made: Execution) -> None:
        """Carries out what the history of a reset execution asks for and does not answer."""
        for activity in made.activities.values():
            activity.scheduled_at, activity.attempt, activity.started_at = self.now, 1, None
            self._soon("activity_ready", made.run_id, activity.scheduled_id, 1)
        for seq, event_id in made.timers.items():
            due = made.events[event_id - 1].at + made.events[event_id - 1].data["duration"]
            self.agenda.add(max(due, self.now), "timer", made.run_id, seq, event_id)
        for initiated_id, child in made.children.items():
            if child.run_id is None:
                self._at_another("child_start", made.run_id, initiated_id)
        for initiated_id in made.signals:
            self._at_another("signal_out", made.run_id, initiated_id)

    def _follow(self, execution: Execution, event: Event) -> None:
        """Keeps what a copied event has made pending, or ended."""
        data = event.data
        match event.kind:
            case "TimerStarted":
                execution.timers[data["seq"]] = event.event_id
            case "TimerFired" | "TimerCanceled":
                execution.timers.pop(data["seq"], None)
            case "ActivityTaskScheduled":
                execution.activities[event.event_id] = copy.copy(data["activity"])
            case "ActivityTaskCompleted" | "ActivityTaskFailed" | "ActivityTaskTimedOut" | "ActivityTaskCanceled":
                execution.activities.pop(data["activity"].scheduled_id, None)
            case "StartChildWorkflowExecutionInitiated":
                execution.children[event.event_id] = replace(data["child"], run_id=None)
            case "ChildWorkflowExecutionStarted":
                execution.children[data["child"].initiated_id].run_id = data["run_id"]
            case "StartChildWorkflowExecutionFailed":
                execution.children.pop(data["child"].initiated_id, None)
            case kind if kind.startswith("ChildWorkflowExecution"):
                execution.children.pop(data["child"].initiated_id, None)
            case "SignalExternalWorkflowExecutionInitiated":
                execution.signals[event.event_id] = (data["seq"], data["workflow_id"])
            case "ExternalWorkflowExecutionSignaled" | "SignalExternalWorkflowExecutionFailed":
                execution.signals.pop(data["initiated_id"], None)
            case "WorkflowPropertiesModified":
                execution.memo.update(data["memo"])
            case "WorkflowExecutionUpdateAccepted":
                update = PendingUpdate(data["update_id"], data["name"], data["input"], accepted=True, delivered=True)
                execution.updates[update.update_id] = update
            case "WorkflowExecutionUpdateCompleted":
                execution.updates.pop(data["update_id"], None)
            case _:
                pass

    # Workflow tasks

    def _schedule_task(self, execution: Execution, *, speculative: bool = False) -> None:
        if not execution.running:
            return
        if execution.task is not None:
            if execution.speculative and not speculative and execution.task == "scheduled":
                execution.speculative = False
                if execution.task_attempt == 1:  # one that is tried again is in no history until it is answered
                    execution.task_scheduled_id = self._append(execution, "WorkflowTaskScheduled").event_id
            return
        execution.task, execution.speculative = "scheduled", speculative
        execution.task_token += 1
        if execution.task_attempt == 1 and not speculative:
            execution.task_scheduled_id = self._append(execution, "WorkflowTaskScheduled").event_id
        else:
            execution.task_scheduled_id = execution.next_id
        self._soon("task_ready", execution.run_id, execution.task_token)

    def on_task_ready(self, run_id: str, token: int) -> None:
        if self._task(run_id, token, "scheduled") is not None:
            self.host.offer_workflow_task(run_id, token)

    def _task(self, run_id: str, token: int, stage: str) -> Execution | None:
        found = self.executions.get(run_id)
        if found is None or not found.running or found.task_token != token or found.task != stage:
            return None
        return found

    def start_task(self, run_id: str, token: int, worker: int) -> tuple[Execution, Step] | None:
        """Gives a workflow task to *worker*: what it is told; None where there is no such task any more."""
        execution = self._task(run_id, token, "scheduled")
        if execution is None:
            return None
        in_history = execution.task_attempt == 1 and not execution.speculative
        if not in_history and execution.task_scheduled_id != execution.next_id:  # something has come since
            execution.task_attempt, execution.speculative, in_history = 1, False, True
            execution.task_scheduled_id = self._append(execution, "WorkflowTaskScheduled").event_id
        known = len(execution.events)
        started_id = (
            self._append(execution, "WorkflowTaskStarted").event_id if in_history else execution.task_scheduled_id + 1
        )
        execution.task, execution.sticky = "started", worker
        jobs = [job for event in execution.events[execution.seen : known] if (job := job_of(execution, event))]
        for update in execution.updates.values():
            if not update.accepted:
                update.delivered = True
                jobs.append(done_update(update))
        self.agenda.add(self.now + TASK_TIMEOUT, "task_timeout", run_id, token)
        if execution.suggested_at is None and started_id >= self.suggests_from and self.host.suggests():
            execution.suggested_at = started_id
        suggests = execution.suggested_at is not None
        return execution, Step(_in_order(jobs), self.now, started_id, suggests, started_id)

    def on_task_timeout(self, run_id: str, token: int) -> None:
        execution = self._task(run_id, token, "started")
        if execution is not None:
            self._task_failed(execution, "WorkflowTaskTimedOut")

    def fail_task(self, run_id: str, token: int, cause: str, **data: Any) -> None:
        """A worker could not carry out the task: there is another try, after a while."""
        execution = self._task(run_id, token, "started")
        if execution is not None:
            self._task_failed(execution, "WorkflowTaskFailed", cause=cause, **data)

    def _task_failed(self, execution: Execution, kind: str, **data: Any) -> None:
        in_history = execution.task_attempt == 1 and not execution.speculative
        if in_history:
            self._append(execution, kind, **data)
        attempts = execution.task_attempt
        execution.task, execution.speculative, execution.sticky = None, False, None
        for update in execution.updates.values():
            update.delivered = False
        execution.task_attempt = 1 if self._flush(execution) else attempts + 1
        if attempts <= 2 or data.get("cause") == "UnhandledCommand":
            self._schedule_task(execution)
        else:  # Temporal tries again less and less often
            pause = min(10 * 2 ** (attempts - 3), 600) * SECOND
            self.agenda.add(self.now + pause, "task_again", execution.run_id)

    def on_task_again(self, run_id: str) -> None:
        self._schedule_task(self.executions[run_id])

    def _flush(self, execution: Execution) -> bool:
        """Adds what has waited for the end of a workflow task. Whether there was anything."""
        waiting, execution.buffered = execution.buffered, []
        waiting.sort(key=lambda each: each[1] in _LAST)
        for _, kind, data in waiting:
            self._append(execution, kind, **data)
        return bool(waiting)

    def complete_task(self, run_id: str, token: int, step: Step, commands: Sequence[WorkflowCommand]) -> str:
        """Takes the answer of a worker: "done"; "nothing" where it leaves no trace; "refused" or "gone" where it
        does not count."""
        execution = self._task(run_id, token, "started")
        if execution is None:
            return "gone"
        closes = any(command.WhichOneof("variant") in TERMINAL for command in commands)
        news = execution.buffered or any(not update.delivered for update in execution.updates.values())
        if closes and news:
            self._task_failed(execution, "WorkflowTaskFailed", cause="UnhandledCommand")
            return "refused"
        if execution.speculative and _only_rejects(commands):
            self._answer_updates(execution, commands)
            execution.task, execution.speculative = None, False
            self._go_on(execution)
            return "nothing"
        if execution.task_attempt > 1 or execution.speculative:
            self._append(execution, "WorkflowTaskScheduled")
            self._append(execution, "WorkflowTaskStarted")
        execution.seen = len(execution.events)
        execution.task, execution.speculative, execution.task_attempt = None, False, 1
        step.strict = True
        execution.steps.append(step)
        self._append(execution, "WorkflowTaskCompleted")
        for command in commands:
            self._carry_out(execution, command)
            if not execution.running:
                return "done"
        self._go_on(execution)
        return "done"

    def _go_on(self, execution: Execution) -> None:
        """Has another workflow task, if there is something to tell."""
        flushed = self._flush(execution)
        news = any(job_of(execution, event) is not None for event in execution.events[execution.seen :])
        if flushed or news:
            self._schedule_task(execution)
        elif any(not update.delivered for update in execution.updates.values()):
            self._schedule_task(execution, speculative=True)

    def _answer_updates(self, execution: Execution, commands: Sequence[WorkflowCommand]) -> None:
        for command in commands:
            if command.HasField("update_response"):
                self._respond(execution, command)

    # Commands

    def _carry_out(self, execution: Execution, command: WorkflowCommand) -> None:
        kind = command.WhichOneof("variant")
        handler: Callable[[Execution, WorkflowCommand], None] = getattr(self, f"_do_{kind}")
        handler(execution, command)

    def _do_start_timer(self, execution: Execution, command: WorkflowCommand) -> None:
        timer = command.start_timer
        duration = max(timer.start_to_fire_timeout.ToMicroseconds(), 1)
        event = self._append(execution, "TimerStarted", seq=timer.seq, duration=duration)
        execution.timers[timer.seq] = event.event_id
        self.agenda.add(self.now + duration, "timer", execution.run_id, timer.seq, event.event_id)

    def _do_cancel_timer(self, execution: Execution, command: WorkflowCommand) -> None:
        seq = command.cancel_timer.seq
        fired = [each for each in execution.buffered if each[1] == "TimerFired" and each[2]["seq"] == seq]
        if execution.timers.pop(seq, None) is None and not fired:
            return
        execution.buffered = [each for each in execution.buffered if each not in fired]
        self._append(execution, "TimerCanceled", seq=seq)

    def on_timer(self, run_id: str, seq: int, event_id: int) -> None:
        execution = self.executions[run_id]
        if execution.running and execution.timers.get(seq) == event_id:
            del execution.timers[seq]
            self._record(execution, "TimerFired", seq=seq)

    def _do_schedule_activity(self, execution: Execution, command: WorkflowCommand) -> None:
        wanted = command.schedule_activity
        policy = wanted.retry_policy
        initial = policy.initial_interval.ToMicroseconds() or SECOND
        activity = Activity(
            scheduled_id=execution.next_id,
            seq=wanted.seq,
            activity_id=wanted.activity_id,
            kind=wanted.activity_type,
            task_queue=wanted.task_queue,
            input=list(wanted.arguments),
            start_to_close=wanted.start_to_close_timeout.ToMicroseconds(),
            heartbeat=wanted.heartbeat_timeout.ToMicroseconds() or None,
            initial_interval=initial,
            coefficient=policy.backoff_coefficient or 2.0,
            maximum_interval=policy.maximum_interval.ToMicroseconds() or 100 * initial,
            maximum_attempts=policy.maximum_attempts,
            cancellation=wanted.cancellation_type,
            scheduled_at=self.now,
        )
        event = self._append(execution, "ActivityTaskScheduled", seq=wanted.seq, activity=copy.copy(activity))
        execution.activities[event.event_id] = activity
        self._soon("activity_ready", execution.run_id, event.event_id, 1)

    def _do_request_cancel_activity(self, execution: Execution, command: WorkflowCommand) -> None:
        seq = command.request_cancel_activity.seq
        pending = next((each for each in execution.activities.values() if each.seq == seq), None)
        if pending is not None and pending.cancel_requested:
            return
        self._append(execution, "ActivityTaskCancelRequested", seq=seq)
        if pending is None:
            return
        pending.cancel_requested = True
        if pending.started_at is None:
            del execution.activities[pending.scheduled_id]
            self._append(execution, "ActivityTaskCanceled", seq=seq, activity=pending, failure=failures.canceled())
        else:
            self.host.activity_cancel_requested(pending)

    def _do_start_child_workflow_execution(self, execution: Execution, command: WorkflowCommand) -> None:
        wanted = command.start_child_workflow_execution
        child = Child(
            execution.next_id, wanted.seq, wanted.workflow_id, wanted.workflow_type, wanted.parent_close_policy
        )
        event = self._append(
            execution,
            "StartChildWorkflowExecutionInitiated",
            seq=wanted.seq,
            child=child,
            input=list(wanted.input),
            task_queue=wanted.task_queue,
            memo=dict(wanted.memo),
            may_run_again=wanted.workflow_id_reuse_policy != REJECT_DUPLICATE,
        )
        execution.children[event.event_id] = child
        self._at_another("child_start", execution.run_id, event.event_id)

    def on_child_start(self, run_id: str, initiated_id: int) -> None:
        parent = self.executions[run_id]
        child = parent.children.get(initiated_id)
        if child is None or (not parent.running and child.parent_close_policy != ABANDON):
            return
        wanted = parent.events[initiated_id - 1].data
        started = self.start(
            child.kind,
            child.workflow_id,
            wanted["input"],
            task_queue=wanted["task_queue"],
            memo=wanted["memo"],
            parent=(parent.workflow_id, run_id, initiated_id),
            may_run_again=wanted["may_run_again"],
        )
        if started is None:
            del parent.children[initiated_id]
            self._record(parent, "StartChildWorkflowExecutionFailed", seq=child.seq, child=child)
        else:
            child.run_id = started.run_id
            self._record(parent, "ChildWorkflowExecutionStarted", seq=child.seq, child=child, run_id=started.run_id)

    def on_child_closed(
        self,
        parent_id: str,
        run_id: str,
        initiated_id: int,
        workflow_id: str,
        status: str,
        result: Payload | None,
        failure: Failure | None,
    ) -> None:
        """Tells the parent, or what it has been reset to."""
        parent = self.executions[run_id]
        while parent.reset_to is not None:
            parent = self.executions[parent.reset_to]
        child = parent.children.get(initiated_id)
        if child is None or child.workflow_id != workflow_id or not parent.running:
            return
        if child.run_id is None:  # a reset parent has yet to start it
            self._soon("child_closed", parent_id, parent.run_id, initiated_id, workflow_id, status, result, failure)
            return
        del parent.children[initiated_id]
        kind = f"ChildWorkflowExecution{status}"
        self._record(parent, kind, seq=child.seq, child=child, result=result, failure=failure)

    def _do_cancel_child_workflow_execution(self, execution: Execution, command: WorkflowCommand) -> None:
        seq = command.cancel_child_workflow_execution.child_workflow_seq
        child = next((each for each in execution.children.values() if each.seq == seq), None)
        if child is not None:
            self._append(execution, "RequestCancelExternalWorkflowExecutionInitiated", workflow_id=child.workflow_id)
            self._at_another("cancel_child", execution.run_id, child.workflow_id)

    def on_cancel_child(self, run_id: str, workflow_id: str) -> None:
        self.cancel(workflow_id)
        self._record(self.executions[run_id], "ExternalWorkflowExecutionCancelRequested", workflow_id=workflow_id)

    def _do_signal_external_workflow_execution(self, execution: Execution, command: WorkflowCommand) -> None:
        wanted = command.signal_external_workflow_execution
        target = wanted.child_workflow_id or wanted.workflow_execution.workflow_id
        event = self._append(
            execution,
            "SignalExternalWorkflowExecutionInitiated",
            seq=wanted.seq,
            workflow_id=target,
            name=wanted.signal_name,
            input=list(wanted.args),
        )
        execution.signals[event.event_id] = (wanted.seq, target)
        self._at_another("signal_out", execution.run_id, event.event_id)

    def on_signal_out(self, run_id: str, initiated_id: int) -> None:
        source = self.executions[run_id]
        pending = source.signals.pop(initiated_id, None)
        if pending is None or not source.running:
            return
        seq, target = pending
        data = source.events[initiated_id - 1].data
        reached = self.signal(target, data["name"], data["input"])
        kind = "ExternalWorkflowExecutionSignaled" if reached else "SignalExternalWorkflowExecutionFailed"
        self._record(source, kind, seq=seq, workflow_id=target, initiated_id=initiated_id)

    def _do_set_patch_marker(self, execution: Execution, command: WorkflowCommand) -> None:
        self._append(execution, "MarkerRecorded", patch=command.set_patch_marker.patch_id)
        self._append(execution, "UpsertWorkflowSearchAttributes")

    def _do_modify_workflow_properties(self, execution: Execution, command: WorkflowCommand) -> None:
        memo = dict(command.modify_workflow_properties.upserted_memo.fields)
        execution.memo.update(memo)
        self._append(execution, "WorkflowPropertiesModified", memo=memo)

    def _do_upsert_workflow_search_attributes(self, execution: Execution, _: WorkflowCommand) -> None:
        self._append(execution, "UpsertWorkflowSearchAttributes")

    def _do_update_response(self, execution: Execution, command: WorkflowCommand) -> None:
        self._respond(execution, command)

    def _respond(self, execution: Execution, command: WorkflowCommand) -> None:
        response = command.update_response
        update = execution.updates.get(response.protocol_instance_id)
        if update is None:
            return
        kind = response.WhichOneof("response")
        if kind == "accepted":
            update.accepted = True
            data = {"update_id": update.update_id, "name": update.name, "input": update.arguments}
            self._append(execution, "WorkflowExecutionUpdateAccepted", **data)
            return
        del execution.updates[update.update_id]
        failure = response.rejected if kind == "rejected" else None
        result = response.completed if kind == "completed" else None
        if update.accepted:
            data = {"update_id": update.update_id, "result": result, "failure": failure}
            self._append(execution, "WorkflowExecutionUpdateCompleted", **data)
        self.host.update_answered(update.update_id, result, failure)

    def _do_complete_workflow_execution(self, execution: Execution, command: WorkflowCommand) -> None:
        result = command.complete_workflow_execution.result
        self._append(execution, "WorkflowExecutionCompleted", result=result)
        self._close(execution, Status.COMPLETED, result)

    def _do_fail_workflow_execution(self, execution: Execution, command: WorkflowCommand) -> None:
        failure = command.fail_workflow_execution.failure
        self._append(execution, "WorkflowExecutionFailed", failure=failure)
        self._close(execution, Status.FAILED, None, failure)

    def _do_cancel_workflow_execution(self, execution: Execution, _: WorkflowCommand) -> None:
        self._append(execution, "WorkflowExecutionCanceled")
        self._close(execution, Status.CANCELED, None, failures.canceled())

    def _do_continue_as_new_workflow_execution(self, execution: Execution, command: WorkflowCommand) -> None:
        wanted = command.continue_as_new_workflow_execution
        memo = dict(wanted.memo) or dict(execution.memo)
        self._append(execution, "WorkflowExecutionContinuedAsNew", input=list(wanted.arguments))
        self._close(execution, Status.CONTINUED_AS_NEW)
        self._begin(
            wanted.workflow_type or execution.kind,
            execution.workflow_id,
            list(wanted.arguments),
            wanted.task_queue or execution.task_queue,
            memo,
            parent=execution.parent,
            continued_from=execution,
        )

    # Activities

    def on_activity_ready(self, run_id: str, scheduled_id: int, attempt: int) -> None:
        if self._pending(run_id, scheduled_id, attempt) is not None:
            self.host.offer_activity(run_id, scheduled_id, attempt)

    def _pending(self, run_id: str, scheduled_id: int, attempt: int) -> Activity | None:
        execution = self.executions[run_id]
        found = execution.activities.get(scheduled_id) if execution.running else None
        return found if found is not None and found.attempt == attempt else None

    def start_activity(self, run_id: str, scheduled_id: int, attempt: int, worker: int) -> Activity | None:
        """Gives an activity to *worker*; None where nobody waits for it any more."""
        found = self._pending(run_id, scheduled_id, attempt)
        if found is None or found.started_at is not None:
            return None
        found.started_at, found.worker = self.now, worker
        if found.start_to_close < LONGEST:
            self.agenda.add(
                self.now + found.start_to_close, "activity_timeout", run_id, scheduled_id, attempt, "StartToClose"
            )
        return found

    def on_activity_timeout(self, run_id: str, scheduled_id: int, attempt: int, kind: str) -> None:
        """A started try of an activity is given up: its worker is silent, or takes too long."""
        found = self._pending(run_id, scheduled_id, attempt)
        if found is not None and found.started_at is not None:
            self._retry(run_id, found, failures.timed_out(kind), "ActivityTaskTimedOut", retryable=True)

    def complete_activity(self, run_id: str, scheduled_id: int, attempt: int, result: Payload | None) -> bool:
        """False where the try does not count any more."""
        found = self._pending(run_id, scheduled_id, attempt)
        if found is None or found.started_at is None:
            return False
        self._end(run_id, found, "ActivityTaskCompleted", result=result)
        return True

    def fail_activity(self, run_id: str, scheduled_id: int, attempt: int, failure: Failure) -> bool:
        found = self._pending(run_id, scheduled_id, attempt)
        if found is None or found.started_at is None:
            return False
        retryable = not failure.application_failure_info.non_retryable
        self._retry(run_id, found, failure, "ActivityTaskFailed", retryable=retryable)
        return True

    def acknowledge_cancel(self, run_id: str, scheduled_id: int, attempt: int) -> bool:
        found = self._pending(run_id, scheduled_id, attempt)
        if found is None or found.started_at is None or not found.cancel_requested:
            return False
        self._end(run_id, found, "ActivityTaskCanceled", failure=failures.canceled())
        return True

    def _retry(self, run_id: str, activity: Activity, failure: Failure, kind: str, *, retryable: bool) -> None:
        left = activity.maximum_attempts == 0 or activity.attempt < activity.maximum_attempts
        if not retryable or not left or activity.cancel_requested:
            self._end(run_id, activity, kind, failure=failure)
            return
        pause = min(
            int(activity.initial_interval * activity.coefficient ** min(activity.attempt - 1, 60)),
            activity.maximum_interval,
        )
        activity.attempt, activity.started_at, activity.worker = activity.attempt + 1, None, None
        self.agenda.add(self.now + pause, "activity_ready", run_id, activity.scheduled_id, activity.attempt)

    def _end(self, run_id: str, activity: Activity, kind: str, **data: Any) -> None:
        execution = self.executions[run_id]
        del execution.activities[activity.scheduled_id]
        started = {"at": activity.started_at, "attempt": activity.attempt, "activity": activity}
        if execution.task == "started":
            execution.buffered.append((self.now, "ActivityTaskStarted", started))
        else:
            self._append(execution, "ActivityTaskStarted", **started)
        self._record(execution, kind, seq=activity.seq, activity=activity, **data)


_LAST = frozenset(
    {
        "ActivityTaskCompleted",
        "ActivityTaskFailed",
        "ActivityTaskTimedOut",
        "ActivityTaskCanceled",
        "ChildWorkflowExecutionCompleted",
        "ChildWorkflowExecutionFailed",
        "ChildWorkflowExecutionCanceled",
        "ChildWorkflowExecutionTerminated",
    }
)
"""Events that come after all others of a buffer, so that none is before the start that it ends."""


def _is_of_child(event: Event, children: Mapping[int, Child]) -> bool:
    """Whether *event* tells of one of *children*: of its start, or of its end."""
    child: Child | None = event.data.get("child")
    return child is not None and event.kind != "StartChildWorkflowExecutionInitiated" and child.initiated_id in children


def _only_rejects(commands: Sequence[WorkflowCommand]) -> bool:
    return all(
        command.HasField("update_response") and command.update_response.HasField("rejected") for command in commands
    )


def _in_order(jobs: list[WorkflowActivationJob]) -> list[WorkflowActivationJob]:
    """As Core gives them: the start, a new seed, then signals and updates, then the rest."""
    first = {"initialize_workflow": 0, "update_random_seed": 1, "signal_workflow": 2, "do_update": 2}
    return sorted(jobs, key=lambda job: first.get(job.WhichOneof("variant") or "", 3))
