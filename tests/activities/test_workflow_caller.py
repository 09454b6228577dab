"""A DAG is asked and told by its id, and asked again where it is busy."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support import Stack, dag, empty
from temporalio.service import RPCError, RPCStatusCode
from tidemill.activities.dag_handle import DagHandle, DagNotFoundError, TriggerRefusedError
from tidemill.activities.workflow_caller import WorkflowCaller, is_busy


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
