"""Measures tidemill against its floor in one run: `make bench`. Prints a table, writes build/bench.json.

`make bench ARGS="crons idle backfill"` measures what takes long: minutes of crons, a thousand idle DAGs, 10,000 runs;
`make bench ARGS="spark tpch"` what tidemill adds to Spark, and TPC-H at the scale of its published answers;
`make bench ARGS=window` what is left of a Spark task whose worker is killed, beside Airflow's own operator;
`make bench ARGS=installation` a hundred DAG files with a worker in a process of its own;
`make bench ARGS=cli` what commands cost, and lists of 10,000 DAGs;
`make bench ARGS=airflow` a DAG file of Airflow's on tidemill, and on Airflow's own LocalExecutor;
`make bench ARGS=api` what pages of the web wait for, with 1,000 and 10,000 DAGs;
`make bench ARGS=assets` from data to the run that waits for it;
`make bench ARGS=files` folders of a thousand DAG files;
`make bench ARGS=cost` what runs cost a Temporal service in actions, events and bytes;
`make bench ARGS=workers` how throughput grows with workers;
`make bench ARGS=simulate` how long simulations take;
`make bench ARGS=shape` runs of 100, 1,000 and 5,000 tasks side by side, and many runs of large DAGs.

Absolute figures are this machine's, under whatever else it is doing; the ratios are what counts.
"""

import asyncio
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from temporalio.client import Client
from temporalio.worker import Worker

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))
from airflow_api import airflow_python, airflows
from airflow_tasks import airflow_tasks
from assets import assets
from cli import cli
from cost import cost
from figures import Figure, show, write
from files import dag_files
from floor import FloorCatchUp, FloorChain, FloorChains, FloorDue, FloorFan, FloorOne, noop
from installation import installation
from life import crons, idle
from properties.real import violated_by
from scheduling import backfill, catch_up, due_at_once
from simulation import simulation
from sizes import sizes
from spark import spark, tpch_at_scale_1
from spark_window import window
from tasks import shapes_of_tasks
from tidemill.activities.dag_files import parse_dag_file
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.tasks.foreign import OWN_WORKFLOWS
from tidemill.worker.app.dev import DevServer, dev_server
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin
from workers import workers

from api import web

ROOT = Path(__file__).parents[1]
ROUNDS = 5
DUE_AT_ONCE = (100, 500, 1000)
CAUGHT_UP = 1000
CRONS = 20
IDLE = 1000
BACKFILLED = 10_000
DAG_FILES = 1000
LISTED = (1000, 10_000)
LEFT_BEHIND = f"WorkflowType IN ({', '.join(f'{name!r}' for name in sorted(OWN_WORKFLOWS))})"
CHECKED = 300
"""Of so many workflows that were measured it is checked that they did what they should (docs/properties.md)."""
SHORT = ["isolated", "tasks", "due", "catch_up"]


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


async def measure(client: Client, tidemill: Tidemill, queue: str) -> list[Figure]:
    for spec in parse_dag_file(Path(__file__).with_name("shapes.py")).dags:
        await tidemill.dags.register(spec)

    async def by_hand(workflow: type, n: int) -> None:
        await client.execute_workflow(workflow.run, n, id=uuid.uuid4().hex, task_queue=queue)  # type: ignore[attr-defined]

    async def by_tidemill(dag_id: str) -> None:
        run = await tidemill.runs.trigger(dag_id, TriggerRequest(run_id=uuid.uuid4().hex))
        await tidemill.runs.wait(run)

    figures = []
    for name, dag_id, workflow, n, per in (
        ("chain of 20", "bench_chain_20", FloorChain, 20, 20),
        ("1 -> 200 -> 1", "bench_fan_200", FloorFan, 200, 202),
    ):
        await by_hand(workflow, n), await by_tidemill(dag_id)  # warm caches, fork servers and connections
        floor, ours = [], []
        for _ in range(ROUNDS):  # in turn, so that a busy moment hits both
            floor.append(await seconds(lambda: by_hand(workflow, n)))  # noqa: B023
            ours.append(await seconds(lambda: by_tidemill(dag_id)))  # noqa: B023
        figures.append(Figure(f"{name}, isolated Python tasks: total", "s", median(ours), median(floor)))
        figures.append(Figure(f"{name}: per task", "ms", 1000 * median(ours) / per, 1000 * median(floor) / per))
    return figures


async def main(parts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home, queue = Path(folder), f"bench-{uuid.uuid4().hex[:8]}"
        async with dev_server(home, ui=False) as server:
            client = await Client.connect(server.address, plugins=[TidemillPlugin(home)])
            floor = {
                "workflows": [FloorChain, FloorChains, FloorFan, FloorDue, FloorCatchUp, FloorOne],
                "activities": [noop],
            }
            async with Worker(client, task_queue=queue, max_concurrent_activities=200, **floor):  # type: ignore[arg-type]
                figures = await measured(parts, client, Tidemill(client, queue), queue, server)
            violated = await violated_by(client, LEFT_BEHIND, home, CHECKED)
    show(figures)
    if violated:
        sys.exit("\n".join(["what was measured was not right:", *violated[:10]]))
    write(figures, ROOT / "build" / "bench.json")


async def measured(parts: list[str], client: Client, tidemill: Tidemill, queue: str, server: DevServer) -> list[Figure]:
    work: dict[str, Callable[[], Awaitable[list[Figure]]]] = {
        "isolated": lambda: measure(client, tidemill, queue),
        "tasks": lambda: shapes_of_tasks(client, tidemill, queue),
        "due": lambda: due_at_once(client, tidemill, queue, DUE_AT_ONCE),
        "catch_up": lambda: catch_up(client, tidemill, queue, CAUGHT_UP),
        "crons": lambda: crons(client, tidemill, queue, CRONS),
        "cli": lambda: cli(client, server.address, LISTED),
        "installation": lambda: installation(client, server, server.log.parents[1]),
        "assets": lambda: assets(client, server, server.log.parents[1]),
        "api": lambda: web(client, server, server.log.parents[1], (20, *LISTED)),
        "airflow": lambda: airflow_tasks(server.address, server.log.parents[1]),
        "airflow_api": lambda: airflows(airflow_python(), server.log.parents[1], (20, *LISTED)),
        "shape": lambda: sizes(client, server, server.log.parents[1]),
        "cost": lambda: cost(client, tidemill),
        "simulate": simulation,
        "workers": lambda: workers(client, server.address, server.log.parents[1]),
        "idle": lambda: idle(tidemill, server.process.pid, IDLE),
        "backfill": lambda: backfill(tidemill, BACKFILLED),
        "spark": lambda: spark(server.address),
        "window": lambda: window(client, server.address),
        "files": lambda: dag_files(tidemill, DAG_FILES),
        "tpch": lambda: tpch_at_scale_1(tidemill),
    }
    unknown = [part for part in parts if part not in work]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: no such part. Choose from {', '.join(work)}")
    figures = []
    for part in parts or SHORT:
        found = await work[part]()
        show(found)  # already: what comes later may take long
        figures += found
    return figures


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
