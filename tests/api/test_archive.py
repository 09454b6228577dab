"""What the web keeps of runs that have ended: it outlives Temporal's retention, workers, and the web server itself."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import pytest
from postgresql import postgresql
from support import Stack, bash, dag, eventually
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from tidemill.activities.dag_files import each_dag_file
from tidemill.api.read import database
from tidemill.api.read.archiver import sweep
from tidemill.api.read.cached_client import CachedClient
from tidemill.api.read.database import ArchiveError
from tidemill.api.read.ended_runs import EndedRun, RunArchive
from tidemill.api.read.instances import would_clear
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.revisions import ClearRequest
from tidemill.model.run.row import RunRow
from tidemill.model.run.views import RunDetails, RunView
from tidemill.worker.app.dev import free_port
from tidemill.worker.cli.web import web_server
from tidemill.worker.client import Tidemill
from tidemill.worker.service.converter import ModelsPlugin
from tidemill.worker.settings.reading import Settings

from tidemill import InvalidInputError

FILE = """
from tidemill import *
with DAG("kept", schedule=None):
    @task(retries=1, retry_delay=0)
    def makes(ti=None):
        print("this is try", ti.try_number)
        if ti.try_number == 1:
            raise ValueError("not yet")
        return {"rows": 3}
    makes() >> EmptyOperator(task_id="end")
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/runs.db"
    else:
        with postgresql() as url:
            yield url


Begun = Callable[[str | None], Awaitable[CachedClient]]


@pytest.fixture
async def begun(here: Stack) -> AsyncIterator[Begun]:
    """Makes what a web server reads from, with an archive or without one."""
    made: list[CachedClient] = []

    async def begin(archive: str | None) -> CachedClient:
        made.append(CachedClient(here.tidemill, settings_of(here, archive)))
        await made[-1].ended.begin()
        return made[-1]

    yield begin
    for source in made:
        source.ended.close()


def settings_of(here: Stack, archive: str | None) -> Settings:
    return Settings.model_validate({"home": here.home, "task_queue": here.task_queue, "archive": archive})


async def a_run(here: Stack, folder: Path, run_id: str) -> RunView:
    file = folder / "dags.py"
    file.write_text(FILE)
    [parsed] = each_dag_file(file)
    assert parsed.error is None, parsed.error
    await here.run_once(parsed.dags[0], run_id=run_id)
    return await here.tidemill.runs.find("kept", run_id)


async def forgotten(here: Stack, run: RunView) -> None:
    """Has Temporal forget the run, as it does when its retention is over."""
    request = DeleteWorkflowExecutionRequest(
        namespace=here.tidemill.client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=run.workflow_id),
    )

    async def is_there() -> bool:
        try:
            await here.tidemill.client.workflow_service.delete_workflow_execution(request)
            await here.tidemill.runs.state(run.workflow_id)
        except (LookupError, RPCError) as error:
            if isinstance(error, RPCError) and error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False
        return True

    await eventually(is_there, lambda there: not there)


async def swept(client: CachedClient, run_id: str, dag_id: str = "kept") -> None:
    """Sweeps until the run is there: Temporal's lists lag behind."""

    async def once() -> bool:
        await sweep(client)
        return await client.ended.find(dag_id, run_id, None) is not None

    await eventually(once, bool)


async def test_a_run_that_was_terminated_has_ended_everywhere(here: Stack, begun: Begun, tmp_path: Path) -> None:
    tasks = [bash("a", "true"), bash("b", "sleep 4731", "a"), bash("c", "true", "b")]
    await here.tidemill.dags.register(dag("stopped", tasks))
    run = await here.tidemill.runs.trigger("stopped", TriggerRequest(run_id="r"))
    running = {"a": "success", "b": "running", "c": "none"}
    await eventually(lambda: here.tidemill.runs.describe("stopped", "r"), lambda found: states_of(found) == running)
    await here.tidemill.client.get_workflow_handle(run.workflow_id).terminate("for the test")
    view = await eventually(lambda: here.tidemill.runs.find("stopped", "r"), lambda found: found.state.finished)
    details = await here.tidemill.runs.describe("stopped", "r")
    assert (view.state, details.state) == ("failed", "failed")
    assert states_of(details) == {"a": "success", "b": "failed", "c": "none"}
    assert (details.progress.finished, details.progress.failed) == (2, 1)
    source = await begun(f"sqlite:///{tmp_path}/runs.db")
    await swept(source, "r", "stopped")  # it is kept, too
    failed = ClearRequest(only_failed=True)
    *_, meant = await would_clear(source, "stopped", "r", failed)
    assert [task.key for task in meant] == ["b"]
    assert await here.tidemill.runs.clear("stopped", "r", failed) == ["b"]


def states_of(details: RunDetails) -> dict[str, str]:
    return {task.key: str(task.state) for task in details.tasks}


async def test_a_run_outlives_temporals_memory_of_it(here: Stack, begun: Begun, tmp_path: Path, archive: str) -> None:
    run = await a_run(here, tmp_path, "first")
    source = await begun(archive)
    await swept(source, "first")
    assert await source.ended.count() == await sweep(source) + 1  # the second sweep has nothing to do with it
    if archive.startswith("sqlite"):  # once will do: Temporal takes half a minute for it
        await forgotten(here, run)
    # One that its DAG keeps no list of any more, either.
    ended = await source.ended.find("kept", "first", run.ended_at)
    assert ended is not None
    long_ago = datetime(2001, 2, 3, tzinfo=UTC)
    old = {"run_id": "older", "run_after": long_ago}
    view = {**old, "queued_at": long_ago, "workflow_id": "run:kept/older"}
    details = ended.details.model_copy(update={"run": ended.details.run.model_copy(update=old)})
    older = EndedRun(ended.view.model_copy(update=view), details, ended.state)
    await asyncio.gather(source.ended.keep(older), (await begun(archive)).ended.keep(older))
    settings = settings_of(here, archive)
    async with (
        web_server(here.tidemill, settings, "127.0.0.1", free_port()) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        runs = (await client.get("/api/v2/dags/kept/dagRuns?order_by=run_after")).json()["dag_runs"]
        assert [one["dag_run_id"] for one in runs] == ["older", "first"]
        everywhere = (await client.get("/api/v2/dags/~/dagRuns?dag_id_pattern=kept&limit=1000")).json()["dag_runs"]
        assert {"older", "first"} <= {one["dag_run_id"] for one in everywhere}
        for run_id in ("first", "older"):
            place = f"/api/v2/dags/kept/dagRuns/{run_id}"
            assert (await client.get(place)).json()["state"] == "success"
            tasks = (await client.get(f"{place}/taskInstances")).json()["task_instances"]
            assert [(one["task_id"], one["state"], one["try_number"]) for one in tasks] == [
                ("makes", "success", 2), ("end", "success", 1),
            ]  # fmt: skip
            value = (await client.get(f"{place}/taskInstances/makes/xcomEntries/return_value")).json()
            assert value["value"] == {"rows": 3}
        tries = (await client.get("/api/v2/dags/kept/dagRuns/first/taskInstances/makes/tries")).json()
        assert [one["state"] for one in tries["task_instances"]] == ["failed", "success"]
        log = (await client.get("/api/v2/dags/kept/dagRuns/first/taskInstances/makes/logs/1")).json()
        assert "this is try 1" in [line["event"] for line in log["content"]]
        assert (await client.delete("/api/v2/dags/kept")).status_code == 204
    assert await source.ended.count() == 0


async def test_an_ended_run_is_asked_of_temporal_once(here: Stack, begun: Begun, tmp_path: Path) -> None:
    """Also of a server that has begun anew, and whose worker is gone."""
    run = await a_run(here, tmp_path, "once")
    first = await begun(None)
    details = await first.details("kept", run)
    assert (here.home / "web.db").stat().st_mode & 0o077 == 0  # tasks may run as another user
    lost = Tidemill(await Client.connect("127.0.0.1:1", lazy=True, plugins=[ModelsPlugin()]))
    anew = CachedClient(lost, settings_of(here, None))
    assert await anew.details("kept", run) == details
    state = await anew.state("kept", run)
    assert state is not None
    assert state.instances["makes"].xcom["return_value"] == {"rows": 3}
    assert await anew.run_spec("kept", run) == state.spec
    # What it was before it was cleared is not what it is now.
    assert run.ended_at is not None
    later = run.model_copy(update={"ended_at": run.ended_at + timedelta(milliseconds=300)})
    with pytest.raises(RuntimeError, match=r"127\.0\.0\.1:1"):
        await anew.details("kept", later)
    anew.ended.close()


@pytest.mark.thorough
async def test_what_is_cleared_is_archived_anew(here: Stack, begun: Begun, tmp_path: Path) -> None:
    run = await a_run(here, tmp_path, "again")
    source = await begun(f"sqlite:///{tmp_path}/runs.db")
    await swept(source, "again")
    await here.tidemill.runs.clear("kept", "again")

    async def once() -> int:
        await sweep(source)
        found = await source.ended.find("kept", "again")
        assert found is not None
        return next(task.try_number for task in found.details.tasks if task.task_id == "makes")

    await eventually(once, lambda number: number == 3)
    assert run.ended_at is not None
    assert not await source.ended.has("kept", "again", run.ended_at - timedelta(seconds=2))


async def test_only_the_newest_are_kept_without_an_archive(here: Stack, begun: Begun, tmp_path: Path) -> None:
    run = await a_run(here, tmp_path, "many")
    source = await begun(None)
    await source.details("kept", run)
    ended = await source.ended.find("kept", "many")
    assert ended is not None
    few = RunArchive(f"sqlite:///{tmp_path}/few.db", here.tidemill.client, max_runs=5)
    await few.begin()
    for n in range(101):
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=n)
        view = ended.view.model_copy(update={"run_id": f"r{n}", "run_after": at})
        await few.keep(EndedRun(view, ended.details, ended.state))
    assert [one.run_id for one in await few.runs("kept", 10)] == ["r100", "r99", "r98", "r97", "r96"]
    few.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("what", "is no URL of a database"),
        ("mysql+nodriver://x", "is no URL of a database"),
        ("sqlite:////nowhere/at/all/x.db", "cannot be used: .*unable to open"),
        ("postgresql:///x?host=127.0.0.1&port=1&password=secret", r"postgresql\+psycopg:///x cannot be used"),
        ("postgresql://me:secret@127.0.0.1:1/x", r"postgresql\+psycopg://127.0.0.1:1/x cannot be used"),
    ],
)
async def test_a_database_that_cannot_be_used_is_told_at_the_start(here: Stack, url: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as refused:
        async with web_server(here.tidemill, settings_of(here, url), "127.0.0.1", free_port()):
            pass
    assert "secret" not in str(refused.value)


async def test_a_trigger_is_seen_by_a_list_that_was_just_asked(here: Stack, begun: Begun, tmp_path: Path) -> None:
    await a_run(here, tmp_path, "one")
    source = await begun(None)
    await eventually(source.rows, lambda rows: any(row.dag_id == "kept" for row in rows))
    row = next(row for row in await source.rows() if row.dag_id == "kept")
    assert [run.run_id for run in await source.runs_of_row(row)] == ["one"]
    await here.tidemill.runs.trigger("kept", TriggerRequest(run_id="two"))
    await source.changed("kept")
    assert [run.run_id for run in await source.runs_of_row(row)] == ["two", "one"]


async def test_what_only_the_archive_knows_can_be_deleted_and_stays_so(
    here: Stack, begun: Begun, tmp_path: Path, archive: str
) -> None:
    await a_run(here, tmp_path, "doomed")
    source = await begun(archive)
    await swept(source, "doomed")
    ended = await source.ended.find("kept", "doomed")
    assert ended is not None
    lost = EndedRun(ended.view.model_copy(update={"run_id": "lost"}), ended.details, ended.state)
    await source.ended.keep(lost)
    settings = settings_of(here, archive)
    async with (
        web_server(here.tidemill, settings, "127.0.0.1", free_port()) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        assert (await client.delete("/api/v2/dags/kept/dagRuns/lost")).status_code == 204
        assert (await client.delete("/api/v2/dags/kept/dagRuns/lost")).status_code == 404
        assert (await client.get("/api/v2/dags/kept/dagRuns/a%00b")).status_code == 404
        await source.ended.keep(lost)  # by a server that had asked for it before
        assert await source.ended.find("kept", "lost") is None
        await here.tidemill.dags.delete("kept")
        assert (await client.delete("/api/v2/dags/kept")).status_code == 204
        await source.ended.keep(ended)
        assert await source.ended.count() == 0


async def test_one_run_that_cannot_be_asked_keeps_no_other_from_the_archive(
    here: Stack, begun: Begun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a_run(here, tmp_path, "good")
    await a_run(here, tmp_path, "odd")
    source = await begun(f"sqlite:///{tmp_path}/runs.db")
    archive_one = source.archive

    async def archive(row: RunRow) -> bool:
        if row.run_id == "odd":
            raise ValueError("a state that only a later release knows")
        return await archive_one(row) if row.run_id == "good" else False

    async def archive_mine(row: RunRow) -> bool:
        """Runs of other tests have no worker any more."""
        return await archive_one(row) if row.run_id in ("good", "odd") else False

    monkeypatch.setattr(source, "archive", archive)
    await swept(source, "good")
    assert await source.ended.swept_until() is None  # it is tried again
    monkeypatch.setattr(source, "archive", archive_mine)
    await swept(source, "odd")
    assert await source.ended.swept_until() is not None


async def test_a_file_that_cannot_be_used_keeps_nobody_from_looking(
    here: Stack, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without an archive it holds nothing that Temporal does not know."""
    run = await a_run(here, tmp_path, "seen")
    (here.home / "web.db").mkdir()
    settings = settings_of(here, None)
    async with (
        web_server(here.tidemill, settings, "127.0.0.1", free_port()) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        answer = await client.get(f"/api/v2/dags/kept/dagRuns/{run.run_id}/taskInstances")
        assert answer.status_code == 200, answer.text
        assert [one["state"] for one in answer.json()["task_instances"]] == ["success", "success"]
        assert (await client.get("/api/v2/dags/kept")).status_code == 200
    assert "is not kept" in caplog.text


async def test_what_was_written_with_another_key_is_asked_again(here: Stack, begun: Begun, tmp_path: Path) -> None:
    run = await a_run(here, tmp_path, "sealed")
    source = await begun(None)
    details = await source.details("kept", run)
    with sqlite3.connect(here.home / "web.db") as there:
        there.execute("UPDATE tidemill_ended_runs SET details = x'00'")
        there.execute("UPDATE tidemill_dag_versions SET spec = x'00'")
    anew = await begun(None)
    assert await anew.details("kept", run) == details
    assert (await anew.spec("kept")).dag_id == "kept"
    again = await anew.ended.find("kept", "sealed")
    assert again is not None
    assert again.details == details


@pytest.mark.thorough
@pytest.mark.faults
async def test_an_archive_whose_file_is_removed_is_begun_anew(
    here: Stack, begun: Begun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A server went on with the removed file: what it kept there was lost when it ended."""
    await a_run(here, tmp_path, "removed")
    file = tmp_path / "runs.db"
    source = await begun(f"sqlite:///{file}")
    await swept(source, "removed")
    for path in tmp_path.glob("runs.db*"):
        path.unlink()
    await swept(source, "removed")
    assert "was removed or replaced" in caplog.text
    with sqlite3.connect(file) as there:
        assert there.execute("SELECT run_id FROM tidemill_ended_runs").fetchall() == [("removed",)]
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.faults
async def test_an_archive_that_is_away_fails_no_change_and_hides_nothing(
    here: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trigger was followed and answered 503, so that clients asked again: one click was four runs."""
    monkeypatch.setattr(database, "AGAIN_AFTER", 0.0)
    run = await a_run(here, tmp_path, "there")
    settings = settings_of(here, f"sqlite:///{tmp_path}/runs.db")
    async with (
        web_server(here.tidemill, settings, "127.0.0.1", free_port()) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        with sqlite3.connect(tmp_path / "runs.db") as there:
            for table in ("ended_runs", "dag_versions", "deleted_runs", "archive"):
                there.execute(f"ALTER TABLE tidemill_{table} RENAME TO away_{table}")
        made = await client.post("/api/v2/dags/kept/dagRuns", json={"logical_date": None, "dag_run_id": "asked"})
        assert made.status_code == 200, made.text
        assert (await here.finished("kept", "asked")).state == "success"
        for path in (
            "/api/v2/dags/kept/dagRuns", f"/api/v2/dags/kept/dagRuns/{run.run_id}", "/api/v2/dags/~/dagRuns",
            f"/api/v2/dags/kept/dagRuns/{run.run_id}/taskInstances", "/api/v2/dags/kept/dagRuns/asked",
        ):  # fmt: skip
            # A worker that is starved answers no question in time, which is no matter of the archive's.
            await eventually(partial(client.get, path), lambda answer: answer.status_code == 200)
        cleared = await client.post("/api/v2/dags/kept/dagRuns/asked/clear", json={"dry_run": False})
        assert cleared.status_code == 200, cleared.text
        await here.finished("kept", "asked")
        health = (await client.get("/api/v2/monitor/health")).json()
        assert health["archive"] == {"status": "unhealthy"}
        [warning] = (await client.get("/api/v2/dagWarnings", params={"dag_id": "kept"})).json()["dag_warnings"]
        assert "Runs that Temporal has forgotten are missing" in warning["message"]
        deleted = await client.delete("/api/v2/dags/kept/dagRuns/asked")
        assert deleted.status_code == 204, deleted.text
        with sqlite3.connect(tmp_path / "runs.db") as there:
            for table in ("ended_runs", "dag_versions", "deleted_runs", "archive"):
                there.execute(f"ALTER TABLE away_{table} RENAME TO tidemill_{table}")

        async def healthy() -> bool:
            await client.get("/api/v2/dags/kept/dagRuns")
            return bool((await client.get("/api/v2/monitor/health")).json()["archive"]["status"] == "healthy")

        await eventually(healthy, bool)
        assert "asked" not in (await client.get("/api/v2/dags/kept/dagRuns")).text


@pytest.mark.thorough
@pytest.mark.faults
async def test_what_was_deleted_while_the_archive_was_away_is_deleted_there_later(
    here: Stack, begun: Begun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "AGAIN_AFTER", 0.0)
    run = await a_run(here, tmp_path, "gone")
    source = await begun(f"sqlite:///{tmp_path}/runs.db")
    await swept(source, "gone")
    with sqlite3.connect(tmp_path / "runs.db") as there:
        there.execute("ALTER TABLE tidemill_deleted_runs RENAME TO away")
    await here.tidemill.runs.delete("kept", run.run_id)
    assert await source.deleted("kept", run.run_id) == 0
    assert [one.run_id for one in await source.runs("kept")] == []
    with pytest.raises(ArchiveError):
        await source.delete_what_was_meant()
    with sqlite3.connect(tmp_path / "runs.db") as there:
        there.execute("ALTER TABLE away RENAME TO tidemill_deleted_runs")
    await source.delete_what_was_meant()
    assert await source.ended.find("kept", "gone") is None


@pytest.mark.faults
async def test_an_archive_that_hangs_holds_nobody_up_for_long(
    here: Stack, begun: Begun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "ANSWER_TIMEOUT", 0.3)
    source = await begun(f"sqlite:///{tmp_path}/runs.db")
    held = threading.Event()
    mine = source.ended._database

    def hang(_: object) -> None:
        held.wait(60)

    with pytest.raises(ArchiveError, match=r"has not answered within 0\.3 s"):
        await mine.change(hang)
    try:
        assert isinstance(await source.all_runs(), list)
        assert source.archive_problem is not None
    finally:
        held.set()


async def test_an_archive_that_is_slow_is_waited_for_where_nobody_looks(
    begun: Begun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a store that takes its time for large runs would never have them."""
    monkeypatch.setattr(database, "ANSWER_TIMEOUT", 0.05)
    source = await begun(f"sqlite:///{tmp_path}/runs.db")
    with pytest.raises(ArchiveError):
        await source.ended._database.change(lambda _: time.sleep(0.3))
    with pytest.raises(ArchiveError):  # and it is left alone for a while
        await source.ended.count()
    with database.patiently(60):
        assert await source.ended._database.change(lambda _: time.sleep(0.3) or "done") == "done"
    assert source.archive_problem is None
