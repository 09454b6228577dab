"""A storm: many DAGs on second-scale schedules, triggers, backfills, and files that are worked on, while workers and
the server are killed, and a pool, an asset and a bundle are ended. In its middle the last release is replaced by this
one, worker by worker.

Seeded and bounded. `make chaos` runs the long form; a short one is part of the tests.
"""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from temporalio import workflow
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # also when run as a program
from asset_storm import SOURCES, asset_dags, no_violations
from checker import Expected, Verdict, judge
from editor import Editor
from properties.real import violated_by
from support import bash, dag, empty, unpacked
from tidemill.activities.processes.supervised import start_supervised, stop
from tidemill.model.asset.state import asset_workflow_id
from tidemill.model.bundle.data import BundleSettings, bundle_workflow_id
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.errors import InvalidInputError
from tidemill.model.pool.state import PoolSettings, pool_workflow_id
from tidemill.model.run.identity import TriggerRequest
from tidemill.worker.app.dev import free_port, server_command
from tidemill.worker.client import Tidemill
from tidemill.worker.pictures.replay import has_begun
from tidemill.worker.plugin import TidemillPlugin
from tidemill.worker.service.connection import NotFoundError, NoWorkerError

QUEUE = "storm"
PROPERTIES_OF = 400
"""So many workflows are looked at after each of their steps; of a short storm, all."""
WORSE = (workflow.NondeterminismError, RuntimeError)
"""What a replay raises."""
CALLER = "caller"
POOL, SLOTS = "storm_pool", 4
LOST_AT = (0.8, 0.9)
"""After which share of the kills somebody ends the pool and the bundle."""
TIED_AGAIN = 720
"""In seconds: an asset that was ended is refused until a DAG ties itself to it anew, which takes ten minutes."""
WORKERS = 3
SERVER_SHARE = 0.1
SHAKEN = (RPCError, RuntimeError, NoWorkerError, NotFoundError, ConnectionError, asyncio.TimeoutError)


@dataclass
class Plan:
    """How hard it blows."""

    kills: int = 200
    dags: int = 50
    ticks: int = 30
    backfill_days: int = 60
    triggers: int = 40
    files: int = 10
    seed: int = 1
    pause_between_kills: float = 1.0
    suggest_continue_as_new: int = 60
    settle_within: float = 900
    upgrade: bool = False
    """Whether the first half is the last release's."""
    asset_events: int = 40
    """Events of each of the two assets that wake twenty DAGs, told while the last quarter is killed."""
    lost_assets: bool = False
    """Whether an asset is ended, too: it is tied anew within ten minutes."""
    callers: int = 64
    """Tasks of one run that each trigger a run of another DAG and wait for its end."""


@dataclass
class World:
    """The processes of a storm, each to be killed at any time."""

    folder: Path
    port: int
    plan: Plan
    server: "subprocess.Popen[bytes] | None" = None
    workers: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    last_release: Path | None = None
    """Where it is unpacked, as long as workers of it are started."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start_server(self) -> None:
        config: dict[str, object] = {"limit.historyCount.suggestContinueAsNew": self.plan.suggest_continue_as_new}
        place = self.folder / "temporal"
        place.mkdir(exist_ok=True)
        command = server_command(port=self.port, database=place / "temporal.db", ui_port=None, config=config)
        self.server = start_supervised(place, command, place / "server.log")

    def start_worker(self) -> None:
        env = {
            **os.environ,
            "TEMPORAL_ADDRESS": self.address,
            "TIDEMILL_HOME": str(self.folder / "home"),
            "TIDEMILL_TASK_QUEUE": QUEUE,
        }
        if self.last_release is not None:
            env["PYTHONPATH"] = str(self.last_release)
        command = [str(Path(sys.executable).with_name("tidemill")), "worker"]
        with (self.folder / "workers.log").open("ab") as log:
            self.workers.append(subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT))

    def kill_one(self, chance: random.Random) -> None:
        if chance.random() < SERVER_SHARE:
            self.kill_server()
            self.start_server()
        else:
            worker = self.workers.pop(chance.randrange(len(self.workers)))
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            self.kills["worker"] += 1
        self.replace_the_dead()

    def kill_server(self) -> None:
        assert self.server is not None
        claim = self.folder / "temporal" / "claim.json"
        import json

        deadline = time.monotonic() + 60
        while not claim.exists() and time.monotonic() < deadline:  # one that was killed just now is still starting
            time.sleep(0.1)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(json.loads(claim.read_text())["command"], signal.SIGKILL)
            self.kills["server"] += 1
        stop(self.server)

    def replace_the_dead(self) -> None:
        """A worker that cannot reach the server when it starts gives up: whoever runs it starts it again."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) < WORKERS:
            self.start_worker()

    def replace_old(self) -> None:
        """Has no worker left of the last release."""
        for worker in self.workers:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        self.replace_the_dead()

    def end(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()
        if self.server is not None:
            stop(self.server)


async def again(attempt: Any, within: float = 120) -> Any:
    """Asks until it is answered: whoever uses a service that is being killed has to."""
    deadline = time.monotonic() + within
    while True:
        try:
            return await attempt()
        except SHAKEN:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.3)


async def connect(world: World) -> Tidemill:
    async def attempt() -> Client:
        client = await Client.connect(world.address, plugins=[TidemillPlugin(world.folder / "client")])
        await client.count_workflows()
        return client

    return Tidemill(await again(attempt), QUEUE)


async def register_all(tidemill: Tidemill, plan: Plan, chance: random.Random) -> dict[str, Expected]:
    """DAGs whose every run is known beforehand: each has a first and a last tick."""
    expected: dict[str, Expected] = {}
    now = datetime.now(UTC).replace(microsecond=0)
    await again(lambda: tidemill.pools.configure(POOL, PoolSettings(slots=SLOTS)))
    for n in range(plan.dags):
        step, limit = chance.choice([1, 2, 3]), chance.choice([1, 2, 4])
        start = now - timedelta(seconds=chance.randrange(30))
        start -= timedelta(seconds=start.second % step)
        end = start + timedelta(seconds=step * (plan.ticks - 1))
        work = bash("work", "true", pool=POOL)
        tasks = [work, empty("end", "work")] if n % 5 == 0 else [empty("only")]
        spec = dag(
            f"storm_{n}", tasks, schedule=f"* * * * * */{step}", start_date=start.isoformat(),
            end_date=end.isoformat(), catchup=True, max_active_runs=limit,
        )  # fmt: skip
        ticks = {start + timedelta(seconds=step * i) for i in range(plan.ticks)}
        expected[spec.dag_id] = Expected({t.isoformat().replace("+00:00", "Z") for t in ticks}, max_active_runs=limit)
        await again(lambda spec=spec: tidemill.dags.register(spec))
    today = now.replace(hour=0, minute=0, second=0)
    for n, backwards in enumerate((False, True)):
        spec = dag(f"filled_{n}", [empty("only")], schedule="@daily", start_date=today.isoformat())
        days = [today - timedelta(days=i + 2) for i in range(plan.backfill_days)]
        expected[spec.dag_id] = Expected(
            backfilled={day.isoformat().replace("+00:00", "Z") for day in days}, backfill_limit=3
        )
        await again(lambda spec=spec: tidemill.dags.register(spec))
        asked = BackfillRequest(from_date=days[-1], to_date=days[0], run_backwards=backwards, max_active_runs=3)
        await create_once(tidemill, spec.dag_id, asked)
    await register_callers(tidemill, plan, expected)
    return expected


async def register_callers(tidemill: Tidemill, plan: Plan, expected: dict[str, Expected]) -> None:
    """One DAG whose tasks all trigger runs of another at once, and wait."""
    run_ids = [f"called_{n}" for n in range(plan.callers)]
    tasks = [
        {
            "kind": "trigger_dag",
            "task_id": name,
            "trigger_dag_id": "called",
            "trigger_run_id": name,
            "wait_for_completion": True,
        }
        for name in run_ids
    ]
    await again(lambda: tidemill.dags.register(dag("called", [bash("work", "true")], max_active_runs=8)))
    await again(lambda: tidemill.dags.register(dag(CALLER, tasks, max_active_tasks=500)))
    expected["called"] = Expected(triggered=set(run_ids), max_active_runs=8)
    expected[CALLER] = Expected(triggered={"all_at_once"})


async def create_once(tidemill: Tidemill, dag_id: str, asked: BackfillRequest) -> None:
    """A backfill has no id of the caller's: whoever was not answered looks before asking again."""

    async def attempt() -> None:
        if not await tidemill.backfills.list(dag_id):
            await tidemill.backfills.create(dag_id, asked)

    await again(attempt)


async def trigger_some(tidemill: Tidemill, plan: Plan, expected: dict[str, Expected], chance: random.Random) -> None:
    for n in range(plan.triggers):
        dag_id = chance.choice([name for name in expected if name.startswith("storm_")])
        run_id = f"by_hand_{n}"
        expected[dag_id].triggered.add(run_id)

        await trigger_once(tidemill, dag_id, run_id)
        await asyncio.sleep(chance.random())


async def trigger_once(tidemill: Tidemill, dag_id: str, run_id: str) -> None:
    async def attempt() -> None:
        try:
            await tidemill.runs.trigger(dag_id, TriggerRequest(run_id=run_id))
        except InvalidInputError as error:  # the answer to an earlier attempt was lost, not the run
            if "is taken by" not in str(error):
                raise

    await again(attempt)


async def lose(tidemill: Tidemill, bundle: BundleSettings) -> None:
    """Ends the pool and the bundle from Temporal, and makes them again as an operator does who sees that."""
    for workflow_id in (pool_workflow_id(POOL), bundle_workflow_id(bundle.name)):
        await end(tidemill, workflow_id)
    await again(lambda: tidemill.pools.configure(POOL, PoolSettings(slots=SLOTS)))
    await again(lambda: tidemill.bundles.configure(bundle))


async def end(tidemill: Tidemill, workflow_id: str) -> None:
    async def attempt() -> None:
        try:
            await tidemill.client.get_workflow_handle(workflow_id).terminate("an operator's mistake")
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:  # the answer to an earlier attempt was lost
                raise

    await again(attempt)


async def blow(
    world: World, tidemill: Tidemill, chance: random.Random, emitted: dict[str, list[str]], bundle: BundleSettings
) -> None:
    """Kills one after the other. Half way, those that take the place of the killed are of this release."""
    losses = [int(world.plan.kills * share) for share in LOST_AT]
    acting: list[asyncio.Task[None]] = []
    for n in range(world.plan.kills):
        if n == world.plan.kills * 3 // 4:
            world.replace_old()  # the last release knows no assets
            acting.append(asyncio.create_task(tell_assets(tidemill, emitted, world.plan)))
        if n in losses:  # the last release does not find its way back
            acting.append(asyncio.create_task(lose(tidemill, bundle)))
        if n == world.plan.kills // 2:
            world.last_release = None
            acting.append(asyncio.create_task(trigger_once(tidemill, CALLER, "all_at_once")))
        await asyncio.sleep(world.plan.pause_between_kills * (0.3 + chance.random()))
        await asyncio.to_thread(world.kill_one, chance)
    world.replace_old()
    await asyncio.gather(*acting)


async def tell_assets(tidemill: Tidemill, emitted: dict[str, list[str]], plan: Plan) -> None:
    """Registers the DAGs that wait for assets, and tells the first of those of events."""
    for spec, _ in asset_dags().values():
        await again(lambda spec=spec: tidemill.dags.register(spec))
    for name in SOURCES:
        await again(lambda name=name: all_wait(tidemill, name))
    if plan.lost_assets:
        await end(tidemill, asset_workflow_id(SOURCES[-1]))
    for number in range(plan.asset_events):
        for name in SOURCES:
            await tell_asset(tidemill, emitted, name, f"event {number}")
        await asyncio.sleep(0.2)


async def all_wait(tidemill: Tidemill, name: str) -> None:
    """Raises NotFoundError as long as nobody waits for the asset."""
    if not (await tidemill.assets.describe(name)).consumers:
        raise NotFoundError(name)


async def tell_asset(tidemill: Tidemill, emitted: dict[str, list[str]], name: str, cause: str) -> None:
    emitted.setdefault(name, []).append(cause)
    await again(lambda: tidemill.assets.emit(name, cause=cause), TIED_AGAIN)


async def settle(tidemill: Tidemill, expected: Iterable[str], within: float) -> None:
    """Waits until nothing is due, queued or running any more."""
    deadline = time.monotonic() + within
    for dag_id in expected:
        while True:
            view = await again(lambda dag_id=dag_id: tidemill.dags.describe(dag_id))
            backfills = await again(lambda dag_id=dag_id: tidemill.backfills.list(dag_id))
            due = view.next_dagrun_create_after is not None and view.next_dagrun_create_after <= datetime.now(UTC)
            if not (view.active_runs or view.queued_runs or due or any(b.completed_at is None for b in backfills)):
                break
            assert time.monotonic() < deadline, f"{dag_id} does not settle: {view}"
            await asyncio.sleep(0.5)


async def in_order(tidemill: Tidemill, dag_ids: Iterable[str], within: float) -> None:
    """Waits until the DAGs know that their files are there and sound."""
    deadline = time.monotonic() + within
    for dag_id in dag_ids:
        while True:
            view = await again(lambda dag_id=dag_id: tidemill.dags.describe(dag_id))
            if not (view.is_stale or view.has_import_errors):
                break
            assert time.monotonic() < deadline, f"{dag_id} has not heard that its file is in order: {view}"
            await asyncio.sleep(0.5)


async def storm(plan: Plan, folder: Path) -> tuple[Verdict, Counter[str]]:
    """Runs a storm in *folder* and judges it."""
    chance = random.Random(plan.seed)
    world = World(folder, free_port(), plan)
    world.start_server()
    if plan.upgrade:
        world.last_release = unpacked(folder / "last_release")
    try:
        world.replace_the_dead()
        tidemill = await connect(world)
        expected = await register_all(tidemill, plan, chance)
        editor = Editor(folder / "dags", random.Random(plan.seed + 2), files=plan.files, ticks=plan.ticks)
        edited = editor.begin()
        emitted: dict[str, list[str]] = {}
        await again(lambda: tidemill.bundles.configure(editor.settings()))
        over = asyncio.Event()
        editing = asyncio.create_task(editor.work(over))
        await asyncio.gather(
            blow(world, tidemill, chance, emitted, editor.settings()),
            trigger_some(tidemill, plan, expected, random.Random(plan.seed + 1)),
        )
        over.set()
        await editing
        await in_order(tidemill, edited, plan.settle_within)
        expected |= edited
        last = max(datetime.fromisoformat(max(e.scheduled)) for e in expected.values() if e.scheduled)
        await asyncio.sleep(max(0.0, (last - datetime.now(UTC)).total_seconds() + 4))
        await settle(tidemill, expected, plan.settle_within)
        for dag_id in ("filled_0", "filled_1"):  # their own schedule made yesterday's run, which the backfill left out
            yesterday = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
            expected[dag_id].scheduled |= {
                run.logical_date.isoformat().replace("+00:00", "Z")
                for run in await again(lambda dag_id=dag_id: tidemill.runs.list(dag_id))
                if run.run_type == "scheduled" and run.logical_date == yesterday
            }
        await asyncio.sleep(2)  # visibility lags
        verdict = await judge(tidemill.client, expected)
        verdict.violations += await astray(tidemill, emitted, plan.settle_within)
        verdict.violations += await not_replayed(tidemill.client, folder / "replay")
        verdict.violations += await violated_by(
            tidemill.client, f'TaskQueue = "{QUEUE}"', folder / "replay", PROPERTIES_OF
        )
        return verdict, world.kills
    finally:
        world.end()


async def astray(tidemill: Tidemill, emitted: dict[str, list[str]], within: float) -> list[str]:
    """Events of assets that were not taken, or twice, or early."""
    await settle(tidemill, asset_dags(), within)
    await asyncio.sleep(2)
    # What one side of the diamond has had more than another is taken with the last event.
    await tell_asset(tidemill, emitted, "top", "the last")
    return await no_violations(tidemill.client, emitted, within)


async def not_replayed(client: Client, home: Path) -> list[str]:
    """The workflows whose histories, by whatever releases, today's code decides otherwise than they say."""
    replayer = Replayer(workflows=[], plugins=[TidemillPlugin(home)])
    told = []
    async for found in client.list_workflows(f'TaskQueue = "{QUEUE}"'):
        history = await client.get_workflow_handle(found.id, run_id=found.run_id).fetch_history()
        if not has_begun(history):
            continue
        try:
            await replayer.replay_workflow(history)
        except WORSE as error:
            told.append(f"{found.id} does not replay: {error}")
            home.parent.joinpath(f"{found.run_id}.json").write_text(history.to_json())
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--dags", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-upgrade", action="store_true")
    options = parser.parse_args()
    plan = Plan(kills=options.kills, dags=options.dags, seed=options.seed, upgrade=not options.without_upgrade)
    plan.lost_assets = True
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        verdict, kills = asyncio.run(storm(plan, Path(folder)))
    print(f"seed {plan.seed}: {plan.dags} DAGs, {kills['worker']} workers and {kills['server']} servers killed")
    print(f"{verdict.runs} runs in {verdict.executions} executions, {verdict.dag_executions} executions of DAGs")
    print(f"{len(verdict.violations)} violations, {time.monotonic() - started:.0f} s")
    for violation in verdict.violations:
        print(" ", violation)
    sys.exit(1 if verdict.violations else 0)


if __name__ == "__main__":
    main()
