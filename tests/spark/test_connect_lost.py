"""Spark Connect servers that end, are away, and close sessions under a task."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from spark_clusters import APPS, ON_DAY, spark_connect
from support import Stack, dag, eventually, stack
from tidemill.activities.work.connect import end_session
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.views import RunDetails
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import RunState
from tidemill.worker.app.dev import free_port

pytestmark = [pytest.mark.thorough, pytest.mark.spark]


@pytest.fixture
async def spark(server: str, spark_home: Path) -> Any:
    async with stack(server, spark_home) as made:
        yield made


def asks_twice(dag_id: str, master: str, folder: Path, last: str = "asks") -> DagSpec:
    task = {
        "kind": "spark_submit",
        "task_id": "ask",
        "application": str(APPS / "asks_twice.py"),
        "application_args": [str(folder / "asked"), str(folder / "go"), last],
        "spark": {"master": master},
        "retries": 0,
    }
    return dag(dag_id, [task])


async def begun(spark: Stack, spec: DagSpec) -> str:
    await spark.tidemill.dags.register(spec)
    return (await spark.tidemill.runs.trigger(spec.dag_id, TriggerRequest(**ON_DAY))).run_id


async def has_asked(folder: Path, times: int = 1) -> list[str]:
    """The sessions in which the task has asked."""

    async def look() -> list[str]:
        return (folder / "asked").read_text().split() if (folder / "asked").exists() else []

    return await eventually(look, lambda sessions: len(sessions) >= times)


async def ended(spark: Stack, dag_id: str, run_id: str) -> tuple[RunState, int, str | None]:
    details: RunDetails = await spark.finished(dag_id, run_id)
    return details.state, details.tasks[0].try_number, details.tasks[0].error


async def test_a_server_that_was_started_anew_costs_no_try(spark: Stack, spark_cache: Path, tmp_path: Path) -> None:
    """SPARK-45798, SPARK-49458: the session is gone, and the task begins again in another one."""
    port = free_port()
    with ExitStack() as second:
        with spark_connect(tmp_path / "first", spark_cache.parent, port=port) as (master, _):
            run_id = await begun(spark, asks_twice("server_anew", master, tmp_path))
            await has_asked(tmp_path)
        again = spark_connect(tmp_path / "second", spark_cache.parent, port=port)
        await asyncio.to_thread(second.enter_context, again)
        (tmp_path / "go").touch()
        assert await ended(spark, "server_anew", run_id) == (RunState.SUCCESS, 1, None)
        await has_asked(tmp_path, 2)


async def test_a_server_that_is_away_is_waited_for(spark: Stack, spark_cache: Path, tmp_path: Path) -> None:
    """SPARK-53307, SPARK-48056: and what is waited for is said."""
    port = free_port()
    (tmp_path / "go").touch()
    run_id = await begun(spark, asks_twice("server_away", f"sc://127.0.0.1:{port}", tmp_path))

    async def why() -> str:
        return (await spark.tidemill.runs.describe("server_away", run_id)).tasks[0].why

    told = await eventually(why, lambda text: "does not answer" in text)
    assert f"127.0.0.1:{port}" in told
    with ExitStack() as late:
        await asyncio.to_thread(late.enter_context, spark_connect(tmp_path / "s", spark_cache.parent, port=port))
        assert await ended(spark, "server_away", run_id) == (RunState.SUCCESS, 1, None)


@pytest.mark.parametrize("last", ["asks", "ends"])
async def test_a_session_that_the_server_has_closed(
    last: str, spark: Stack, connect: tuple[str, str], tmp_path: Path
) -> None:
    """spiceai/spiceai#1208: the next one would be closed, too, so the task fails, and says what to do.

    One whose work is done has succeeded (databricks/dbt-databricks#324).
    """
    run_id = await begun(spark, asks_twice(f"closed_{last}", connect[0], tmp_path, last))
    [session] = await has_asked(tmp_path)
    await asyncio.to_thread(end_session, connect[0], session)
    (tmp_path / "go").touch()
    state, try_number, error = await ended(spark, f"closed_{last}", run_id)
    if last == "ends":
        assert (state, try_number, error) == (RunState.SUCCESS, 1, None)
    else:
        assert (state, try_number) == (RunState.FAILED, 1)
        assert "defaultSessionTimeout. Raise that, or ask Spark more often" in (error or "")
