"""A worker of a standalone cluster is lost with a driver on it, or without: the try is not the task's fault."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from spark_clusters import ON_DAY, rows, standalone_master, standalone_worker, told, writing
from support import Stack, eventually
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.views import RunDetails
from tidemill.model.states import RunState
from web_stack import in_thread

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
DAY = TriggerRequest.model_validate(ON_DAY)


async def noted(folder: Path) -> list[str]:
    notes = folder / "notes"
    return [line.split()[0] for line in notes.read_text().splitlines()] if notes.exists() else []


async def begun(here: Stack, tmp_path: Path, dag_id: str, spark: dict[str, object]) -> str:
    """The run_id of a run whose driver is at work."""
    await here.tidemill.dags.register(writing(dag_id, {**spark, "deploy_mode": "cluster"}, tmp_path, seconds=25))
    run = await here.tidemill.runs.trigger(dag_id, DAY)
    await eventually(lambda: noted(tmp_path), lambda notes: notes == ["begun"])
    return run.run_id


async def test_a_driver_that_is_lost_with_its_worker_costs_no_retry(
    here: Stack, spark_cache: Path, tmp_path: Path
) -> None:
    with standalone_master(tmp_path / "cluster", spark_cache) as cluster:
        with standalone_worker(tmp_path / "lost", cluster) as jvm:
            run_id = await begun(here, tmp_path, "lost_driver", cluster.options())
            jvm.kill()  # and all below it with the end of the block
        with standalone_worker(tmp_path / "other", cluster):
            details: RunDetails = await here.finished("lost_driver", run_id)
    assert details.state is RunState.SUCCESS, told(details)
    assert await noted(tmp_path) == ["begun", "begun", "written"]
    assert rows(tmp_path) == 40
    assert details.tasks[0].try_number == 2


async def test_a_driver_that_lives_on_a_worker_that_is_cut_off_is_followed(
    here: Stack, spark_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its master has given it up: its executors are elsewhere, and what it tells counts."""
    monkeypatch.setenv("SPARK_WORKER_OPTS", "-Dspark.worker.preferConfiguredMasterAddress=true")
    with (
        standalone_master(tmp_path / "cluster", spark_cache) as cluster,
        relay(cluster.master) as (url, cut),
        standalone_worker(tmp_path / "cut_off", replace(cluster, master=url)),
    ):
        run_id = await begun(here, tmp_path, "cut_off", cluster.options())
        with standalone_worker(tmp_path / "other", cluster):
            cut()
            await eventually(lambda: asyncio.to_thread(cluster.drivers, active=False), len)
            details = await here.finished("cut_off", run_id)
    assert details.state is RunState.SUCCESS, told(details)
    assert await noted(tmp_path) == ["begun", "written"]
    assert rows(tmp_path) == 40
    assert details.tasks[0].try_number == 1


@contextmanager
def relay(url: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Another address of what is at *url*, and how it is cut off."""
    scheme, _, port = url.rpartition(":")
    writers: list[asyncio.StreamWriter] = []

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", int(port))
        await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer))

    with in_thread() as loop:
        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(connected, "127.0.0.1", 0), loop).result()

        async def cut() -> None:
            server.close()
            for writer in writers:
                writer.close()
            await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)

        def cut_off() -> None:
            asyncio.run_coroutine_threadsafe(cut(), loop).result()

        yield f"{scheme}:{server.sockets[0].getsockname()[1]}", cut_off
