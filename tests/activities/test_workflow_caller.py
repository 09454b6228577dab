"""A DAG is asked and told by its id, and asked again where it is busy."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support import Stack, dag, empty
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from tidemill.activities.calling import query
from tidemill.activities.dag_handle import DagHandle, DagNotFoundError, TriggerRefusedError
from tidemill.activities.workflow_caller import WorkflowCaller, is_busy
from tidemill.model.interfaces.run import RunInterface
from tidemill.model.run.identity import dag_workflow_id
from tidemill.model.run.messages import XComQuestion
from tidemill.worker.service.connection import EndedError


def test_what_is_busy_may_answer_later() -> None:
    assert is_busy(RPCError("full", RPCStatusCode.RESOURCE_EXHAUSTED, b""))
    assert not is_busy(RPCError("gone", RPCStatusCode.NOT_FOUND, b""))
    assert not is_busy(ValueError("no"))


async def test_a_dag_is_asked_and_told_by_its_id(here: Stack) -> None:
    asking = WorkflowCaller(here.tidemill.client, timedelta(seconds=60))
    await here.tidemill.dags.register(dag("known", [empty("a")]))
    known, unknown = DagHandle(asking, "known"), DagHandle(asking, "unknown")
    await known.trigger({"run_id": "one", "logical_date": "2026-01-01T00:00:00Z"})
    await known.trigger({"run_id": "one", "logical_date": "2026-01-01T00:00:00Z"})  # nobody heard the first answer
    assert [run.run_id for run in await known.runs()] == ["one"]
    with pytest.raises(TriggerRefusedError, match="2026-01-01"):
        await known.trigger({"run_id": "two", "logical_date": "2026-01-01T00:00:00Z"})
    with pytest.raises(TriggerRefusedError, match="logical_date"):
        await known.trigger({"run_id": "two", "logical_date": "some day"})
    assert await known.run("two") is None
    with pytest.raises(DagNotFoundError, match="'unknown' is not registered"):
        await unknown.runs()


async def test_a_dag_whose_workflow_was_ended_answers_as_it_was(here: Stack) -> None:
    """Its runs go on, and ask for it; it is registered anew in a moment. A person is told that it has ended."""
    await here.tidemill.dags.register(dag("ended", [empty("a")]))
    run = await here.tidemill.runs.trigger("ended")
    await here.tidemill.client.get_workflow_handle(dag_workflow_id("ended")).terminate()
    ended = DagHandle(WorkflowCaller(here.tidemill.client), "ended")
    assert [view.run_id for view in await ended.runs()] == [run.run_id]
    with pytest.raises(EndedError, match="'ended' has been ended"):
        await here.tidemill.dags.describe("ended")


async def test_a_question_that_a_worker_has_dropped_is_asked_again() -> None:
    """As by one that makes room in its cache. A second silence is told."""
    asked: list[timedelta] = []

    class Handle:
        def __init__(self, silent: int) -> None:
            self.silent = silent

        async def query(self, _: str, *, rpc_timeout: timedelta, **__: Any) -> dict[str, Any]:
            asked.append(rpc_timeout)
            if len(asked) <= self.silent:
                raise RPCError("Timeout expired", RPCStatusCode.CANCELLED, b"")
            return {}

    call, within = RunInterface.xcom(XComQuestion(task_id="a", key="b")), timedelta(seconds=10)
    assert await query(cast(Any, Handle(1)), call, rpc_timeout=within) == {}
    assert asked == [timedelta(seconds=5)] * 2, "in the time that one question had"
    with pytest.raises(RPCError, match="Timeout expired"):
        await query(cast(Any, Handle(9)), call, rpc_timeout=within)


async def test_who_asks_the_same_at_a_time_shares_the_answer() -> None:
    """Also where the question is a model: the service holds one query for a workflow that is busy."""
    asked: list[str] = []

    class Handle:
        async def query(self, name: str, **_: Any) -> dict[str, Any]:
            asked.append(name)
            await asyncio.sleep(0.05)
            return {}

    client = cast(Client, SimpleNamespace(get_workflow_handle=lambda _: Handle()))
    caller = WorkflowCaller(client)
    calls = [RunInterface.xcom(XComQuestion(task_id="a", key="b")) for _ in range(20)]
    await asyncio.gather(*(caller.query("run", call) for call in calls))
    assert len(asked) == 2, "one at once, and one for all who came while that was asked"
