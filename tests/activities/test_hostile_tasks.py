"""What a DAG file and its tasks try against their worker, mostly where they run as another user: none succeeds."""

import asyncio
import json
import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import Stack, bash, dag, eventually, stack
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from tidemill.activities.attempts.folder import AttemptFolder
from tidemill.activities.bundles.snapshots import SnapshotDamagedError, Snapshots
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.notifying import NotifyActivities
from tidemill.activities.processes import channel
from tidemill.activities.processes.users import RunAs, acting_as, make_folder, read_left
from tidemill.activities.spark.output import OutputActivities
from tidemill.activities.spark.staging import STAGING
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.asset.state import Lateness
from tidemill.model.run.notices import late_notice
from tidemill.model.run.task_instances import StagedOutput
from tidemill.model.spec.dag import DagSpec
from tidemill.model.spec.notifiers import WebhookNotifier
from tidemill.model.states import RunState

NOBODY = RunAs(65534, 65534)
OF_HTTPX = ("httpx", "httpcore", "certifi", "importlib.resources", "importlib.resources._common", "encodings.idna")
"""The tests' own Python may be where no other user can read it."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.fixture
def ground() -> Iterator[Path]:
    """A folder that every user may pass through and read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def secret(ground: Path) -> Path:
    """A file and a folder of the worker's user alone."""
    (ground / "root_only").mkdir(mode=0o700)
    file = ground / "root_only" / "key"
    file.write_text('{"key": "of root"}')
    file.chmod(0o600)
    return file


@pytest.fixture
async def here(server: str, ground: Path) -> AsyncIterator[Stack]:
    place = WorkerContext(home=ground / "home", run_as=NOBODY)
    async with stack(server, ground / "home", place=place) as made:
        yield made


def owned_by_nobody(folder: Path) -> Path:
    folder.mkdir()
    os.chown(folder, NOBODY.uid, NOBODY.gid)
    return folder


# By a task


@needs_root
async def test_the_commands_of_notifiers_run_as_the_task_does(here: Stack, ground: Path, secret: Path) -> None:
    told = owned_by_nobody(ground / "told") / "who"
    command = f"id -un > {told}; cat {secret} >> {told}; env | grep -c '^TEMPORAL' >> {told}; true"
    fields: dict[str, Any] = {"on_failure_callback": [{"kind": "command", "command": command}]}
    spec = dag("notifies", [bash("fails", "exit 1")], callbacks=fields)
    assert (await here.run_once(spec)).state is RunState.FAILED
    assert told.read_text().split() == ["nobody", "0"]


@needs_root
async def test_a_task_owns_the_folder_that_it_works_in_and_no_other(here: Stack) -> None:
    looks = f"cd /; for F in $(find {here.home}/attempts -name work); do touch $F/../mine; done; true"
    spec = dag("looks", [bash("looks", looks)])
    details = await here.run_once(spec)
    assert details.state is RunState.SUCCESS, details
    [work] = (here.home / "attempts").rglob("work")
    assert (work.stat().st_uid, stat.S_IMODE(work.stat().st_mode)) == (NOBODY.uid, 0o700)
    assert work.parent.stat().st_uid == 0
    assert (work.parent / "result.json").stat().st_uid == 0
    assert not (work.parent / "mine").exists()


@needs_root
async def test_a_link_in_the_place_of_the_next_poke_gives_nothing_away(here: Stack, secret: Path) -> None:
    """The second poke's folder was handed over to the task through a link that the first had left."""
    folders = f"$(pwd) $(find {here.home}/attempts -type d)"
    plants = f"for F in {folders}; do ln -s {secret.parent} $F/poke=2; done; exit 1"
    sensor = {"kind": "bash_sensor", "task_id": "waits", "command": plants, "poke_interval": 0.2, "timeout": 3}
    await here.run_once(DagSpec.model_validate({"dag_id": "pokes", "tasks": [sensor]}))
    assert secret.parent.stat().st_uid == 0
    assert stat.S_IMODE(secret.parent.stat().st_mode) == 0o700


@needs_root
def test_a_claim_that_a_task_has_written_ends_no_process(ground: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        claim = {"supervisor": victim.pid, "supervisor_started": psutil.Process(victim.pid).create_time()}
        folder = AttemptFolder(ground / "attempt", ground / "log", NOBODY).make()
        (folder.work / "claim.json").write_text(json.dumps(claim))
        (folder.path / "claim.json").write_text(json.dumps(claim))
        os.chown(folder.path / "claim.json", NOBODY.uid, NOBODY.gid)  # as a release before let tasks do
        assert not folder.end_earlier_start()
        assert victim.poll() is None
        victim.kill()


@needs_root
def test_what_a_task_has_left_is_read_as_its_own_and_never_through_a_link(ground: Path, secret: Path) -> None:
    folder = AttemptFolder(ground / "attempt", ground / "log", NOBODY).make()
    (folder.work / "result.json").symlink_to(secret)
    assert folder.left("result.json") is None
    (folder.work / "exit.json").write_text("{}")  # root's: none that the task has made
    assert folder.left("exit.json") is None
    os.mkfifo(folder.work / "progress.json")
    os.chown(folder.work / "progress.json", NOBODY.uid, NOBODY.gid)
    assert folder.left("progress.json") is None
    (folder.work / "plan.json").symlink_to(secret)
    folder.hand_over("plan.json", "{}")
    assert secret.read_text() == '{"key": "of root"}'
    assert (folder.work / "plan.json").lstat().st_uid == NOBODY.uid


@needs_root
def test_a_folder_is_not_made_through_a_link(ground: Path, secret: Path) -> None:
    (ground / "link").symlink_to(secret.parent)
    with pytest.raises(NotADirectoryError):
        make_folder(ground / "link", NOBODY)
    assert secret.parent.stat().st_uid == 0


# By a DAG file


@needs_root
def test_code_is_kept_as_far_as_tasks_could_read_it(ground: Path, secret: Path) -> None:
    dags = ground / "dags"
    dags.mkdir()
    (dags / "app.py").symlink_to(secret)
    (dags / "mine.py").write_text("print('mine')")
    snapshots = Snapshots((ground / "kept").as_uri(), ground / "snapshots")
    kept = snapshots.lay_out(snapshots.keep(dags, ["app.py", "mine.py"], NOBODY))
    assert [path.name for path in kept.iterdir()] == ["mine.py"]


@needs_root
def test_output_takes_its_place_with_the_rights_of_the_task(ground: Path, secret: Path) -> None:
    staged = owned_by_nobody(ground / STAGING) / "keys.1-1"
    staged.mkdir()
    os.chown(staged, NOBODY.uid, NOBODY.gid)
    place = WorkerContext(home=ground / "home", run_as_users={"team_a": NOBODY})
    output = StagedOutput(staged=str(staged), target=str(secret.parent / "keys"), bundle="team_a")
    with pytest.raises(PermissionError):
        ActivityEnvironment().run(OutputActivities(place).publish, output)
    assert [path.name for path in secret.parent.iterdir()] == ["key"]


@needs_root
def test_a_thread_that_acts_as_another_user_has_no_more_rights_and_gets_its_own_back(secret: Path) -> None:
    with acting_as(NOBODY), pytest.raises(PermissionError):
        secret.read_text()
    assert secret.read_text() == '{"key": "of root"}'
    assert os.geteuid() == 0


# By messages


def test_a_message_is_bounded_however_little_it_costs_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "LARGEST_MESSAGE", 100_000)
    mine, theirs = channel.pair()
    file = os.memfd_create("message")
    os.truncate(file, 64 * 2**30)
    socket.send_fds(theirs, [b"file"], [file])
    os.close(file)
    with mine, theirs, pytest.raises(channel.MessageTooLargeError, match="at most 100,000 travel"):
        channel.receive(mine)
    with pytest.raises(channel.MessageTooLargeError):
        channel.send(mine, {"answer": "x" * 100_000})


@pytest.mark.parametrize("sent", [b"file", b"[1]", b"{", b"nonsense"])
def test_what_is_no_message_is_said_to_be_none_and_leaks_no_descriptor(sent: bytes) -> None:
    mine, theirs = channel.pair()
    reading, writing = os.pipe()
    before = len([*Path("/proc/self/fd").iterdir()])
    with mine, theirs:
        socket.send_fds(theirs, [sent], [reading])
        with pytest.raises(ValueError, match=r"."):
            channel.receive(mine)
        assert len([*Path("/proc/self/fd").iterdir()]) == before
    os.close(reading)
    os.close(writing)


HOSTILE = '''
import os, socket, sys, time
from tidemill import DAG, task

def channel():
    """The socket that the task's process tells its worker by."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                yield socket.socket(fileno=os.dup(int(name)))
        except OSError:
            pass

with DAG("hostile"):
    @task
    def lies():
        for end in channel():
            for said in (b'{"pid":1}', b'[]', b'file', b'{"ask":{"look_up":"variable"}}', b'{"mask":7}'):
                try:
                    end.send(said)
                except OSError:
                    pass
        return "done"

    @task
    def says_that_it_has_ended():
        with open("PIDS", "w") as file:
            file.write(str(os.getpid()))
        for end in channel():
            try:
                end.send(b'{"ended":0}')
            except OSError:
                pass
        time.sleep(300)

    lies() >> says_that_it_has_ended()
'''


async def test_lies_of_a_child_hurt_nobody_and_one_that_says_it_has_ended_is_ended(
    here_as_itself: Stack, tmp_path: Path
) -> None:
    path = tmp_path / "hostile.py"
    path.write_text(HOSTILE.replace("PIDS", str(tmp_path / "pid")))
    [spec] = parse_dag_file(path).dags
    details = await here_as_itself.run_once(spec)
    states = {task.key: str(task.state) for task in details.tasks}
    assert states == {"lies": "success", "says_that_it_has_ended": "failed"}
    pid = int((tmp_path / "pid").read_text())
    await eventually(lambda: asyncio.sleep(0, psutil.pid_exists(pid)), lambda there: not there)


@pytest.fixture
async def here_as_itself(server: str, tmp_path: Path) -> AsyncIterator[Stack]:
    async with stack(server, tmp_path / "home") as made:
        yield made


# What is kept


def test_kept_code_that_somebody_has_changed_is_not_run(tmp_path: Path) -> None:
    """Read-only for tasks, and looked at again: what was changed, added or linked is gone for the next task."""
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "mine.py").write_text("print('mine')")
    snapshots = Snapshots((tmp_path / "kept").as_uri(), tmp_path / "snapshots")
    snapshot = snapshots.keep(dags, ["mine.py"])
    kept = snapshots.lay_out(snapshot)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o555
    assert stat.S_IMODE((kept / "mine.py").stat().st_mode) == 0o444
    for plant in (_changes, _adds, _links):
        kept.chmod(0o755)
        plant(kept)
        kept = snapshots.lay_out(snapshot)
        assert {path.name: path.read_text() for path in kept.iterdir()} == {"mine.py": "print('mine')"}, plant
    [blob] = (tmp_path / "kept" / "blobs").iterdir()
    kept.chmod(0o755)
    _changes(kept)
    blob.write_text("print('planted')")
    with pytest.raises(SnapshotDamagedError):
        snapshots.lay_out(snapshot)


def _changes(kept: Path) -> None:
    (kept / "mine.py").chmod(0o644)
    (kept / "mine.py").write_text("print('hers')")


def _adds(kept: Path) -> None:
    (kept / "json.py").write_text("print('planted')")


def _links(kept: Path) -> None:
    (kept / "mine.py").unlink()
    (kept / "mine.py").symlink_to(kept.parent.parent / "dags" / "mine.py")


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 5000])
def test_a_file_that_is_no_object_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    assert read_left(tmp_path / "a.json", None) is None


# Where it is


@needs_root
async def test_bundles_may_have_users_of_their_own(server: str, ground: Path, secret: Path) -> None:
    from tidemill.activities.dag_files import parse_dag_file

    files = {name: ground / name for name in ("team_a.py", "team_b.py")}
    specs = {}
    for name, path in files.items():
        path.write_text(
            "import os\nfrom tidemill import DAG, task\n"
            f"with DAG({path.stem!r}):\n    @task\n    def who():\n        return os.getuid()\n    who()\n"
        )
        [spec] = parse_dag_file(path).dags
        assert spec.source is not None
        source = spec.source.model_copy(update={"bundle": path.stem})
        specs[name] = spec.model_copy(update={"source": source})
    daemon = RunAs(1, 1)
    place = WorkerContext(home=ground / "home", run_as=NOBODY, run_as_users={"team_b": daemon})
    async with stack(server, ground / "home", place=place) as here:
        for name, uid in (("team_a.py", NOBODY.uid), ("team_b.py", daemon.uid)):
            details = await here.run_once(specs[name])
            assert await here.result_of(details, "who") == uid


@pytest.fixture
def no_network() -> Iterator[Path]:
    """A network namespace with nothing in it but itself."""
    name = f"tidemill-{os.getpid()}"
    made = shutil.which("ip") and subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if not made or made.returncode != 0:
        pytest.skip("needs root, iproute2 and the right to make network namespaces")
    yield Path("/run/netns", name)
    subprocess.run(["ip", "netns", "delete", name], check=True)


@needs_root
async def test_tasks_may_be_without_the_route_to_temporal(server: str, ground: Path, no_network: Path) -> None:
    host, port = server.split(":")
    place = WorkerContext(home=ground / "home", run_as=NOBODY, network=no_network, preload=OF_HTTPX)
    async with stack(server, ground / "home", place=place) as here:
        connects = f"if (exec 3<>/dev/tcp/{host}/{port}); then echo reached; else echo unreachable; fi"
        details = await here.run_once(dag("connects", [bash("connects", connects)]))
        assert await here.result_of(details, "connects") == "unreachable"
        url, now = f"http://{host}:{port}/", datetime.now(UTC)
        late = {
            "notifier": WebhookNotifier(url=url),
            "dag_id": "d",
            "source": None,
            "since": now,
            "reason": "",
            "number": 1,
        }
        notice = late_notice("a", Lateness(**late), "1")
        with pytest.raises(ApplicationError, match="cannot be reached: Connect"):
            await asyncio.to_thread(ActivityEnvironment().run, NotifyActivities(place).notify, notice)
