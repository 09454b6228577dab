"""`tidemill worker`, `dev`, `demo` and `cleanup`: the commands that run things."""

import asyncio
import logging
from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from ...activities.spark.archive import build_archive
from ...activities.worker_context import find_java
from ...model.spec.tasks import SparkOptions
from ..app.dev import dev_server
from ..app.doctor import all_checks
from ..app.process import plugin_for, running_worker, until_stopped
from ..client import Tidemill
from ..local.folder import keep_looking_after, look_after, register_folder, watch_folder
from ..service.cleanup import Removed, clean_lake, known_to_temporal
from ..service.cleanup import cleanup as clean
from ..settings.dev_address import remembered
from ..settings.dev_store import make_dev_store
from ..settings.home import make_home
from ..settings.reading import Settings
from ..spark.connect_server import CONNECTION, connect_server
from ..spark.presence import lacks_for_spark
from .demo_run import Demo
from .durations import read_duration
from .home import Home, set_up_logging, with_home
from .output import Json, console, fail, make_table, print_json, run

SHORT_JOBS = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Drivers that end within seconds do not live to see what Java's second compiler is for."""


def worker(
    home: Home = None,
    run_duration: Annotated[
        float | None, typer.Option(min=0, help="Seconds after which it stops as at SIGTERM; it runs on by default.")
    ] = None,
    num_runs: Annotated[str | None, typer.Option(hidden=True)] = None,
    dag_ids: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a worker: it polls the task queue until it is stopped by SIGINT or SIGTERM."""
    if num_runs is not None:
        fail("--num-runs: there is no scheduler loop to count. Use --run-duration SECONDS; in tests, dag.test()")
    if dag_ids is not None:
        fail(
            "--dag-ids: a worker takes all work of its task queue. Register these DAGs with a TIDEMILL_TASK_QUEUE of "
            "their own, and start workers with the same"
        )
    settings = with_home(home)
    set_up_logging(settings.log_format)
    make_home(settings)

    async def work() -> None:
        running: list[asyncio.Task[None]] = []
        async with running_worker(settings) as tidemill:
            if settings.dags_folder is not None:
                folder = settings.dags_folder.absolute()
                await look_after(tidemill, folder, settings.bundle)
                running.append(asyncio.create_task(keep_looking_after(tidemill, folder, settings.bundle)))
            if settings.cleanup_older_than_days is not None:
                running.append(asyncio.create_task(cleaning_up(tidemill, settings)))
            console.print(f"worker polls task queue {settings.task_queue!r}; stop it with Ctrl-C")
            try:
                await until_stopped(timedelta(seconds=run_duration) if run_duration is not None else None)
            finally:
                for task in running:
                    task.cancel()

    run(work())


async def cleaning_up(tidemill: Tidemill, settings: Settings) -> None:
    """Removes what is too old, once an hour, until cancelled."""
    assert settings.cleanup_older_than_days is not None  # noqa: S101
    age, place = timedelta(days=settings.cleanup_older_than_days), plugin_for(settings).place
    log = logging.getLogger(__name__)
    while True:
        try:
            known = await known_to_temporal(tidemill.client)
            removed = await asyncio.to_thread(clean, place, known, age)
            if removed:
                log.info("removed %d things older than %s, %d bytes", len(removed), age, sum(t.size for t in removed))
        except Exception as error:  # the store, or Temporal, may be there again in an hour
            log.warning("nothing could be cleaned up: %s; trying again in an hour", error)
        await asyncio.sleep(3600)


def dev(
    dags: Annotated[Path, typer.Argument(help="The folder of DAG files.", exists=True)],
    port: Annotated[int, typer.Option(help="The port of the Temporal service.")] = 7233,
    ui_port: Annotated[int, typer.Option(help="The port of Temporal's UI.")] = 8233,
    api_port: Annotated[int, typer.Option(help="The port of the API and of Airflow's user interface.")] = 8080,
    spark: Annotated[
        bool, typer.Option(help="Keep a Spark Connect server warm, for tasks with conn_id='connect'.")
    ] = True,
    home: Home = None,
) -> None:
    """Run everything for daily use on one machine: Temporal, a worker, Spark Connect, and a folder of DAGs."""
    from .web import port_of_web, web_for_dev

    settings = with_home(home)
    set_up_logging(settings.log_format)
    web_port = port_of_web(api_port)
    base_url = settings.base_url or (f"http://127.0.0.1:{web_port}" if web_port is not None else None)
    settings = settings.model_copy(update={"dags_folder": dags, "drain_seconds": 0, "base_url": base_url})
    make_home(settings)
    make_dev_store(settings.home.resolve())

    async def work() -> None:
        async with AsyncExitStack() as running:
            dev_settings = settings
            missing = lacks_for_spark() if spark else None
            if missing is not None:
                console.print(f"Spark        none: {missing}. Tasks with conn_id {CONNECTION!r} fail", soft_wrap=True)
            elif spark and CONNECTION not in settings.spark_connections:
                url = await running.enter_async_context(connect_server(settings.home.resolve()))
                known = {**settings.spark_connections, CONNECTION: SparkOptions(master=url)}
                dev_settings = settings.model_copy(update={"spark_connections": known})
                console.print(f"Spark        {url}, conn_id {CONNECTION!r}")
            server = await running.enter_async_context(dev_server(settings.home.resolve(), port=port, ui_port=ui_port))
            running.enter_context(remembered(settings.home.resolve(), server.address))
            tidemill = await running.enter_async_context(running_worker(dev_settings, server.address))
            web = await running.enter_async_context(
                web_for_dev(tidemill, dev_settings.model_copy(update={"temporal_ui": server.ui}), web_port or api_port)
            )
            if web is not None:
                console.print(f"UI and API   {web}")
            console.print(f"Temporal UI  {server.ui}\nTemporal     {server.address}\nDAGs         {dags}")
            console.print(
                f"Commands in this folder find it. Elsewhere: export TEMPORAL_ADDRESS={server.address} "
                f"TIDEMILL_HOME={settings.home.resolve()}",
                soft_wrap=True,
            )
            beside = [asyncio.create_task(watch_folder(tidemill, dags.resolve(), settings.bundle))]
            if spark and missing is None:
                beside.append(asyncio.create_task(prepare_spark(settings.home.resolve())))
            try:
                await until_stopped()
            finally:
                for task in beside:
                    task.cancel()

    run(work())


async def prepare_spark(home: Path) -> None:
    """Makes what halves the start of local drivers, once for each version of Spark and Java."""
    java = find_java()
    if java is not None:
        try:
            await asyncio.to_thread(build_archive, home, java)
        except OSError as error:
            logging.getLogger(__name__).warning("Spark will start slowly: %s", error)


def demo(
    home: Home = None,
    days: Annotated[int, typer.Option(min=1, max=28, help="How many days to catch up on.")] = 7,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running at the end, to look around.")] = False,
) -> None:
    """Catch up on a real week of flights with Spark, from an empty folder to a chart."""
    from .web import web_for_dev

    settings = with_home(home or Path("build/demo"))
    make_home(settings)
    settings = settings.model_copy(update={"spark_conf": {**SHORT_JOBS, **settings.spark_conf}})
    problems = [check for check in run(all_checks()) if not check.ok and check.name != "Temporal service"]
    if problems:
        fail("; ".join(f"{check.name}: {check.found}. {check.remedy}" for check in problems))

    async def work() -> bool:
        java = find_java()
        assert java is not None  # noqa: S101 - checked above
        with console.status("getting Spark ready (once)"):
            await asyncio.to_thread(build_archive, settings.home.resolve(), java)
        async with (
            dev_server(settings.home.resolve()) as server,
            running_worker(settings, server.address) as tidemill,
        ):
            show = Demo(tidemill, server, settings.home.resolve(), console, days)
            await register_folder(tidemill, show.dag_file)
            stopped = asyncio.create_task(until_stopped())
            finished = asyncio.create_task(show.run())
            await asyncio.wait([stopped, finished], return_when=asyncio.FIRST_COMPLETED)
            if finished.done():
                good = finished.result()
                if keep:
                    web = settings.model_copy(update={"temporal_ui": server.ui})
                    async with web_for_dev(tidemill, web, 8080) as url:
                        console.print(f"everything stays up until Ctrl-C. The flights are at {url or server.ui}")
                        await stopped
                stopped.cancel()
                return good
            finished.cancel()
            console.print("stopping; the next start goes on from here")
            return False

    if not run(work()):
        raise typer.Exit(1)


OlderThan = Annotated[str, typer.Option("--older-than", help="How old things have to be: 30d, 12h, 90m.")]


def cleanup(
    older_than: OlderThan,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    lake: Annotated[
        list[str] | None,
        typer.Option("--lake", help="A folder or URL below which failed tries have left output. May be given again."),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Remove logs, attempts, results and kept code that nobody needs any more, from this host and the store.

    With --lake also what failed tries have written there for `output=`.
    """
    settings, age = with_home(home), read_duration("--older-than", older_than)

    async def work() -> list[Removed]:
        tidemill = await Tidemill.connect(settings)
        known = await known_to_temporal(tidemill.client)
        outputs = [each for place in lake or () for each in cleaned_lake(place, age, dry_run=dry_run)]
        cleaned = await asyncio.to_thread(clean, plugin_for(settings).place, known, age, dry_run=dry_run)
        return cleaned + outputs

    removed = run(work())
    if as_json:
        return print_json(removed)
    by_kind = Counter(thing.kind for thing in removed)
    rows = [(kind, n, f"{sum(t.size for t in removed if t.kind == kind):,}") for kind, n in sorted(by_kind.items())]
    console.print(make_table(["KIND", "WOULD BE REMOVED" if dry_run else "REMOVED", "BYTES"], rows))
    return None


def cleaned_lake(place: str, age: timedelta, *, dry_run: bool) -> list[Removed]:
    """What old tries have left at *place* and is removed. Ends the command where that cannot be done."""
    try:
        return clean_lake(place, age, dry_run=dry_run)
    except Exception as error:  # each store has errors of its own for what it refuses
        fail(f"--lake {place!r} cannot be cleaned: {type(error).__name__}: {error}")
