"""What a dead worker had under way begins again within seconds; what one has that is only cut off does not."""

import asyncio
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support import bash, dag, eventually, stack, worker_environment, worker_process
from temporalio.api.enums.v1 import EventType
from tidemill.activities.attempts.folder import AttemptFolder
from tidemill.activities.attempts.under_way import UnderWay
from tidemill.model.states import RunState

pytestmark = pytest.mark.faults

WORKER = """
import sys, time
from pathlib import Path
from tidemill.activities.attempts.folder import AttemptFolder
from tidemill.activities.attempts.under_way import UnderWay

here = UnderWay(Path(sys.argv[1]))
with here.kept(), here.noted(b"the token", AttemptFolder(Path("/attempt"), Path("/log"))):
    print("begun", flush=True)
    time.sleep(600)
"""


def lost(under_way: UnderWay, *, told: bool = True) -> list[bytes]:
    found = under_way.lost()
    found.close(forget=told)
    return [start.token for start in found.starts]


def test_a_worker_that_is_stopped_is_not_dead_and_a_killed_one_is(tmp_path: Path) -> None:
    ours = UnderWay(tmp_path)
    with ours.kept(), ours.noted(b"ours", AttemptFolder(tmp_path, tmp_path)):
        with subprocess.Popen([sys.executable, "-c", WORKER, tmp_path], stdout=subprocess.PIPE) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"begun\n"
            psutil.Process(worker.pid).suspend()
            assert lost(ours) == []
            worker.kill()
        assert lost(ours) == [b"the token"]
        assert lost(ours) == []


def test_what_could_not_be_told_stays(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WORKER, tmp_path], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        worker.kill()
    ours = UnderWay(tmp_path)
    assert lost(ours, told=False) == [b"the token"]
    assert lost(ours) == [b"the token"]


def test_of_a_host_whose_name_begins_alike_nothing_is_believed(tmp_path: Path) -> None:
    """Its locks may be let go by a file system that does not reach it."""
    with subprocess.Popen([sys.executable, "-c", WORKER, tmp_path], stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        worker.kill()
    [folder] = (tmp_path / "under_way").iterdir()
    host, _, rest = folder.name.rpartition("-")
    folder.rename(folder.with_name(f"{host}-2-{rest}"))
    assert lost(UnderWay(tmp_path)) == []


def test_a_worker_that_stops_leaves_no_notes(tmp_path: Path) -> None:
    first, second = UnderWay(tmp_path), UnderWay(tmp_path)
    with first.kept(), first.kept(), second.kept():
        pass
    assert list((tmp_path / "under_way").iterdir()) == []


async def test_a_killed_workers_task_begins_again_with_the_next_worker_of_its_host(server: str, tmp_path: Path) -> None:
    """Long before its heartbeat timeout of five minutes, as the same try."""
    home, mark = tmp_path / "home", tmp_path / "mark"
    command = f"echo begun $$ >> {mark}; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done"
    async with stack(server, tmp_path / "other") as here:
        env = worker_environment(server, home, "of-the-host")
        await here.tidemill.dags.register(dag("dies", [bash("a", command, queue="of-the-host")], heartbeat_timeout=300))
        with worker_process(env) as first:
            run = await here.tidemill.runs.trigger("dies")
            await eventually(lambda: asyncio.to_thread(mark.exists), bool)
            first.kill()
        with worker_process(env):
            await eventually(lambda: begun(mark), lambda times: times == 2)
            (tmp_path / "go").touch()
            details = await here.finished("dies", run.run_id)
        assert (details.state, details.tasks[0].try_number) == (RunState.SUCCESS, 1)
        history = await here.tidemill.client.get_workflow_handle(details.run.workflow_id).fetch_history()
        started = [e for e in history.events if e.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED]
        failures = [e.activity_task_started_event_attributes.last_failure.message for e in started]
        assert any("has died" in failure for failure in failures)


async def begun(mark: Path) -> int:
    return len(mark.read_text().splitlines())
