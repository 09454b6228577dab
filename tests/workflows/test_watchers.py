"""What looks for events of assets outside of tidemill, on a real server: files, queues, other namespaces."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
import pytest
from object_store import s3
from support import Stack, end_workflows, eventually, told, worker_environment, worker_process
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError
from tidemill.activities.dag_files import each_dag_file
from tidemill.activities.work.watched_files import MAX_FILES, look_at_files
from tidemill.model.asset.events import AssetEvent
from tidemill.model.asset.state import AssetState, ReportedEvent, Tie
from tidemill.model.asset.watching import (
    Sighting,
    WatchAnswer,
    WatcherState,
    WatcherView,
    Watching,
    check_sightings,
)
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.spec.assets.watchers import FilesTrigger
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin
from tidemill.worker.service.connection import NotFoundError

from tidemill import Asset, CommandNotifier, InvalidInputError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIE = Tie(dag_id="d", consumes=True)
HEAD = "from datetime import datetime, timedelta\nimport json\nfrom pathlib import Path\nfrom tidemill import *\n"


async def registered(tidemill: Tidemill, folder: Path, text: str) -> None:
    """Registers the DAGs of a file."""
    file = folder / "dags.py"
    file.write_text(HEAD + text)
    [parsed] = each_dag_file(file)
    assert parsed.error is None, parsed.error
    for spec in parsed.dags:
        await tidemill.dags.register(spec)


async def events_of(tidemill: Tidemill, name: str, n: int) -> list[AssetEvent]:
    """The first *n* events of an asset, oldest first."""

    async def known() -> list[AssetEvent]:
        try:
            return await tidemill.assets.events(name)
        except NotFoundError:
            return []

    return await eventually(known, lambda found: len(found) >= n)


async def watchers_of(tidemill: Tidemill, name: str) -> list[WatcherView]:
    try:
        return await tidemill.assets.watchers(name)
    except NotFoundError:
        return []


def urls(events: list[AssetEvent]) -> list[str]:
    return [Path(event.extra["payload"]["url"]).name for event in events]


def test_a_look_at_files_finds_each_once(tmp_path: Path) -> None:
    trigger = FilesTrigger(url=tmp_path.as_uri(), pattern="*.csv", settled_for=timedelta(seconds=10))
    now = datetime.now(UTC).timestamp()
    assert look_at_files(FilesTrigger(url=f"{tmp_path}/none"), None, now)[0] == ()
    for n in range(120):
        (tmp_path / f"{n:03}.csv").write_text(str(n))
    (tmp_path / "other.txt").write_text("x")
    assert look_at_files(trigger, None, now)[0] == ()  # they have only just been written
    first, position = look_at_files(trigger, None, now + 60)
    assert len(first) == 100
    second, position = look_at_files(trigger, position, now + 60)
    assert len(second) == 20
    assert len({one.key for one in (*first, *second)}) == 120
    assert look_at_files(trigger, position, now + 60)[0] == ()
    (tmp_path / "000.csv").write_text("changed, and longer")
    (tmp_path / "001.csv").unlink()
    [again], _ = look_at_files(trigger, position, now + 60)
    assert again.payload == {"url": (tmp_path / "000.csv").as_uri(), "size": 19}


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    for n in range(MAX_FILES + 1):
        (tmp_path / str(n)).touch()
    with pytest.raises(InvalidInputError, match="10,001 files that look like"):
        look_at_files(FilesTrigger(url=str(tmp_path)), None, datetime.now(UTC).timestamp())


def test_files_in_an_object_store_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3(tmp_path / "store") as (url, variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        files = fsspec.filesystem("s3", endpoint_url=variables["AWS_ENDPOINT_URL"])  # kept: its end needs a loop
        trigger = FilesTrigger(url=f"{url}/landing/", pattern="*.csv")
        now = datetime.now(UTC).timestamp()
        assert look_at_files(trigger, None, now)[0] == ()
        files.pipe("lake/landing/2026/a.csv", b"a")
        files.pipe("lake/landing/a.txt", b"a")
        first, position = look_at_files(trigger, None, now + 60)
        assert [one.payload for one in first] == [{"url": "s3://lake/landing/2026/a.csv", "size": 1}]
        assert look_at_files(trigger, position, now + 60)[0] == ()
        files.pipe("lake/landing/2026/a.csv", b"b")  # of the same size: its ETag tells it
        assert len(look_at_files(trigger, position, now + 60)[0]) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Asset('a', watchers=['x'])", "Write AssetWatcher"),
        ("Asset('a', watchers=[AssetWatcher('w', trigger='x')])", "trigger = 'x' is none"),
        ("Asset('a', watchers=[AssetWatcher('w', trigger=FilesTrigger(url='s3://u:p@b/x'))])", "has a password"),
        ("Asset('a', on_late_callback=print)", "needs freshness"),
        ("Asset('a', watchers=2 * [AssetWatcher('w', trigger=FilesTrigger(url='x'))])", "Give each its own"),
        ("type('T', (BaseEventTrigger,), {})", "has no poll"),
    ],
)
def test_a_watcher_that_is_none_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "dags.py"
    file.write_text(f"{HEAD}with DAG('d', schedule={text}): EmptyOperator(task_id='x')\n")
    [parsed] = each_dag_file(file)
    assert said in str(parsed.error)


@pytest.mark.thorough
async def test_a_queue_and_another_namespace_are_watched(here: Stack, tmp_path: Path) -> None:
    """A class of the DAG file reads a queue; what it cannot read is said, and read when it can be."""
    there = await other_namespace(here)
    queue = tmp_path / "queue.json"
    queue.write_text("no queue")
    # An asset there: its workflow needs no tidemill worker but one of its own namespace.
    other = await Client.connect(here.address, namespace=there, plugins=[TidemillPlugin(tmp_path / "there")])
    text = f"""
class Queue(BaseEventTrigger):
    poll_interval = timedelta(seconds=0.2)
    def poll(self, position):
        messages = json.loads(Path({str(queue)!r}).read_text())
        new = messages[position or 0:]
        return [TriggerEvent(text, partition_key=text if text == "b" else None) for text in new], len(messages)

orders = Asset("q_orders", watchers=[AssetWatcher("queue", trigger=Queue())])
theirs = AssetTrigger(name="theirs", namespace={there!r}, poll_interval=timedelta(seconds=0.5))
with DAG("q_reader", schedule=[orders]):
    @task
    def read(triggering_asset_events=None):
        return [event.extra["payload"] for event in triggering_asset_events[orders]]
    read()
with DAG("q_other", schedule=Asset("q_theirs", watchers=[AssetWatcher("theirs", trigger=theirs)])):
    EmptyOperator(task_id="x")
"""
    env = {**worker_environment(here.address, tmp_path / "there", "there"), "TEMPORAL_NAMESPACE": there}
    with worker_process(env):
        far = Tidemill(other, "there")
        await registered(far, tmp_path, "with DAG('maker', schedule=Asset('theirs')): EmptyOperator(task_id='x')\n")
        await registered(here.tidemill, tmp_path, text)
        await eventually(
            lambda: watchers_of(here.tidemill, "q_orders"), lambda found: bool(found and found[0].error is not None)
        )
        shown = await told(here, "assets", "show", "q_orders")
        assert "queue: a class of the DAG's file; 0 found; it cannot look" in shown
        queue.write_text(json.dumps(["a"]))
        [event] = await events_of(here.tidemill, "q_orders", 1)
        assert (event.extra, event.source_dag_id) == ({"from_trigger": True, "payload": "a"}, None)
        queue.write_text(json.dumps(["a", "b"]))
        events = await events_of(here.tidemill, "q_orders", 2)
        assert [event.partition_key for event in events] == [None, "b"]
        [view] = await here.all_finished("q_reader", 1)
        details = await here.tidemill.runs.describe("q_reader", view.run_id)
        assert await here.result_of(details, "read") == ["a"]
        await events_of(far, "theirs", 0)
        await eventually(lambda: emitted(far), lambda found: found)
        [seen] = await events_of(here.tidemill, "q_theirs", 1)
        assert seen.extra["payload"]["extra"] == {"n": 1}
        await end_workflows(other, "there")


async def emitted(far: Tidemill) -> bool:
    try:
        await far.assets.emit("theirs", extra={"n": 1}, cause="1")
    except NotFoundError:
        return False
    return True


async def other_namespace(here: Stack) -> str:
    name = f"other-{uuid.uuid4().hex[:6]}"
    request = RegisterNamespaceRequest(namespace=name)
    request.workflow_execution_retention_period.FromTimedelta(timedelta(days=1))
    await here.tidemill.client.workflow_service.register_namespace(request)

    async def known() -> bool:
        try:
            there = await Client.connect(here.address, namespace=name)
            return [found async for found in there.list_workflows("")] == []
        except RPCError:
            return False

    await eventually(known, lambda found: found)
    return name


@pytest.mark.thorough
async def test_files_are_told_once_whatever_is_killed(server: str, tmp_path: Path) -> None:
    queue = f"test-{uuid.uuid4().hex[:8]}"
    client = await Client.connect(server, plugins=[TidemillPlugin(tmp_path / "own")])
    tidemill = Tidemill(client, queue)
    landing = tmp_path / "landing"
    text = f"""
files = FilesTrigger(url={str(landing)!r}, pattern="*.csv", poll_interval=timedelta(seconds=0.3))
with DAG("f_reader", schedule=Asset("f_files", watchers=[AssetWatcher("landing", trigger=files)])):
    EmptyOperator(task_id="x")
"""
    env = worker_environment(server, tmp_path / "home", queue)
    wanted: list[str] = []
    try:
        for part in range(4):
            with worker_process(env) as worker:
                if part == 0:
                    await registered(tidemill, tmp_path, text)
                    landing.mkdir()
                for n in range(15):
                    name = f"{part}-{n:02}.csv"
                    (landing / name).write_text("x" * n)
                    wanted.append(name)
                if part < 3:
                    await events_of(tidemill, "f_files", 15 * part + 1)
                    worker.kill()
        with worker_process(env):
            found = await events_of(tidemill, "f_files", len(wanted))
            assert sorted(urls(found)) == wanted
            assert len({event.cause for event in found}) == len(wanted)
            # Nobody waits for it: it rests, and when somebody does again it knows what it has seen.
            await registered(tidemill, tmp_path, "with DAG('f_reader'): EmptyOperator(task_id='x')\n")
            handle = client.get_workflow_handle("watcher:f_files/landing")
            await eventually(
                lambda: handle.query("describe", result_type=WatcherView), lambda view: view.trigger is None
            )
            (landing / "last.csv").write_text("x")
            await registered(tidemill, tmp_path, text)
            found = await events_of(tidemill, "f_files", len(wanted) + 1)
            assert urls(found)[-1] == "last.csv"
            assert len(found) == len(wanted) + 1
    finally:
        await end_workflows(client, queue)


async def test_who_is_to_know_hears_that_an_asset_is_late(here: Stack, tmp_path: Path) -> None:
    told_here = tmp_path / "late.txt"
    await registered(here.tidemill, tmp_path, f"""
def late(context):
    with Path({str(told_here)!r}).open("a") as file:
        file.write(context["reason"] + "\\n")
command = CommandNotifier(command="echo $TIDEMILL_ASSET $TIDEMILL_STATE >> {told_here}")
fresh = Asset("l_fresh", freshness=timedelta(seconds=1), on_late_callback=[late, command])
with DAG("l_reader", schedule=[fresh]):
    EmptyOperator(task_id="x")
""")  # fmt: skip

    async def lines() -> list[str]:
        return sorted(told_here.read_text().splitlines()) if told_here.exists() else []

    assert await eventually(lines, lambda found: len(found) == 2) == [
        "asset 'l_fresh' is late: it has had no event, and freshness = 0:00:01",
        "l_fresh late",
    ]
    await here.tidemill.assets.emit("l_fresh")
    found = await eventually(lines, lambda found: len(found) == 4)
    assert "its newest event is of 20" in found[1]
    assert "late since" in await told(here, "assets", "list")


async def test_a_paused_asset_holds_its_events(here: Stack, tmp_path: Path) -> None:
    await registered(here.tidemill, tmp_path, """
with DAG("h_reader", schedule=Asset("h_asset")):
    EmptyOperator(task_id="x", outlets=[Asset("h_back")])
with DAG("h_circle", schedule=Asset("h_back")):
    EmptyOperator(task_id="x", outlets=[Asset("h_asset")])
""")  # fmt: skip
    await events_of(here.tidemill, "h_asset", 0)
    await eventually(lambda: here.tidemill.assets.list(), lambda names: {"h_asset", "h_back"} <= {*names})
    for name, reader in (("h_asset", "h_reader"), ("h_back", "h_circle")):
        await eventually(lambda n=name: here.tidemill.assets.describe(n), lambda view, r=reader: view.consumers == (r,))
    await told(here, "assets", "pause", "h_asset")
    await here.tidemill.assets.emit("h_asset", cause="held")
    assert "DAGs hear of its 1 new events when it is unpaused" in await told(here, "assets", "show", "h_asset")
    assert await here.tidemill.runs.list("h_reader") == []
    await told(here, "assets", "unpause", "h_asset")
    await here.all_finished("h_reader", 1)
    await told(here, "assets", "pause", "h_asset")  # it wakes itself, for ever
    picture = tmp_path / "graph.svg"
    assert "h_back" in await told(here, "assets", "graph")
    await told(here, "assets", "graph", "--output", str(picture))
    assert {"h_reader", "h_circle", "h_asset", "h_back"} <= {*picture.read_text().replace("<", ">").split(">")}


def test_what_is_held_while_paused_has_a_bound() -> None:
    state = AssetState(asset=Asset("a").leaf, is_paused=True)
    state.tie(TIE, NOW)
    for n in range(1_005):
        state.add(ReportedEvent(cause=str(n)), NOW)
    assert (len(state.held), state.dropped, state.outbox, state.held[0].cause) == (1_000, 5, {}, "5")
    for n in range(100):
        state.add(ReportedEvent(cause=f"large {n}", extra={"x": "y" * 20_000}), NOW)
    assert state.fits_a_payload
    state.tie(TIE.model_copy(update={"dag_id": "new", "since": NOW - timedelta(days=1)}), NOW)
    assert "new" not in state.outbox  # it hears of what is held when the others do
    held = [event.cause for event in state.held]
    state.pause(False)
    assert [one.cause for one in state.outbox["d"]] == [one.cause for one in state.outbox["new"]] == held


def watcher() -> WatcherState:
    trigger = {"kind": "own", "poll_interval": 30}
    return WatcherState(
        watching=Watching.model_validate({"asset": "a", "name": "w", "watcher": {"name": "w", "trigger": trigger}})
    )


def test_a_position_moves_without_events_and_an_empty_look_waits() -> None:
    state = watcher()
    assert state.take(WatchAnswer(position=10, moved=True), NOW, "one") == timedelta(seconds=30)
    assert state.position == 10
    assert state.take(WatchAnswer(), NOW, "one") == timedelta(seconds=30)
    assert state.position == 10
    assert state.take(WatchAnswer(found=(Sighting(payload=1),), position=11), NOW, "one") is None
    waits = [state.take(WatchAnswer(error="no"), NOW, "one") for _ in range(9)]
    assert (waits[0], waits[1], waits[-1]) == (timedelta(seconds=5), timedelta(seconds=10), timedelta(minutes=5))
    assert state.position == 11
    other = watcher()
    other.take(WatchAnswer(found=(Sighting(payload=1),), position=11), NOW, "two")
    assert state.unsent[0].cause != other.unsent[0].cause  # one that was ended has counted from one, too


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([Sighting(payload="x" * 50_000)], "may have"),
        ([Sighting(partition_key=" ")], "blank"),
        ([Sighting(payload="x" * 30_000)] * 40, "Return fewer"),
        ([Sighting()] * 101, "at most 100"),
    ],
)
def test_what_the_asset_would_not_take_is_refused_where_it_is_found(found: list[Sighting], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        check_sightings(found)


def test_who_says_how_fresh_an_asset_has_to_be_is_heard_whoever_else_names_it() -> None:
    fresh = Asset("a", freshness=timedelta(hours=1), on_late_callback=[CommandNotifier(command="true")] * 2)
    state = AssetState(asset=Asset("a").leaf)
    state.tie(TIE.model_copy(update={"asset": fresh.leaf}), NOW)
    state.tie(Tie(dag_id="writer", produced_by=("t",), asset=Asset("a").leaf), NOW)
    assert state.next_lateness() == NOW + timedelta(hours=1)
    told = state.take_lateness(NOW + timedelta(hours=2))
    assert len({one.number for one in told}) == 2
    assert state.take_lateness(NOW + timedelta(hours=3)) == []


async def test_partitions_are_backfilled(here: Stack, tmp_path: Path) -> None:
    await registered(here.tidemill, tmp_path, """
with DAG("b_parts", schedule=CronPartitionTimetable("0 0 * * *", timezone="America/New_York", key_format="%Y-%m-%d"),
         start_date=datetime(2099, 1, 1)):
    BashOperator(task_id="x", bash_command="echo {{ partition_key }} {{ partition_date }}", outlets=[Asset("b_days")])
""")  # fmt: skip
    asked = {"from_date": "2026-03-01T00:00:00Z", "to_date": "2026-03-03T00:00:00Z"}
    plan = await here.tidemill.backfills.create("b_parts", BackfillRequest.model_validate(asked))
    assert plan.total == 3
    runs = await here.all_finished("b_parts", 3)
    details = [await here.tidemill.runs.describe("b_parts", run.run_id) for run in runs]
    keys = [one.run.partition_key for one in details]
    assert keys == ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert details[0].run.run_id.startswith("backfill__2026-03-01T05:00:00+00:00__2026-03-01__")
    assert {one.run.logical_date for one in details} == {None}
    assert await here.result_of(details[2], "x") == "2026-03-03 2026-03-03 05:00:00+00:00"
    events = await events_of(here.tidemill, "b_days", 3)
    assert sorted(str(event.partition_key) for event in events) == keys
    again = await here.tidemill.backfills.create("b_parts", BackfillRequest.model_validate(asked))
    done = await eventually(
        lambda: here.tidemill.backfills.list("b_parts"),
        lambda found: any(one.backfill_id == again.backfill_id and one.completed_at is not None for one in found),
    )
    assert next(one for one in done if one.backfill_id == again.backfill_id).skipped == 3
    anew = {**asked, "to_date": "2026-03-01T00:00:00Z", "reprocess_behavior": "completed"}
    await here.tidemill.backfills.create("b_parts", BackfillRequest.model_validate(anew))
    runs = await here.all_finished("b_parts", 4)
    assert len({run.run_id for run in runs}) == 4
