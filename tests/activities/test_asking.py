"""Questions that many ask at a time are asked once, and no answer is older than its question."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from support import Stack, dag, empty
from temporalio.service import RPCError, RPCStatusCode
from tidemill.activities.asking import Asking, Shared, is_busy
from tidemill.activities.dag_handle import DagHandle, DagNotFoundError, TriggerRefusedError


class Counted:
    """Work that takes as long as it is let, and answers with how often it has begun."""

    def __init__(self) -> None:
        self.begun = 0
        self.go_on = asyncio.Event()

    async def __call__(self) -> int:
        self.begun += 1
        number = self.begun
        await self.go_on.wait()
        return number


async def test_who_asks_while_a_question_is_under_way_shares_the_next_one() -> None:
    shared, work = Shared(), Counted()
    first = asyncio.create_task(shared.done("a", work))
    while not work.begun:
        await asyncio.sleep(0)
    late = [asyncio.create_task(shared.done("a", work)) for _ in range(20)]
    other = asyncio.create_task(shared.done("b", work))
    await asyncio.sleep(0)
    late[0].cancel()  # the others still want to know
    work.go_on.set()
    assert await first == 1
    assert await other == 2
    assert await asyncio.gather(*late[1:]) == [3] * 19
    assert work.begun == 3


async def test_a_failure_is_everybodys_and_not_kept() -> None:
    shared = Shared()

    async def fails() -> int:
        raise ValueError("no")

    async def works() -> int:
        return 1

    results = await asyncio.gather(*(shared.done("a", fails) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [ValueError] * 3
    assert await shared.done("a", works) == 1


def test_what_is_busy_may_answer_later() -> None:
    assert is_busy(RPCError("full", RPCStatusCode.RESOURCE_EXHAUSTED, b""))
    assert not is_busy(RPCError("gone", RPCStatusCode.NOT_FOUND, b""))
    assert not is_busy(ValueError("no"))


async def test_a_dag_is_asked_and_told_by_its_id(here: Stack) -> None:
    asking = Asking(here.tidemill.client, timedelta(seconds=60))
    await here.tidemill.register(dag("known", [empty("a")]))
    known, unknown = DagHandle(asking, "known"), DagHandle(asking, "unknown")
    await known.trigger({"run_id": "one", "logical_date": "2026-01-01T00:00:00Z"})
    await known.trigger({"run_id": "one", "logical_date": "2026-01-01T00:00:00Z"})  # nobody heard the first answer
    assert [run.run_id for run in await known.runs()] == ["one"]
    with pytest.raises(TriggerRefusedError, match="2026-01-01"):
        await known.trigger({"run_id": "two", "logical_date": "2026-01-01T00:00:00Z"})
    assert await known.run("two") is None
    with pytest.raises(DagNotFoundError, match="'unknown' is not registered"):
        await unknown.runs()
