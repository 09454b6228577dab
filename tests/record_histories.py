"""Records histories of real workflows for the replay tests: `make histories`.

A recorded history is a promise: whatever it tells of may be running somewhere. A change that cannot replay one of
them needs a patch marker in the workflow. Those of the release before the last go with its arms (docs/upgrading.md).
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "airflow"))
from airflow_stack import DAGS, airflow_place, read_file, register
from support import Stack, bash, dag, empty, eventually, stack, temporal_server
from tidemill.model.bundle.data import BundleSettings
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.pool.state import PoolSettings
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.messages import Answer
from tidemill.model.run.revisions import ClearRequest, MarkRequest, RunMark
from tidemill.model.states import TaskState

FOLDER = Path(__file__).parent / "histories"
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


async def catching_up(here: Stack) -> None:
    """Catchup, a limit, a failure, a retry; triggers by signal and update, good and bad; a new version; pauses."""
    start = (TODAY - timedelta(days=6)).isoformat()
    tasks = [
        bash("first", "echo 1"),
        bash("second", "echo {{ ti.xcom_pull('first') }}", "first"),
        bash("flaky", "exit 1", "first", retries=1, retry_delay=1),
        empty("end", "second", "flaky", trigger_rule="all_done"),
    ]
    spec = dag("recorded", tasks, schedule="@daily", start_date=start, catchup=True, max_active_runs=2)
    await here.tidemill.dags.register(spec)
    await here.all_finished("recorded", 6)
    handle = here.tidemill.client.get_workflow_handle("dag:recorded")
    await handle.signal("trigger", {"run_id": "by_signal", "conf": {"x": 1}})
    await handle.signal("trigger", {"nonsense": 1})
    await here.finished("recorded", "by_signal")
    await here.tidemill.dags.pause("recorded")
    await here.tidemill.runs.trigger("recorded")
    await here.tidemill.dags.pause("recorded", False)
    await here.tidemill.dags.register(
        dag("recorded", tasks[:2], schedule="@hourly", start_date=start, max_active_runs=3)
    )
    await eventually(lambda: here.tidemill.dags.describe("recorded"), lambda v: v.next_dagrun_note.startswith("due"))
    await here.all_finished("recorded", 7)


async def all_kinds(here: Stack) -> None:
    """Mapped tasks, pools, waits, approvals, notices; tasks that depend on the past; clearing and marking."""
    told = {"on_failure_callback": [{"kind": "command", "command": "true"}]}
    await here.tidemill.pools.configure("recorded", PoolSettings(slots=2))
    start = (TODAY - timedelta(days=2)).isoformat()
    tasks = [
        bash("past", "true", depends_on_past=True),
        bash("each", "x", "past", expand={"by": {"command": ["echo 1", "echo 2"]}, "into": "fields"}, pool="recorded"),
        {"kind": "wait_until", "task_id": "wait", "delta": 1, "upstream": ["past"]},
        bash("limited", "exit 1", "each", max_active_tis_per_dag=1, callbacks=told),
        {"kind": "approval", "task_id": "ask", "upstream": ["wait"]},
        empty("end", "limited", "ask", trigger_rule="all_done"),
    ]
    spec = dag("kinds", tasks, schedule="@daily", start_date=start, catchup=True, max_active_runs=2, callbacks=told)
    await here.tidemill.dags.register(spec)
    runs = await eventually(lambda: here.tidemill.runs.list("kinds"), lambda found: len(found) == 2)
    for run in reversed(runs):
        await eventually(
            lambda run_id=run.run_id: here.tidemill.runs.describe("kinds", run_id),  # type: ignore[misc]
            lambda found: any(task.state == "awaiting_input" for task in found.tasks),
        )
        await here.tidemill.tasks.respond("kinds", run.run_id, Answer(task="ask", chosen=("Approve",)))
        await here.finished("kinds", run.run_id)
    await here.tidemill.runs.clear("kinds", runs[0].run_id, ClearRequest(tasks=("limited",), downstream=True))
    await here.all_finished("kinds", 2)
    await here.tidemill.runs.mark("kinds", runs[0].run_id, RunMark(state=TaskState.FAILED))
    await eventually(lambda: here.tidemill.runs.find("kinds", runs[0].run_id), lambda run: run.state == "failed")


async def files_and_spark(here: Stack, folder: Path) -> None:
    """A folder whose file is changed, broken, mended and removed; Spark on this host, published and cancelled."""
    folder.mkdir()
    file = folder / "recorded_file.py"
    quick = {"dag_dir_list_interval": 1, "min_file_process_interval": 0, "stale_dag_threshold": 0}
    settings = {"name": "recorded", "path": str(folder), **quick}
    file.write_text(DAG_FILE.format(command="echo one"))
    await here.tidemill.bundles.configure(BundleSettings.model_validate(settings))
    for text in (DAG_FILE.format(command="echo two"), "1 / 0\n", DAG_FILE.format(command="echo three")):
        await here.tidemill.bundles.look("recorded")
        file.write_text(text)
    await here.tidemill.bundles.refresh("recorded")
    await here.finished("recorded_file", (await here.tidemill.runs.trigger("recorded_file")).run_id)
    file.unlink()
    await eventually(lambda: here.tidemill.dags.describe("recorded_file"), lambda view: view.is_stale)
    written = {"kind": "spark_sql", "task_id": "write", "sql": "select 1 as one", "spark": {"master": "local[1]"}}
    spark = dag("spark", [{**written, "output": str(folder / "one")}, {**written, "task_id": "late", "sql": SLOW}])
    await here.tidemill.dags.register(spark)
    run = await here.tidemill.runs.trigger("spark")
    await eventually(
        lambda: here.tidemill.runs.describe("spark", run.run_id),
        lambda found: found.tasks[0].state == "success" and "stage" in (found.tasks[1].progress or {}),
    )
    await here.tidemill.runs.cancel("spark", run.run_id)
    await here.finished("spark", run.run_id)


async def assets(here: Stack) -> None:
    """A chain of two DAGs, one that is paused meanwhile, an alias, a partition, and a condition that changes."""
    a, b = ({"kind": "asset", "name": name, "uri": name} for name in ("recorded_a", "recorded_b"))
    alias = {"kind": "alias", "name": "recorded_alias"}
    await here.tidemill.dags.register(
        dag("assets_first", [empty("x", outlets=[a]), bash("y", "true", outlets=[a, alias])])
    )
    either = {"kind": "asset", "condition": {"kind": "any", "of": [a, alias]}}
    await here.tidemill.dags.register(dag("assets_second", [empty("x", outlets=[b])], schedule=either))
    both = {"kind": "asset", "condition": {"kind": "all", "of": [a, b]}}
    await here.tidemill.dags.register(dag("assets_third", [empty("x")], schedule=both, max_active_runs=1))
    parts = {"kind": "partitioned_asset", "partitioned": {"assets": b}}
    await here.tidemill.dags.register(dag("assets_parts", [empty("x")], schedule=parts))
    for n in range(3):
        await here.tidemill.runs.trigger("assets_first")
        await here.tidemill.dags.pause("assets_third", n == 1)
    await here.tidemill.dags.pause("assets_third", False)
    await here.all_finished("assets_second", 1)
    await here.all_finished("assets_third", 1)
    await here.tidemill.assets.emit("recorded_b", extra={"n": 1}, partition_key="k")
    await here.all_finished("assets_parts", 1)
    await here.tidemill.dags.register(dag("assets_third", [empty("x")], schedule={"kind": "asset", "condition": b}))
    await here.tidemill.assets.emit("recorded_b")
    await eventually(
        lambda: here.tidemill.assets.describe("recorded_a"), lambda view: "assets_third" not in view.consumers
    )
    await here.all_finished("assets_third", 2)


async def watched(here: Stack) -> None:
    """Files that arrive, a place that cannot be looked at, an asset that is late, one that is paused; partitions."""
    landing = here.home / "landing"
    landing.mkdir()
    (landing / "first.csv").write_text("1")
    trigger = {"kind": "files", "url": landing.as_uri(), "poll_interval": 0.5}
    nowhere = {"kind": "files", "url": "nosuch://place"}
    asset = {
        "kind": "asset",
        "name": "recorded_files",
        "freshness": 1,
        "on_late": [{"kind": "command", "command": "true"}],
        "watchers": [{"name": "landing", "trigger": trigger}, {"name": "nowhere", "trigger": nowhere}],
    }
    waiting = dag("watching", [empty("x")], schedule={"kind": "asset", "condition": asset})
    await here.tidemill.dags.register(waiting)
    await here.all_finished("watching", 1)
    (landing / "second.csv").write_text("2")
    await here.all_finished("watching", 2)
    await here.tidemill.assets.pause("recorded_files")
    await here.tidemill.assets.emit("recorded_files")
    await asyncio.sleep(2)
    await here.tidemill.assets.pause("recorded_files", False)
    await here.all_finished("watching", 3)
    (landing / "third.csv").write_text("3")
    await here.all_finished("watching", 4)
    await here.tidemill.dags.register(dag("watching", [empty("x")]))
    parts = {"kind": "cron_partition", "expression": "@daily", "key_format": "%Y-%m-%d"}
    await here.tidemill.dags.register(dag("parts", [empty("x")], schedule=parts, start_date="2099-01-01T00:00:00Z"))
    asked = BackfillRequest(from_date=TODAY - timedelta(days=6), to_date=TODAY - timedelta(days=2), max_active_runs=2)
    await here.tidemill.backfills.create("parts", asked)
    await here.all_finished("parts", 5)


async def airflow_files(here: Stack, folder: Path, out: Path) -> None:
    """Deferral in all its ends, pokes, a form, a failure that ends what waits, a mark; what triggers say of assets."""
    shutil.copytree(DAGS, folder)
    plugin: Any = here.tidemill.client.config()["plugins"][0]
    for name in ("waiting", "everything", "watched"):
        await register(here, (await asyncio.to_thread(read_file, plugin.place, folder / f"{name}.py")).values())
    for name in ("fires", "ends", "fails", "well", "badly", "silently", "begun_1", "poked"):
        (out / name).touch()
    for dag_id in ("deferring", "ended", "begun", "fails_fast", "taskflow"):
        run = await here.tidemill.runs.trigger(dag_id)
        await here.finished(dag_id, run.run_id)
    run = await here.tidemill.runs.trigger("killed")
    await eventually(
        lambda: here.tidemill.runs.describe("killed", run.run_id),
        lambda found: all(task.state == "deferred" for task in found.tasks),
    )
    await here.tidemill.tasks.mark("killed", run.run_id, MarkRequest(tasks=("wait",), state=TaskState.FAILED))
    await here.finished("killed", run.run_id)
    asking = await here.tidemill.runs.trigger("asking")
    await eventually(
        lambda: here.tidemill.runs.describe("asking", asking.run_id),
        lambda found: any(task.form for task in found.tasks),
    )
    await here.tidemill.tasks.respond("asking", asking.run_id, Answer(task="ask", chosen=("two",)))
    await here.finished("asking", asking.run_id)
    (out / "alone").write_text("first second")
    await here.all_finished("on_arrival", 1)


async def limited(here: Stack) -> None:
    """A limit of all tasks beside a pool and a task's own; two dates that are triggered at one instant."""
    await here.tidemill.pools.configure("narrow", PoolSettings(slots=1))
    tasks = [
        *(bash(f"pooled_{n}", "sleep 0.1", pool="narrow") for n in range(5)),
        *(bash(f"free_{n}", "true") for n in range(5)),
        bash("alone", "true", max_active_tis_per_dag=1),
        {"kind": "wait_until", "task_id": "wait", "delta": 1},
        empty("nothing"),
    ]
    await here.tidemill.dags.register(dag("limited", tasks))
    due = datetime.now(UTC) + timedelta(seconds=1)
    dates = [TODAY - timedelta(days=n) for n in (1, 2)]
    asked = [TriggerRequest(run_after=due, logical_date=date) for date in dates]
    await asyncio.gather(*(here.tidemill.runs.trigger("limited", request) for request in asked))
    await here.all_finished("limited", 2)


DAG_FILE = """
from tidemill import DAG, BashOperator
with DAG("recorded_file"):
    BashOperator("a", bash_command={command!r})
"""
SLOW = "select count(*) from range(100000000000)"


async def main(label: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, config in (("whole", {}), ("continued", {"limit.historyCount.suggestContinueAsNew": 30})):
            with temporal_server(Path(folder, name), **config) as address:
                async with stack(address, Path(folder, name, "home")) as here:
                    await catching_up(here)
                    await all_kinds(here)
                    await assets(here)
                    await watched(here)
                    await files_and_spark(here, Path(folder, name, "dags"))
                    await save(here.tidemill.client, f"{label}-{name}")
            await record_limited(label, name, Path(folder, name, "limited"), config)
            with temporal_server(Path(folder, name, "airflow"), **config) as address:
                out = Path(folder, name, "out")
                out.mkdir()
                os.environ["TEST_OUT"] = str(out)
                home = Path(folder, name, "airflow-home")
                async with stack(address, home, place=airflow_place(home)) as here:
                    await airflow_files(here, Path(folder, name, "airflow-dags"), out)
                    await save(here.tidemill.client, f"{label}-airflow-{name}")


async def record_limited(label: str, name: str, folder: Path, config: dict[str, Any]) -> None:
    with temporal_server(folder, **config) as address:
        async with stack(address, folder / "home", parallelism=2) as here:
            await limited(here)
            await save(here.tidemill.client, f"{label}-limited-{name}")


async def save(client: Client, label: str) -> None:
    """Every DAG's executions, and a few of the runs'."""
    FOLDER.mkdir(exist_ok=True)
    for kind, most in (("Dag", 14), ("DagRun", 16), ("Pool", 3), ("DagBundle", 3), ("Asset", 6), ("Watcher", 4)):
        found = [e async for e in client.list_workflows(f'WorkflowType = "{kind}"')]
        for n, execution in enumerate(sorted(found, key=lambda e: (e.start_time, e.run_id))[:most]):
            history = await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()
            path = FOLDER / f"{label}-{kind}-{n}.json"
            assert not path.exists(), f"{path} is there already: histories are only ever added"
            path.write_text(json.dumps(without_machine(json.loads(history.to_json())), indent=1) + "\n")


def without_machine(part: Any) -> Any:
    """*part* of a history without what only tells where it was recorded: stack traces and process names."""
    if isinstance(part, dict):
        told = {"stackTrace": "", "identity": "recorded"}
        return {key: told[key] if key in told else without_machine(value) for key, value in part.items()}
    return [without_machine(value) for value in part] if isinstance(part, list) else part


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else datetime.now(UTC).strftime("%Y%m%d")))
