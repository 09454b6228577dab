"""The model of the service beside a real one: the same scripts, the same histories, event type by event type."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from support import at
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.converter import DataConverter
from temporalio.service import RPCError
from temporalio.worker import Worker

from dst.clock import SECOND, microseconds
from dst.history import Activity, Execution
from dst.releases import Release
from dst.scenarios import ACTIVITIES, SCENARIOS, Script, Steps
from dst.world import SimulatedWorker, World

BEAT = timedelta(seconds=0.2)
Histories = dict[str, list[list[str]]]


class OnServer:
    """A script's steps on a real server."""

    def __init__(self, client: Client, task_queue: str, prefix: str) -> None:
        self._client, self._queue, self._prefix = client, task_queue, prefix
        self._names: list[str] = []

    def _handle(self, name: str) -> Any:
        return self._client.get_workflow_handle(self._prefix + name)

    async def start(self, name: str, *steps: str) -> None:
        self._names.append(name)
        await self._client.start_workflow("Steps", list(steps), id=self._prefix + name, task_queue=self._queue)

    async def until(self, name: str, kind: str, n: int = 1) -> None:
        deadline = time.monotonic() + 60
        while (await self._kinds(name)).count(kind) < n:
            assert time.monotonic() < deadline, (kind, n, await self._kinds(name))
            await asyncio.sleep(0.02)

    async def _kinds(self, name: str, run_id: str | None = None) -> list[str]:
        handle = self._client.get_workflow_handle(self._prefix + name, run_id=run_id)
        return [_short(event.event_type) for event in (await handle.fetch_history()).events]

    async def end(self, name: str) -> None:
        while (
            found := await self._handle(name).describe()
        ).close_time is None or found.status.name == "CONTINUED_AS_NEW":
            await asyncio.sleep(0.02)

    async def signal(self, name: str) -> None:
        await self._handle(name).signal("signal")

    async def update(self, name: str, update: str) -> None:
        try:
            await self._handle(name).execute_update(update)
        except (WorkflowUpdateFailedError, RPCError):
            return

    async def terminate(self, name: str) -> None:
        await self._handle(name).terminate()

    async def cancel(self, name: str) -> None:
        await self._handle(name).cancel()

    async def reset(self, name: str, step: int) -> None:
        history = await self._handle(name).fetch_history()
        done = [e.event_id for e in history.events if _short(e.event_type) == "WorkflowTaskCompleted"]
        newest = await self._handle(name).describe()  # a history names the run that it was reset from
        execution = WorkflowExecution(workflow_id=self._prefix + name, run_id=newest.run_id)
        await self._client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace="default",
                workflow_execution=execution,
                reason="a test",
                workflow_task_finish_event_id=done[step],
                request_id=str(uuid.uuid4()),
            )
        )

    async def histories(self, expected: Histories) -> Histories:
        """By workflow, the event types of its executions, oldest first, when all have ended.

        Lists lag behind: as many are waited for as are *expected*, for a while.
        """
        deadline, found = time.monotonic() + 10, await self._histories()
        while {name: len(runs) for name, runs in found.items()} != {name: len(runs) for name, runs in expected.items()}:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.1)
            found = await self._histories()
        return found

    async def _histories(self) -> Histories:
        names = {*self._names, "b"}
        found: dict[str, list[tuple[Any, str]]] = {}
        for name in names:
            try:
                await asyncio.wait_for(self.end(name), 60)
            except RPCError:
                continue  # there is none of that name
            query = f"WorkflowId = '{self._prefix}{name}'"
            async for execution in self._client.list_workflows(query):
                found.setdefault(name, []).append((execution.start_time, execution.run_id))
        return {name: [await self._kinds(name, run_id) for _, run_id in sorted(runs)] for name, runs in found.items()}


class OnModel:
    """The same steps on the model."""

    def __init__(self) -> None:
        self._world = World(
            1,
            microseconds(at("2026-01-01")),
            releases=[Release(is_last=False, workflows={"Steps": Steps}, converter=DataConverter.default)],
            perform=_perform,
            workers=1,
        )
        self._world.delay = lambda: 3_000  # type: ignore[method-assign]

    def start(self, name: str, *steps: str) -> None:
        self._world.service.start("Steps", f"s/{name}", self._world.to_payloads(list(steps)))

    def until(self, name: str, kind: str, n: int = 1) -> None:
        end = self._world.now + 100 * SECOND
        while [event.kind for event in self._execution(name).events].count(kind) < n:
            assert self._world.now < end, (kind, n)
            self._world.run_until(self._world.now + 1_000)

    def _execution(self, name: str) -> Execution:
        found = self._world.service.find(f"s/{name}")
        assert found is not None
        return found

    def end(self, name: str) -> None:
        end = self._world.now + 1_000 * SECOND
        while self._execution(name).running:
            assert self._world.now < end, name
            self._world.run_until(self._world.now + 10_000)

    def signal(self, name: str) -> None:
        self._world.service.signal(f"s/{name}", "signal", [])

    def update(self, name: str, update: str) -> None:
        answers: list[int] = []
        found = self._world.update(f"s/{name}", update, answered=lambda *_: answers.append(1))
        while found and not answers:
            self._world.run_until(self._world.now + 10_000)

    def terminate(self, name: str) -> None:
        self._world.service.terminate(f"s/{name}")

    def cancel(self, name: str) -> None:
        self._world.service.cancel(f"s/{name}")

    def reset(self, name: str, step: int) -> None:
        self._world.service.reset(f"s/{name}", step)

    def histories(self) -> Histories:
        self._world.run_until(self._world.now + 1_000 * SECOND)
        assert not self._world.violations, self._world.violations
        found: Histories = {}
        for execution in self._world.service.executions.values():
            kinds = [event.kind for event in execution.events]
            found.setdefault(execution.workflow_id.removeprefix("s/"), []).append(kinds)
        return found


def _perform(world: World, worker: SimulatedWorker, execution: Execution, activity: Activity) -> None:
    """The activities of the scenarios, on the model."""
    key = (execution.run_id, activity.scheduled_id, activity.attempt)
    service = world.service

    def fail(*, for_good: bool) -> None:
        from dst.failures import application

        service.fail_activity(*key, application("no", "No", non_retryable=for_good))

    match activity.kind:
        case "works":
            [payload] = world.to_payloads(1)
            world.later(5_000, lambda: service.complete_activity(*key, payload) and None)
        case "fails" | "fails_for_good":
            world.later(5_000, lambda: fail(for_good=activity.kind == "fails_for_good"))
        case "lasts":
            worker.cancels[key] = lambda: service.acknowledge_cancel(*key) and None
        case _:
            if activity.heartbeat is not None:
                service.agenda.add(world.now + activity.heartbeat, "activity_timeout", *key, "Heartbeat")


def _short(kind: EventType.ValueType) -> str:
    return "".join(part.capitalize() for part in EventType.Name(kind).removeprefix("EVENT_TYPE_").split("_"))


async def on_server(service: OnServer, script: Script, expected: Histories) -> Histories:
    for step, *arguments in script:
        await getattr(service, step)(*arguments)
    return await service.histories(expected)


def on_model(script: Script) -> Histories:
    model = OnModel()
    for step, *arguments in script:
        getattr(model, step)(*arguments)
    return model.histories()


@pytest.fixture
async def scenario_worker(server: str) -> AsyncIterator[tuple[Client, str]]:
    client = await Client.connect(server)
    queue = f"scenarios-{uuid.uuid4().hex[:8]}"
    worker = Worker(
        client, task_queue=queue, workflows=[Steps], activities=ACTIVITIES,
        max_heartbeat_throttle_interval=BEAT, default_heartbeat_throttle_interval=BEAT,
    )  # fmt: skip
    async with worker:
        yield client, queue


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_model_writes_the_history_that_the_server_writes(
    name: str, scenario_worker: tuple[Client, str]
) -> None:
    client, queue = scenario_worker
    modelled = await asyncio.to_thread(on_model, SCENARIOS[name])  # its workflows are loops of their own
    real = await on_server(OnServer(client, queue, f"{uuid.uuid4().hex[:8]}/"), SCENARIOS[name], modelled)
    assert _as_text(modelled) == _as_text(real)


def _as_text(histories: Histories) -> list[str]:
    return [
        f"{name}{n}: {' '.join(kinds)}"
        for name, runs in sorted(histories.items())
        for n, kinds in enumerate(runs)
        if not name.startswith("_")
    ]


def test_histories_that_differ_are_told_apart() -> None:
    assert _as_text(on_model(SCENARIOS["a timer"])) != _as_text(on_model(SCENARIOS["an activity"]))
