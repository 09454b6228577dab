"""A workflow as a worker holds it in its cache: the SDK's own instance, driven through its activations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, timedelta
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import WorkflowCommand
from temporalio.common import MetricMeter, Priority, TypedSearchAttributes
from temporalio.converter import DefaultFailureConverter
from temporalio.worker._workflow_instance import UnsandboxedWorkflowRunner, WorkflowInstanceDetails

from .clock import instant
from .core import Machines
from .history import Execution, Step
from .releases import Release

LOOP = asyncio.new_event_loop()
"""Only there while instances are made: each is a loop of its own."""
EXTERN_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "__temporal_get_metric_meter": lambda: MetricMeter.noop,
    "__temporal_assert_local_activity_valid": lambda _: None,
}


class NondeterminismError(Exception):
    """A replay has answered with other commands than the first time."""


class TaskFailedError(Exception):
    """The workflow's code has failed its workflow task. The message is what it has raised."""


class Instance:
    """One execution in the memory of one worker."""

    def __init__(
        self,
        execution: Execution,
        release: Release,
    ) -> None:
        self.release = release
        self._execution = execution
        self._machines = Machines()
        self._dead = False
        self.steps = 0
        """How many workflow tasks it has gone through."""
        self.is_ahead = False
        """Whether it has answered a workflow task, and the service has not taken the answer."""
        asyncio._set_running_loop(LOOP)
        try:
            self._instance = UnsandboxedWorkflowRunner().create_instance(_details(execution, release))
        finally:
            asyncio._set_running_loop(None)

    @property
    def object(self) -> Any:
        """The workflow object; None before its first workflow task."""
        return self._instance._object  # type: ignore[attr-defined]

    @property
    def implementation(self) -> Any:
        """The SDK's own object, a loop of its own."""
        return self._instance

    def replay(self, steps: Sequence[Step]) -> None:
        """Brings the workflow to where *steps* have brought it before. Raises NondeterminismError."""
        for step in steps:
            answered, _ = self._answer(step, replaying=True)
            outline = tuple(map(outline_of, answered))
            held_to = tuple(one for one in step.outline if one in outline or one not in step.may_lack)
            if outline != held_to:
                raise NondeterminismError(difference(self._execution, step, outline))
            if (
                step.strict
                and step.by_last_release == self.release.is_last
                and tuple(map(serialized, answered)) != step.commands
            ):
                raise NondeterminismError(content_difference(self._execution, step, answered))
            self.steps += 1

    def answer(self, step: Step) -> list[WorkflowCommand]:
        """The commands by which the workflow answers *step*, which keeps them. Raises TaskFailedError."""
        self.is_ahead = True
        commands, flags = self._answer(step, replaying=False)
        step.commands = tuple(map(serialized, commands))
        step.outline = tuple(map(outline_of, commands))
        markers = [c.set_patch_marker for c in commands if c.HasField("set_patch_marker")]
        step.patches = tuple(marker.patch_id for marker in markers)
        step.has_new_patch = any(not marker.deprecated for marker in markers)
        step.may_lack = frozenset(outline_of(c) for c in commands if c.set_patch_marker.deprecated)
        step.flags = tuple(flags)
        step.by_last_release = self.release.is_last
        return commands

    def query(self, name: str, arguments: Sequence[Payload]) -> tuple[Payload | None, Failure | None]:
        """What the workflow answers to a query."""
        job = WorkflowActivationJob()
        job.query_workflow.query_id, job.query_workflow.query_type = "q", name
        job.query_workflow.arguments.extend(arguments)
        last = self._execution.steps[self.steps - 1]
        completion = self._activate([job], last, replaying=True)
        for command in completion.successful.commands:
            if command.HasField("respond_to_query"):
                answer = command.respond_to_query
                return (answer.succeeded.response, None) if answer.HasField("succeeded") else (None, answer.failed)
        return None, completion.failed.failure

    def evict(self) -> None:
        """Ends the coroutines of the workflow."""
        if self._dead:
            return
        self._dead = True
        activation = WorkflowActivation(run_id=self._execution.run_id)
        activation.jobs.add().remove_from_cache.SetInParent()
        self._instance.activate(activation)

    def _answer(self, step: Step, *, replaying: bool) -> tuple[list[WorkflowCommand], list[int]]:
        jobs = [*_patches(step), *self._machines.wanted(step.jobs)] if replaying else self._machines.wanted(step.jobs)
        out: list[WorkflowCommand] = []
        flags: list[int] = []
        while True:
            completion = self._activate(jobs, step, replaying=replaying)
            if completion.HasField("failed"):
                raise TaskFailedError(completion.failed.failure.message)
            flags += completion.successful.used_internal_flags
            jobs = self._machines.take(completion.successful.commands, out)
            if not jobs:
                return self._machines.sent(out), flags

    def _activate(self, jobs: Sequence[WorkflowActivationJob], step: Step, *, replaying: bool) -> Any:
        activation = WorkflowActivation(
            run_id=self._execution.run_id,
            is_replaying=replaying,
            history_length=step.length,
            history_size_bytes=100 * step.length,
            continue_as_new_suggested=step.suggests_continue_as_new,
            jobs=jobs,
        )
        activation.timestamp.FromDatetime(instant(step.at))
        activation.available_internal_flags.extend(step.flags)
        return self._instance.activate(activation)


def _patches(step: Step) -> list[WorkflowActivationJob]:
    jobs = []
    for patch in step.patches:
        job = WorkflowActivationJob()
        job.notify_has_patch.patch_id = patch
        jobs.append(job)
    return jobs


def serialized(command: WorkflowCommand) -> bytes:
    return command.SerializeToString(deterministic=True)


def outline_of(command: WorkflowCommand) -> str:
    """What of a command a replay is held to by the SDK: its kind, and the name of what it asks for."""
    kind = command.WhichOneof("variant") or ""
    match kind:
        case "schedule_activity":
            return f"{kind} {command.schedule_activity.activity_type} {command.schedule_activity.activity_id}"
        case "start_child_workflow_execution":
            child = command.start_child_workflow_execution
            return f"{kind} {child.workflow_type} {child.workflow_id}"
        case "signal_external_workflow_execution":
            signal = command.signal_external_workflow_execution
            return f"{kind} {signal.signal_name} {signal.workflow_execution.workflow_id}"
        case "set_patch_marker":
            return f"{kind} {command.set_patch_marker.patch_id}"
        case _:
            return kind


def difference(execution: Execution, step: Step, found: Sequence[str]) -> str:
    return (
        f"{execution.workflow_id} ({execution.run_id[:8]}), workflow task at event {step.started_id}: "
        f"first {list(step.outline)}, on replay {list(found)}"
    )


def content_difference(execution: Execution, step: Step, found: Sequence[WorkflowCommand]) -> str:
    for before, command in zip(step.commands, found, strict=True):
        if serialized(command) != before:
            first = WorkflowCommand.FromString(before)
            return (
                f"{execution.workflow_id}, workflow task at event {step.started_id}, {outline_of(command)} has other "
                f"content on replay: {first} and then {command}"
            )
    return ""


def _details(execution: Execution, release: Release) -> WorkflowInstanceDetails:
    return WorkflowInstanceDetails(
        payload_converter_factory=release.converter.payload_converter_class,
        failure_converter_class=DefaultFailureConverter,
        interceptor_classes=release.interceptors,
        defn=workflow._Definition.must_from_class(release.workflows[execution.kind]),
        info=_info(execution),
        randomness_seed=int(execution.run_id[:8], 16),
        extern_functions=EXTERN_FUNCTIONS,
        disable_eager_activity_execution=True,
        worker_level_failure_exception_types=[],
        patch_activation_callback=None,
        last_completion_result=Payloads(),
        last_failure=None,
    )


def _info(execution: Execution) -> workflow.Info:
    parent = None
    if execution.parent is not None:
        workflow_id, run_id, _ = execution.parent
        parent = workflow.ParentInfo(namespace="default", run_id=run_id, workflow_id=workflow_id)
    return workflow.Info(
        attempt=1,
        continued_run_id=execution.continued_from,
        cron_schedule=None,
        execution_timeout=None,
        first_execution_run_id=execution.first_run_id,
        headers={},
        namespace="default",
        original_execution_run_id=execution.original_run_id,
        parent=parent,
        root=None,
        priority=Priority.default,
        raw_memo=dict(execution.started_memo),  # the SDK changes it in place
        retry_policy=None,
        run_id=execution.run_id,
        run_timeout=None,
        search_attributes={},
        start_time=instant(execution.started_at).replace(tzinfo=UTC),
        task_queue=execution.task_queue,
        task_timeout=timedelta(seconds=10),
        typed_search_attributes=TypedSearchAttributes.empty,
        workflow_id=execution.workflow_id,
        workflow_start_time=instant(execution.started_at),
        workflow_type=execution.kind,
    )
