"""Folders of DAG files: how long until all is registered, what a look without changes costs, how soon a save counts."""

import asyncio
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from statistics import median

import psutil
from figures import Figure
from tidemill.model.bundle.data import BundleSettings
from tidemill.worker.client import Tidemill

FILE = "from tidemill import DAG, EmptyOperator\nwith DAG({dag_id!r}, description={text!r}):\n    EmptyOperator('a')\n"
MANY = (
    "from tidemill import DAG, EmptyOperator\n"
    "for i in range({n}):\n    with DAG(f'{prefix}_{{i}}', description={text!r}):\n        EmptyOperator('a')\n"
)
IDLE_SECONDS = 30
SAVES = 10


async def dag_files(tidemill: Tidemill, n: int) -> list[Figure]:
    """*n* files of one DAG each, then one file of *n* DAGs."""
    return [*await _folder(tidemill, f"{n} files x 1 DAG", n, 1), *await _folder(tidemill, f"1 file x {n} DAGs", 1, n)]


async def _folder(tidemill: Tidemill, what: str, files: int, dags: int) -> list[Figure]:
    name = f"bench_{files}x{dags}"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for i in range(files):
            _write(folder, name, i, dags, "first")
        quick = {"min_file_process_interval": timedelta(0), "parsing_processes": 4}
        settings = BundleSettings.model_validate({"name": name, "path": place, **quick})
        start = time.perf_counter()
        await tidemill.bundles.configure(settings)
        await tidemill.bundles.look(name)
        registered = time.perf_counter() - start
        view = await tidemill.bundles.describe(name)
        assert (view.files, view.dags, view.errors) == (files, files * dags, 0), view
        looks = [await _seconds(tidemill, name) for _ in range(5)]
        idle = await _cpu_share(IDLE_SECONDS)
        saves = []
        for i in range(SAVES):
            _write(folder, name, i % files, dags, f"saved {i}")
            saves.append(await _seconds(tidemill, name))
        await tidemill.bundles.delete(name)
    return [
        Figure(f"{what}: until all is registered", "s", registered),
        Figure(f"{what}: a look without changes", "s", median(looks)),
        Figure(f"{what}: CPU while idle, listed every 30 s", "%", idle),
        Figure(f"{what}: from a save to its registration", "s", median(saves)),
    ]


def _write(folder: Path, name: str, number: int, dags: int, text: str) -> None:
    if dags == 1:
        content = FILE.format(dag_id=f"{name}_{number}", text=text)
    else:
        content = MANY.format(n=dags, prefix=name, text=text)
    (folder / f"file_{number}.py").write_text(content)


async def _seconds(tidemill: Tidemill, name: str) -> float:
    start = time.perf_counter()
    await tidemill.bundles.look(name)
    return time.perf_counter() - start


async def _cpu_share(seconds: float) -> float:
    """What this process and its children, server included, take of one processor while nothing happens."""
    before = _cpu_seconds()
    await asyncio.sleep(seconds)
    return 100 * (_cpu_seconds() - before) / seconds


def _cpu_seconds() -> float:
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
        except psutil.Error:
            continue
    return total
