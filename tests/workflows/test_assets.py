"""Assets on a real server: DAGs that run when their data is there."""

import uuid
from pathlib import Path

import pytest
from support import Stack, end_workflows, eventually, told, worker_environment, worker_process
from temporalio.client import Client
from tidemill.activities.dag_files import each_dag_file
from tidemill.model.run.identity import RunIdentity, TriggerRequest
from tidemill.model.run.views import RunDetails
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin
from tidemill.worker.service.connection import NotFoundError

from tidemill import InvalidInputError

HEAD = "from datetime import datetime, timedelta\nfrom tidemill import *\n"


async def registered(here: Stack, folder: Path, text: str) -> None:
    """Registers the DAGs of a file."""
    file = folder / "dags.py"
    file.write_text(HEAD + text)
    [parsed] = each_dag_file(file)
    assert parsed.error is None, parsed.error
    for spec in parsed.dags:
        await here.tidemill.dags.register(spec)


async def runs_of(here: Stack, dag_id: str, n: int) -> list[RunDetails]:
    """The first *n* runs of a DAG, ended, oldest first."""
    views = await here.all_finished(dag_id, n)
    return [
        await here.tidemill.runs.describe(dag_id, view.run_id)
        for view in sorted(views, key=lambda view: view.queued_at)
    ]


def causes(run: RunIdentity) -> list[str]:
    return [event.cause for event in run.asset_events]


async def told_of(here: Stack, name: str, n: int) -> None:
    """Waits until the asset knows of *n* events."""
    await eventually(lambda: known(here, name), lambda found: found >= n)


async def known(here: Stack, name: str) -> int:
    try:
        return (await here.tidemill.assets.describe(name)).events
    except NotFoundError:
        return 0


async def test_a_task_that_writes_data_makes_the_run_of_who_waits_for_it(here: Stack, tmp_path: Path) -> None:
    await registered(here, tmp_path, """
orders = Asset("w_orders", "s3://lake/orders/", extra={"owner": "sales"})
with DAG("w_writer"):
    @task(outlets=[orders])
    def write(outlet_events=None, run_id=None):
        outlet_events[orders].extra = {"rows": 5}
    write()
    EmptyOperator(task_id="plain", outlets=[Asset("w_plain")])
    BashOperator(task_id="fails", bash_command="exit 1", outlets=[Asset("w_failed")])
with DAG("w_reader", schedule=[orders]):
    @task(inlets=[orders])
    def read(triggering_asset_events=None, inlet_events=None, run_id=None):
        [event] = triggering_asset_events[orders]
        return [event.extra, event.source_dag_id, inlet_events[orders][-1].extra, len(triggering_asset_events)]
    said = "{% for asset, found in triggering_asset_events.items() %}{{ asset.name }} {{ found | length }}{% endfor %}"
    read() >> BashOperator(task_id="says", bash_command="echo " + said)
with DAG("w_both", schedule=orders & Asset("w_plain")):
    EmptyOperator(task_id="x")
with DAG("w_never", schedule=Asset("w_failed") | Asset("w_nobody")):
    EmptyOperator(task_id="x")
""")  # fmt: skip
    await here.tidemill.runs.trigger("w_writer", TriggerRequest(run_id="one"))
    [read] = await runs_of(here, "w_reader", 1)
    assert (read.run.run_type, read.run.triggered_by, read.run.logical_date) == ("asset_triggered", "asset", None)
    assert read.run.run_id.startswith("asset_triggered__")
    assert await here.result_of(read, "read") == [{"rows": 5}, "w_writer", {"rows": 5}, 1]
    assert await here.result_of(read, "says") == "w_orders 1"
    [both] = await runs_of(here, "w_both", 1)
    assert sorted(event.name for event in both.run.asset_events) == ["w_orders", "w_plain"]
    assert await here.tidemill.runs.list("w_never") == []
    # Who writes it is told to it beside the runs that it makes.
    view = await eventually(lambda: here.tidemill.assets.describe("w_orders"), lambda found: bool(found.producers))
    assert (view.uri, view.producers, view.consumers) == (
        "s3://lake/orders", {"w_writer": ("write",)}, ("w_both", "w_reader"),
    )  # fmt: skip
    shown = await told(here, "assets", "show", "w_orders")
    assert "w_writer: write" in shown
    assert [event["extra"] for event in await told(here, "assets", "events", "w_orders", "--json")] == [{"rows": 5}]
    await eventually(here.tidemill.assets.list, lambda names: "w_orders" in names)
    graph = await told(here, "assets", "graph")
    assert ["w_writer", "->", "w_orders", "->", "w_both,", "w_reader"] in [line.split() for line in graph.splitlines()]
    made = await told(here, "assets", "materialize", "w_orders", "--json")
    assert (made["dag_id"], made["run_type"]) == ("w_writer", "asset_materialization")
    assert made["run_id"].startswith("asset_materialization__")
    assert "is written by no DAG" in await told(here, "assets", "materialize", "w_nobody", code=1)
    explained = await told(here, "dags", "explain", "w_never")
    assert "waits for (w_failed | w_nobody); there: none; not there: w_failed, w_nobody" in explained


async def test_every_event_is_taken_once_whatever_waits(here: Stack, tmp_path: Path) -> None:
    await registered(here, tmp_path, """
with DAG("t_all", schedule=[Asset("t_a"), Asset("t_b")], max_active_runs=1):
    EmptyOperator(task_id="x")
with DAG("t_airflow", schedule=[Asset("t_a")], asset_backlog="airflow"):
    EmptyOperator(task_id="x")
""")  # fmt: skip
    tidemill = here.tidemill
    await eventually(lambda: known_to(here, "t_a"), lambda found: found == ("t_airflow", "t_all"))
    await tidemill.assets.emit("t_a", cause="1", extra={"n": 1})
    await runs_of(here, "t_airflow", 1)
    await tidemill.dags.pause("t_airflow")
    await tidemill.dags.pause("t_all")
    assert await tidemill.assets.emit("t_a", cause="1") is None
    await tidemill.assets.emit("t_a", cause="2")
    await tidemill.assets.emit("t_a", cause="3")
    await eventually(lambda: known_to(here, "t_b"), lambda found: found == ("t_all",))
    await tidemill.assets.emit("t_b", cause="4")
    await tidemill.dags.pause("t_all", paused=False)
    await tidemill.dags.pause("t_airflow", paused=False)
    [run] = await runs_of(here, "t_all", 1)
    assert causes(run.run) == ["1", "2", "3", "4"]
    assert len(await tidemill.runs.list("t_airflow")) == 1  # what came while it was paused wakes it not, as in Airflow
    await tidemill.assets.emit("t_a", cause="5")
    runs = await runs_of(here, "t_airflow", 2)
    assert [causes(run.run) for run in runs] == [["1"], ["2", "3", "5"]]


async def known_to(here: Stack, name: str) -> tuple[str, ...]:
    try:
        return (await here.tidemill.assets.describe(name)).consumers
    except NotFoundError:
        return ()


async def test_aliases_references_partitions_and_time(here: Stack, tmp_path: Path) -> None:
    await registered(here, tmp_path, """
with DAG("p_alias"):
    @task(outlets=[AssetAlias("p_found")])
    def find(outlet_events=None):
        outlet_events[AssetAlias("p_found")].add(Asset("p_new"), extra={"n": 1})
        yield Metadata(Asset("p_other"), {"n": 2}, alias=AssetAlias("p_found"))
        yield "a result"
    find()
with DAG("p_by_alias", schedule=AssetAlias("p_found")):
    EmptyOperator(task_id="x")
with DAG("p_by_ref", schedule=Asset.ref(name="p_new")):
    EmptyOperator(task_id="x")
days = RollupMapper(upstream_mapper=StartOfDayMapper(input_format="%Y-%m-%dT%H"), window=DayWindow())
with DAG("p_daily", schedule=PartitionedAssetTimetable(assets=[Asset("p_hourly")], default_partition_mapper=days)):
    BashOperator(task_id="x", bash_command="echo {{ partition_key }} {{ partition_date | ds }}")
@asset(schedule=None)
def p_made(outlet_events, self):
    outlet_events[self].add_partitions(["a", "b"])
yearly = CronTrigger(expression="0 0 1 1 *")
with DAG("p_time", schedule=AssetOrTimeSchedule(timetable=yearly, assets=[Asset("p_hourly")]),
         start_date=datetime(2026, 1, 1)):
    EmptyOperator(task_id="x")
""")  # fmt: skip
    await here.tidemill.runs.trigger("p_alias", TriggerRequest(run_id="one"))
    await told_of(here, "p_new", 1)
    await told_of(here, "p_other", 1)
    seen = await eventually(
        lambda: runs_of(here, "p_by_alias", 1),
        lambda found: sum(len(run.run.asset_events) for run in found) == 2,
    )
    events = [event for run in seen for event in run.run.asset_events]
    assert sorted((event.name, event.extra["n"]) for event in events) == [("p_new", 1), ("p_other", 2)]
    assert {event.aliases for event in events} == {("p_found",)}
    [ref] = await runs_of(here, "p_by_ref", 1)
    assert ref.run.asset_events == ()
    await eventually(lambda: known_to(here, "p_hourly"), lambda found: found == ("p_daily", "p_time"))
    for hour in range(24):
        assert await here.tidemill.runs.list("p_daily") == []
        await here.tidemill.assets.emit("p_hourly", partition_key=f"2026-01-05T{hour:02}", cause=str(hour))
    [daily] = await runs_of(here, "p_daily", 1)
    assert (daily.run.partition_key, len(daily.run.asset_events)) == ("2026-01-05", 24)
    assert await here.result_of(daily, "x") == "2026-01-05 2026-01-05"
    await here.tidemill.assets.emit("p_hourly", cause="plain")
    by_time = await runs_of(here, "p_time", 2)
    assert sorted(run.run.run_type for run in by_time) == ["asset_triggered", "scheduled"]
    await here.tidemill.runs.trigger("p_made", TriggerRequest(run_id="one"))
    await told_of(here, "p_made", 2)
    found = await here.tidemill.assets.events("p_made")
    assert [event.partition_key for event in found] == ["a", "b"]


async def test_what_is_wrong_with_assets_is_said(here: Stack, tmp_path: Path) -> None:
    for text, said in (
        ("with DAG('d', schedule=Asset(' ')): EmptyOperator('a')", "nothing but blanks"),
        ("with DAG('d', schedule=[Asset('airflow://x')]): EmptyOperator('a')", "is reserved"),
        ("with DAG('d', schedule=Asset('pg://u:pw@h/db')): EmptyOperator('a')", "has a password in it"),
        ("with DAG('d'): EmptyOperator('a', outlets=['x'])", "'x' is no asset. Write Asset('x')"),
        ("with DAG('d', schedule=AssetAny(*[Asset(str(n)) for n in range(1001)])): EmptyOperator('a')", "1,001 assets"),
    ):
        file = tmp_path / "dags.py"
        file.write_text(HEAD + text)
        [parsed] = each_dag_file(file)
        assert said in str(parsed.error)
    await registered(here, tmp_path, """
with DAG("e_writer"):
    @task(outlets=[Asset("e_a")])
    def unknown(outlet_events=None):
        outlet_events[Asset("e_b")].extra = {}
    @task(outlets=[Asset("e_a")])
    def large(outlet_events=None):
        outlet_events[Asset("e_a")].extra = {"x": "y" * 40_000}
    unknown()
    large()
""")  # fmt: skip
    await here.tidemill.runs.trigger("e_writer", TriggerRequest(run_id="one"))
    details = await here.finished("e_writer", "one")
    errors = {task.task_id: str(task.error) for task in details.tasks}
    assert "'e_b' is no outlet of this task, which has e_a" in errors["unknown"]
    assert "extra has 40,009 bytes, and may have 32,768" in errors["large"]
    with pytest.raises(NotFoundError):
        await here.tidemill.assets.emit("e_nobody")
    with pytest.raises(InvalidInputError, match="extra has"):
        await here.tidemill.assets.emit("e_a", extra={"x": "y" * 40_000})
    assert "is no JSON object" in await told(here, "assets", "emit", "e_a", "--extra", "[1]", code=1)


async def test_dags_that_come_and_go(here: Stack, tmp_path: Path) -> None:
    """An asset forgets who is gone; who is made anew is told again, also by an asset that was ended meanwhile."""
    text = "with DAG('g_%s', schedule=Asset('g_a')):\n    EmptyOperator(task_id='x', outlets=[Asset('g_b')])\n"
    for name in ("ended", "deleted", "stays"):
        await registered(here, tmp_path, text % name)
    await eventually(lambda: known_to(here, "g_a"), lambda found: len(found) == 3)
    await here.tidemill.client.get_workflow_handle("dag:g_ended").terminate()
    await here.tidemill.dags.delete("g_deleted")
    await here.tidemill.assets.emit("g_a", cause="1")
    await runs_of(here, "g_stays", 1)
    await eventually(lambda: known_to(here, "g_a"), lambda found: found == ("g_stays",))
    assert [*(await here.tidemill.assets.describe("g_b")).producers] != ["g_deleted"]
    await here.tidemill.client.get_workflow_handle("asset:g_a").terminate()
    await registered(here, tmp_path, text.replace("'x'", "'y'") % "stays")
    await eventually(lambda: known_to(here, "g_a"), lambda found: found == ("g_stays",))
    await here.tidemill.assets.emit("g_a", cause="2")
    assert [causes(run.run) for run in await runs_of(here, "g_stays", 2)] == [["1"], ["2"]]
    await registered(here, tmp_path, "with DAG('g_stays', schedule=Asset('g_c')): EmptyOperator(task_id='x')\n")
    await eventually(lambda: known_to(here, "g_c"), lambda found: found == ("g_stays",))
    await eventually(lambda: known_to(here, "g_a"), lambda found: found == ())


@pytest.mark.thorough
async def test_a_chain_and_a_diamond_survive_kills(server: str, tmp_path: Path) -> None:
    """Workers are killed again and again; every event of the first asset is taken once by each that waits for it."""
    n = 12
    queue = f"test-{uuid.uuid4().hex[:8]}"
    client = await Client.connect(server, plugins=[TidemillPlugin(tmp_path / "own")])
    here = Stack(Tidemill(client, queue), server, tmp_path / "home", queue)
    env = worker_environment(server, tmp_path / "home", queue)
    try:
        with worker_process(env) as worker:
            await registered(here, tmp_path, """
top = Asset("k_top")
for side in ("k_left", "k_right"):
    with DAG(side, schedule=[top], max_active_runs=2, heartbeat_timeout=timedelta(seconds=4)):
        BashOperator(task_id="x", bash_command="true", outlets=[Asset(side + "_done")])
with DAG("k_bottom", schedule=Asset("k_left_done") | Asset("k_right_done")):
    EmptyOperator(task_id="x", outlets=[Asset("k_end")])
""")  # fmt: skip
            await eventually(lambda: known_to(here, "k_top"), lambda found: found == ("k_left", "k_right"))
            for number in range(n // 2):
                await here.tidemill.assets.emit("k_top", cause=str(number))
            worker.kill()
        for part in range(3):
            with worker_process(env) as worker:
                for number in range(n // 2 + 2 * part, n // 2 + 2 * part + 2):
                    await here.tidemill.assets.emit("k_top", cause=str(number))
                    assert await here.tidemill.assets.emit("k_top", cause=str(number)) is None
                worker.kill()
        with worker_process(env):
            for side in ("k_left", "k_right"):
                taken = await eventually(lambda: all_taken(here, side), lambda found: len(found) >= n)  # noqa: B023
                assert taken == [str(number) for number in range(n)]
            runs = sum([len(await here.tidemill.runs.list(side)) for side in ("k_left", "k_right")])
            ends = await eventually(lambda: all_taken(here, "k_bottom"), lambda found: len(found) >= runs)
            assert len(ends) == len(set(ends)) == runs
    finally:
        await end_workflows(client, queue)


async def all_taken(here: Stack, dag_id: str) -> list[str]:
    """The events that the ended runs of a DAG have taken, in the order of the runs."""
    views = sorted(await here.tidemill.runs.list(dag_id), key=lambda view: (view.run_after, view.queued_at))
    runs = [await here.tidemill.runs.describe(dag_id, view.run_id) for view in views if view.state.finished]
    return [event.cause for run in runs for event in run.run.asset_events]
