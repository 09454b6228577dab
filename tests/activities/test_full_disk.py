"""A disk that is full: lines are left out and said, notes are left out, results are held until they can be kept."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support import Stack, eventually, stack
from tidemill.activities.attempts.log import AttemptLog
from tidemill.activities.attempts.lossy_file import LossyFile
from tidemill.activities.attempts.storage import until_stored
from tidemill.activities.attempts.supervision import AttemptSupervisor
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.masking import Masker
from tidemill.model.states import RunState

pytestmark = pytest.mark.faults

FILE = """
import time
from pathlib import Path
from tidemill import DAG, task

PLACE = Path({place!r})

with DAG("full_disk"):
    @task(retries=0)
    def works():
        with open(PLACE / "starts", "a") as starts:
            starts.write("x")
        print("begun", flush=True)
        while not (PLACE / "full").exists():
            time.sleep(0.1)
        for number in range(2000):
            print("line", number, "x" * 50, flush=number % 100 == 0)
        return "y" * 200_000
    works()
"""


def test_what_cannot_be_written_is_counted_and_said_when_it_can_be_again(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "a.log"
    path.parent.mkdir()
    path.symlink_to("/dev/full")
    log = AttemptLog(path, Masker())
    log.feed(b"one\ntwo\n")
    assert log.last_line == "two"
    path.unlink()
    log.feed(b"three\n")
    log.close()
    text = path.read_text()
    assert "three" in text
    assert "bytes of the log could not be written: No space left on device" in text
    assert "one" not in text


def test_a_folder_that_is_gone_is_made_again(tmp_path: Path) -> None:
    file = LossyFile(tmp_path / "a" / "b.log")
    (tmp_path / "a" / "b.log").unlink()
    (tmp_path / "a").rmdir()
    (tmp_path / "a").write_text("in its place")
    other = LossyFile(tmp_path / "a" / "b.log")
    other.write(b"x")
    assert other.flush() is False
    assert (other.lost, other.problem) == (1, "Not a directory")
    file.close()
    (tmp_path / "a").unlink()
    other.write(b"y")
    assert other.flush() is True
    other.close()
    assert (tmp_path / "a" / "b.log").read_text() == "y"


@pytest.fixture(params=["size=4m", "nr_inodes=1000"])
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A disk with little room, or with room for few files."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", request.param, "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs root and the right to mount")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
async def here(server: str, small_disk: Path) -> AsyncIterator[Stack]:
    async with stack(server, small_disk / "home") as made:
        yield made


def fill(disk: Path) -> None:
    (disk / "filler").mkdir()
    with suppress(OSError):
        for number in range(1000):
            (disk / "filler" / str(number)).touch()
    with (disk / "filler" / "0").open("wb", buffering=0) as filler, suppress(OSError):
        for _ in range(1024):
            filler.write(bytes(4096))


def make_room(disk: Path) -> None:
    shutil.rmtree(disk / "filler")


def test_what_no_waiting_changes_is_not_waited_for(tmp_path: Path) -> None:
    def made() -> None:
        (tmp_path / ("x" * 300)).mkdir()

    with pytest.raises(OSError, match="File name too long"):
        until_stored(made, "no folder can be made", AttemptSupervisor(None))


FIRST = """
from pathlib import Path
from tidemill import DAG, task

with DAG("no_folder"):
    @task(retries=0)
    def works():
        with open({place!r} + "/starts", "a") as starts:
            starts.write("x")
    works()
"""


@pytest.mark.parametrize("small_disk", ["nr_inodes=1000"], indirect=True)
async def test_an_attempt_without_a_folder_waits_and_uses_up_no_start(
    here: Stack, small_disk: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "no_folder.py"
    file.write_text(FIRST.format(place=str(tmp_path)))
    [spec] = parse_dag_file(file).dags
    await here.tidemill.dags.register(spec)
    fill(small_disk)
    run = await here.tidemill.runs.trigger("no_folder")
    await eventually(lambda: asyncio.sleep(0, "no folder for" in caplog.text), bool)
    make_room(small_disk)
    details = await here.finished("no_folder", run.run_id)
    assert details.state is RunState.SUCCESS, details
    assert (tmp_path / "starts").read_text() == "x"
    history = await here.tidemill.client.get_workflow_handle(run.workflow_id).fetch_history()
    started = [e for e in history.events if e.HasField("activity_task_started_event_attributes")]
    assert {e.activity_task_started_event_attributes.attempt for e in started} == {1}


async def test_finished_work_is_not_thrown_away(
    here: Stack, small_disk: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A function that printed was ended at its first line and begun again; one with a large result ran twice."""
    file = tmp_path / "full_disk.py"
    file.write_text(FILE.format(place=str(tmp_path)))
    [spec] = parse_dag_file(file).dags
    await here.tidemill.dags.register(spec)
    run = await here.tidemill.runs.trigger("full_disk")
    await eventually(lambda: asyncio.to_thread((tmp_path / "starts").exists), bool)
    fill(small_disk)
    (tmp_path / "full").touch()
    await asyncio.sleep(3)  # in which it prints, ends, and finds no place for what it has made
    make_room(small_disk)
    details = await here.finished("full_disk", run.run_id)
    assert details.state is RunState.SUCCESS, details
    assert (tmp_path / "starts").read_text() == "x"
    [kept] = (here.home / "xcom").rglob("return_value.json")
    assert json.loads(kept.read_text()) == "y" * 200_000
    [log] = (here.home / "logs").rglob("dag_id=full_disk/**/*.log")
    is_whole = "line 1999 " in log.read_text()  # where there was room, but for no more files
    assert is_whole or "could not be written: No space left on device" in caplog.text
    assert "cannot be kept at" in caplog.text
