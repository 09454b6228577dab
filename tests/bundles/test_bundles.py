"""A live folder of DAG files on a real server: found, parsed, registered, changed, broken, mended, removed, back."""

import asyncio
import contextlib
import json
import subprocess
import zipfile
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from bundle_folder import ONE, Folder
from support import Stack, eventually, killing_worker, run_command, stack, told
from tidemill.model.errors import InvalidInputError
from tidemill.model.states import RunState


@pytest.fixture
async def folder(here: Stack, tmp_path: Path, request: pytest.FixtureRequest) -> Folder:
    path = tmp_path / "dags"
    path.mkdir()
    name = request.node.name.removeprefix("test_")[:40].replace("[", "_").replace("]", "").rstrip("_")
    return Folder(here, path, name)


async def test_new_changed_removed_and_back(folder: Folder) -> None:
    folder.one("a.py", "a")
    await folder.begin()
    files = await folder.look()
    assert (files["a.py"].error, files["a.py"].parses) == (None, 1)
    first = await folder.dag("a")
    assert (first.is_stale, first.has_import_errors) == (False, False)

    assert (await folder.look())["a.py"].parses == 1, "an unchanged file costs no parse"
    folder.one("sub/b.py", "b")
    folder.one("a.py", "a", command="echo changed")
    files = await folder.look()
    assert (files["a.py"].parses, sorted(files)) == (2, ["a.py", "sub/b.py"])
    assert (await folder.dag("a")).version != first.version

    (folder.path / "a.py").unlink()
    stale = await eventually(lambda: folder.dag("a"), lambda view: view.is_stale)
    assert "in no file any more" in stale.next_dagrun_note
    with pytest.raises(InvalidInputError, match="stale"):
        await folder.run("a")
    folder.one("moved.py", "a")
    await folder.look()
    back = await folder.dag("a")
    assert (back.is_stale, back.source) == (False, str(folder.path / "moved.py"))
    run_id = await folder.run("a")
    assert (await folder.here.finished(f"{folder.name}_a", run_id)).state is RunState.SUCCESS


async def test_a_failed_task_is_mended_in_its_file_and_cleared(folder: Folder) -> None:
    """As in Airflow: of a plain folder there is no older file to run. Who wants the run's own version says so."""
    folder.one("a.py", "a", command="exit 1")
    await folder.begin()
    await folder.look()
    here, dag_id, run_id = folder.here, f"{folder.name}_a", await folder.run("a")
    failed = await here.finished(dag_id, run_id)
    assert failed.state is RunState.FAILED
    folder.one("a.py", "a", command="echo mended")
    await folder.look()
    own = await told(here, "runs", "clear", dag_id, run_id, "--own-version")
    assert "--latest takes that" in own
    await eventually(
        lambda: here.tidemill.runs.describe(dag_id, run_id), lambda d: d.state.finished and d.tasks[0].try_number == 2
    )
    assert (await here.finished(dag_id, run_id)).state is RunState.FAILED
    said = await told(here, "tasks", "clear", dag_id, run_id)
    assert "which is in place, and not with its own" in said.replace("\n", " ")
    mended = await eventually(
        lambda: here.tidemill.runs.describe(dag_id, run_id), lambda d: d.state is RunState.SUCCESS
    )
    assert mended.tasks[0].try_number == 3
    assert "mended" in here.log_of(dag_id, run_id, mended.tasks[0].task_id, 3)


async def test_renaming_a_file_makes_nothing_stale(folder: Folder) -> None:
    file = folder.one("old.py", "kept")
    await folder.begin(stale_dag_threshold=timedelta(minutes=5))
    await folder.look()
    file.rename(folder.path / "new.py")
    files = await folder.look()
    assert (list(files), files["new.py"].error) == (["new.py"], None)
    view = await folder.dag("kept")
    assert (view.is_stale, view.source) == (False, str(folder.path / "new.py"))
    kinds = [str(decision.kind) for decision in view.decisions]
    assert "held up" not in kinds


async def test_a_broken_file_holds_its_dags_up_until_it_is_mended(folder: Folder) -> None:
    folder.one("good.py", "good")
    folder.one("broken.py", "broken")
    await folder.begin()
    await folder.look()
    folder.write("broken.py", "from nowhere import nothing\n")
    files = await folder.look()
    assert "ModuleNotFoundError: No module named 'nowhere'" in (files["broken.py"].error or "")
    assert "broken.py:1" in (files["broken.py"].error or "")
    view = await folder.dag("broken")
    assert view.has_import_errors
    assert "nowhere" in (view.import_error or "")
    with pytest.raises(InvalidInputError, match="cannot be imported"):
        await folder.run("broken")
    assert not (await folder.dag("good")).has_import_errors
    folder.one("broken.py", "broken")
    assert (await folder.look())["broken.py"].error is None
    assert not (await folder.dag("broken")).has_import_errors
    await folder.run("broken")


async def test_a_broken_file_may_keep_its_dags_running(folder: Folder) -> None:
    folder.one("a.py", "a")
    await folder.begin(on_import_error="keep_running")
    await folder.look()
    folder.write("a.py", "1 / 0\n")
    await folder.look()
    assert (await folder.dag("a")).has_import_errors
    run_id = await folder.run("a")
    assert (await folder.here.finished(f"{folder.name}_a", run_id)).state is RunState.SUCCESS


async def test_a_schedule_stops_with_its_file_and_comes_back_without_a_burst(folder: Folder) -> None:
    text = (
        "from datetime import UTC, datetime, timedelta\nfrom tidemill import DAG, EmptyOperator\n"
        f"with DAG({folder.name + '_ticking'!r}, schedule=timedelta(seconds=1),"
        " start_date=datetime(2026, 1, 1, tzinfo=UTC), heartbeat_timeout=4):\n    EmptyOperator('a')\n"
    )
    file = folder.write("ticking.py", text)
    dag_id = f"{folder.name}_ticking"
    await folder.begin()
    await folder.look()
    tidemill = folder.here.tidemill
    await eventually(lambda: tidemill.runs.list(dag_id), lambda runs: len(runs) >= 2)
    file.unlink()
    await eventually(lambda: folder.dag("ticking"), lambda view: view.is_stale)
    before = {view.run_id for view in await tidemill.runs.list(dag_id)}
    await asyncio.sleep(4)
    assert {view.run_id for view in await tidemill.runs.list(dag_id)} == before
    folder.write("ticking.py", text)
    await folder.look()
    runs = await eventually(lambda: tidemill.runs.list(dag_id), lambda runs: len(runs) > len(before))
    dates = sorted(view.logical_date for view in runs if view.logical_date is not None)
    assert len(dates) == len(set(dates))
    gaps = [later - earlier for earlier, later in pairwise(dates)]
    assert max(gaps) >= timedelta(seconds=4), "what was missed while the file was gone is not made up for"


async def test_two_files_with_one_dag_id(folder: Folder) -> None:
    folder.one("a.py", "same")
    await folder.begin()
    await folder.look()
    folder.one("b.py", "same", command="echo other")
    files = await folder.look()
    assert files["a.py"].error is None
    told = files["b.py"].error or ""
    assert "is defined by a.py and by b.py" in told
    assert (await folder.dag("same")).source == str(folder.path / "a.py")
    (folder.path / "a.py").unlink()
    assert (await folder.look())["b.py"].error is None
    assert (await folder.dag("same")).source == str(folder.path / "b.py")


async def test_a_dag_that_moves_from_one_bundle_to_another(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Folder(folder.here, tmp_path / "other", f"{folder.name}_2")
    folder.one("a.py", "moves")
    await folder.begin()
    await folder.look()
    await other.begin()
    other.write("b.py", ONE.format(dag_id=f"{folder.name}_moves", command="echo there"))
    told = (await other.look())["b.py"].error or ""
    assert f"a.py of bundle '{folder.name}'" in told
    assert f"b.py of bundle '{other.name}'" in told
    await folder.here.tidemill.bundles.delete(folder.name)
    await folder.here.tidemill.bundles.refresh(other.name)
    assert (await other.look())["b.py"].error is None
    assert "b.py" in ((await folder.dag("moves")).source or "")


async def test_a_bundle_that_is_made_again_mends_what_it_finds(folder: Folder) -> None:
    folder.one("a.py", "again")
    await folder.begin()
    await folder.look()
    folder.write("a.py", "1 / 0")
    await folder.look()
    assert (await folder.dag("again")).has_import_errors
    await folder.here.tidemill.bundles.delete(folder.name)
    folder.one("a.py", "again")
    await folder.begin()
    await folder.look()
    assert not (await folder.dag("again")).has_import_errors


async def test_what_a_broken_file_had_read_is_watched_too(folder: Folder) -> None:
    folder.write("conf.yaml", "broken")
    text = "from pathlib import Path\nassert Path(__file__).with_name('conf.yaml').read_text() == 'good'\n"
    folder.write("a.py", text + ONE.format(dag_id=f"{folder.name}_configured", command="echo done"))
    await folder.begin()
    assert "AssertionError" in ((await folder.look())["a.py"].error or "")
    folder.write("conf.yaml", "good")
    assert (await folder.look())["a.py"].error is None
    assert (await folder.dag("configured")).source


async def test_what_a_file_imports_and_reads_counts_as_its_content(folder: Folder) -> None:
    name = folder.name
    folder.write("helpers/__init__.py", "")
    folder.write("helpers/names.py", f"NAME = {name + '_one'!r}\n")
    folder.write("config/names.json", f'["{name}_two", "{name}_three"]')
    folder.write(
        "generated.py",
        "import json\nfrom pathlib import Path\nfrom helpers.names import NAME\n"
        "from tidemill import DAG, EmptyOperator\n"
        "for dag_id in [NAME, *json.loads(Path(__file__).with_name('config').joinpath('names.json').read_text())]:\n"
        "    with DAG(dag_id):\n        EmptyOperator('a')\n",
    )
    folder.write(".airflowignore", "helpers/\n")
    await folder.begin()
    files = await folder.look()
    assert list(files) == ["generated.py"]
    assert set(files["generated.py"].dags) == {f"{name}_one", f"{name}_two", f"{name}_three"}
    folder.write("helpers/names.py", f"NAME = {name + '_first'!r}\n")
    assert f"{name}_first" in (await folder.look())["generated.py"].dags
    folder.write("config/names.json", f'["{name}_second"]')
    files = await folder.look()
    assert (files["generated.py"].dags, files["generated.py"].parses) == ((f"{name}_first", f"{name}_second"), 3)


async def test_zip_files_links_and_ignored_files(folder: Folder) -> None:
    with zipfile.ZipFile(folder.path / "pack.zip", "w") as archive:
        archive.writestr("zipped.py", "from inside import COMMAND\n" + ONE.format(dag_id="zipped_dag", command="true"))
        archive.writestr("inside.py", "COMMAND = 1\n")
    folder.one("deep/er/still.py", "still")
    folder.write("deep/.airflowignore", "ignored_*.py\n")
    folder.write("deep/ignored_one.py", "1 / 0\n")
    (folder.path / "deep" / "loop").symlink_to(folder.path)
    await folder.begin()
    files = await folder.look()
    assert list(files) == ["deep/er/still.py", "pack.zip/inside.py", "pack.zip/zipped.py"]
    assert all(file.error is None for file in files.values())
    [warning] = (await folder.here.tidemill.bundles.describe(folder.name)).warnings
    assert "deep/loop is a symbolic link into a loop" in warning
    details = await folder.here.finished("zipped_dag", (await folder.here.tidemill.runs.trigger("zipped_dag")).run_id)
    assert details.state is RunState.SUCCESS


async def test_regular_expressions_in_airflowignore(folder: Folder) -> None:
    folder.one("keep.py", "keep")
    folder.write("tests/broken.py", "1 / 0\n")
    folder.write("old_thing.py", "1 / 0\n")
    folder.write(".airflowignore", "^tests/  # our own tests\nold_.*\\.py$\n")
    await folder.begin(dag_ignore_file_syntax="regexp")
    assert list(await folder.look()) == ["keep.py"]


async def test_a_folder_that_is_away_takes_nothing_with_it(folder: Folder) -> None:
    folder.one("a.py", "a")
    await folder.begin()
    await folder.look()
    folder.path.rename(folder.path.with_name("unmounted"))
    await folder.look()
    view = await folder.here.tidemill.bundles.describe(folder.name)
    assert "is not a folder on this host" in (view.problem or "")
    await asyncio.sleep(2)  # longer than the threshold
    assert not (await folder.dag("a")).is_stale
    folder.path.with_name("unmounted").rename(folder.path)
    await folder.look()
    assert (await folder.here.tidemill.bundles.describe(folder.name)).problem is None


async def test_a_start_date_that_moves_with_each_parse_is_no_new_version(folder: Folder) -> None:
    folder.write(
        "moving.py",
        "from datetime import UTC, datetime, timedelta\nfrom tidemill import DAG, EmptyOperator\n"
        f"with DAG({folder.name + '_moving'!r}, schedule='@daily', start_date=datetime.now(UTC) - timedelta(days=3)):\n"
        "    EmptyOperator('a')\n",
    )
    await folder.begin()
    await folder.look()
    dag_id = f"{folder.name}_moving"
    first = await folder.here.tidemill.dags.spec(dag_id)
    for _ in range(2):
        await folder.here.tidemill.bundles.refresh(folder.name)
    assert (await folder.look())["moving.py"].parses == 3
    assert await folder.here.tidemill.dags.spec(dag_id) == first


HALF_WAY = """
import time
from pathlib import Path
from tidemill import DAG, task
import helper

with DAG({dag_id!r}, heartbeat_timeout=4, params={{"folder": ""}}):

    @task
    def before(params=None):
        Path(params["folder"], "begun").touch()
        while not Path(params["folder"], "go").exists():
            time.sleep(0.05)

    @task
    def after(params=None):
        from lately import WORD
        Path(params["folder"], params["run"]).write_text(f"{{helper.WORD}} {{WORD}} {word}")

    before() >> after()
"""


async def test_a_run_ends_with_the_code_that_it_began_with(folder: Folder, tmp_path: Path) -> None:
    """The file, a module that it imports, and one that only the task imports are changed half way."""
    dag_id = f"{folder.name}_versioned"

    def write(word: str) -> None:
        folder.write("helper.py", f"WORD = {word!r}\n")
        folder.write("lately.py", f"WORD = {word!r}\n")
        folder.write("versioned.py", HALF_WAY.format(dag_id=dag_id, word=word))

    folder.write(".airflowignore", "helper.py\nlately.py\n")
    write("old")
    await folder.begin()
    await folder.look()
    conf = {"folder": str(tmp_path)}
    first = await folder.run("versioned", run_id="first", conf={**conf, "run": "first"})
    await eventually(lambda: asyncio.to_thread((tmp_path / "begun").exists), bool)
    write("new")
    await folder.look()
    (tmp_path / "go").touch()
    details = await folder.here.finished(dag_id, first)
    assert details.state is RunState.SUCCESS, [task.error for task in details.tasks]
    second = await folder.run("versioned", run_id="second", conf={**conf, "run": "second"})
    await folder.here.finished(dag_id, second)
    assert (tmp_path / "first").read_text() == "old old old"
    assert (tmp_path / "second").read_text() == "new new new"


async def test_a_tag_of_a_repository(folder: Folder, tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        name = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", "-C", str(folder.path), *name, *arguments], check=True, capture_output=True)

    git("init", "--initial-branch", "main")
    folder.one("dags/a.py", "a", command="echo one")
    git("add", ".")
    git("commit", "-m", "one")
    await folder.begin(kind="git", ref="main", subdir="dags")
    files = await folder.look()
    assert (list(files), files["a.py"].error) == (["a.py"], None)
    first = await folder.dag("a")
    folder.one("dags/a.py", "a", command="echo two")
    await folder.look()
    assert (await folder.dag("a")).version == first.version, "what is not committed does not count"
    git("commit", "-am", "two")
    await folder.look()
    assert (await folder.dag("a")).version != first.version
    run_id = await folder.run("a")
    await folder.here.finished(f"{folder.name}_a", run_id)
    assert folder.here.log_of(f"{folder.name}_a", run_id, "a") == "two\n"


HOSTILE = {
    "exits": "import sys\nsys.exit(-1)\n",
    "exits_hard": "import os\nos._exit(3)\n",
    "crashes": "import ctypes\nctypes.string_at(0)\n",
    "never_ends": "while True:\n    pass\n",
    "eats_memory": "x = bytearray(4_000_000_000)\n",
    "forks": "import os\nos.fork()\n",
    "leaves_a_daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n"
        "    if os.fork() == 0:\n        os.execvp('sleep', ['sleep', '3601'])\n    os._exit(0)\n"
    ),
    "starts_a_family": (
        "import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 3601 & sleep 3601'], start_new_session=True)\n"
    ),
    "kills_its_parent": "import os\nos.kill(os.getppid(), 9)\n",
    "starts_a_program": "import subprocess\nsubprocess.Popen(['sleep', '3601'], start_new_session=True)\n",
    "prints_a_lot": "import sys\nwhile True:\n    sys.stdout.write('x' * 1_000_000)\n",
    "moves_about": "import os\nos.chdir('/')\nos.environ.clear()\nos.environ['PATH'] = '/nowhere'\n",
    "closes_everything": "import os\nos.closerange(0, 256)\n",
    "is_no_python": "def broken(:\n",
}
HARMLESS = {"forks", "leaves_a_daemon", "starts_a_program", "starts_a_family", "moves_about", "closes_everything"}


async def test_no_file_hurts_another(folder: Folder) -> None:
    """Fifty good files beside every kind of bad one: all good DAGs are registered, changed, and run."""
    good = [f"good_{i}" for i in range(50)]
    for name in good:
        folder.one(f"{name}.py", name)
    for name, text in HOSTILE.items():
        folder.write(f"bad_{name}.py", text + ONE.format(dag_id=f"{folder.name}_{name}", command="true"))
    limits = {"dag_file_processor_timeout": timedelta(seconds=8), "dag_file_memory_mb": 1024}
    await folder.begin(**limits)
    files = await folder.look()
    assert {name for name in good if files[f"{name}.py"].error is None} == {*good}
    wrong = {name for name in HOSTILE if files[f"bad_{name}.py"].error is not None}
    assert wrong == {*HOSTILE} - HARMLESS
    errors = {name: files[f"bad_{name}.py"].error or "" for name in wrong}
    assert "sys.exit(-1)" in errors["exits"]
    assert "exit code 3" in errors["exits_hard"]
    assert "signal 11" in errors["crashes"]
    assert "more than 8 s" in errors["never_ends"]
    assert "MemoryError" in errors["eats_memory"]
    assert "SyntaxError" in errors["is_no_python"]
    assert "and the one above that" in errors["kills_its_parent"]
    for name in HARMLESS:
        assert not (await folder.dag(name)).has_import_errors
    await eventually(left_over, lambda left: not left)

    for name in good[:5]:
        folder.one(f"{name}.py", name, command="echo again")
    folder.write("bad_never_ends.py", HOSTILE["never_ends"] + "\n# a DAG of tidemill\n")
    before = open_files()
    files = await folder.look()
    assert [files[f"{name}.py"].parses for name in good[:6]] == [2, 2, 2, 2, 2, 1]
    assert open_files() <= before + 10, "the worker's open files stay as they are"
    run_id = await folder.run(good[0])
    assert (await folder.here.finished(f"{folder.name}_{good[0]}", run_id)).state is RunState.SUCCESS


async def left_over() -> list[psutil.Process]:
    """What bad files have started and nobody has ended."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.name() == "sleep" and "3601" in process.cmdline():
                found.append(process)
    return found


def open_files() -> int:
    return psutil.Process().num_fds()


@pytest.mark.parametrize(
    "when",
    [
        pytest.param("before the work", marks=pytest.mark.thorough),
        pytest.param("after tidemill.parse_file", marks=pytest.mark.thorough),
        "after tidemill.register_dags",
    ],
)
async def test_a_killed_worker_loses_nothing(server: str, tmp_path: Path, when: str) -> None:
    async with stack(server, tmp_path / "home", no_remote_activities=True) as here:
        path = tmp_path / "dags"
        path.mkdir()
        folder = Folder(here, path, f"killed_{when.replace(' ', '_')}")
        folder.one("a.py", "a")
        with killing_worker(here, when, tmp_path / "mark") as first:
            await folder.begin()
            await asyncio.to_thread(first.wait, 60)
        with killing_worker(here, "never", tmp_path / "mark"):
            files = await eventually(folder.look, lambda found: found["a.py"].dags != ())
            assert files["a.py"].error is None
            decisions = (await folder.dag("a")).decisions
            assert len([d for d in decisions if str(d.kind) == "registered"]) == 0, "it was registered once"
            run_id = await folder.run("a")
            details = await here.finished(f"{folder.name}_a", run_id)
    assert details.state is RunState.SUCCESS


@pytest.mark.faults
async def test_a_lost_mount_makes_no_dag_stale(folder: Folder) -> None:
    """It leaves an empty folder: the DAGs go on, every list says so, and a person may say that it is meant."""
    for name in "abc":
        folder.one(f"{name}.py", name)
    await folder.begin()
    await folder.look()
    aside = folder.path.with_name("aside")
    folder.path.rename(aside)
    folder.path.mkdir()
    await folder.look()
    told = "0 of 3 files are left in"
    assert told in ((await folder.here.tidemill.bundles.describe(folder.name)).problem or "")
    assert told in json.dumps(await command_said(folder, "dags", "errors", "--json", code=1))
    assert not (await folder.dag("a")).is_stale
    assert (await folder.here.finished(f"{folder.name}_a", await folder.run("a"))).state is RunState.SUCCESS
    await command_said(folder, "bundles", "refresh", folder.name, "--all-removed")
    await eventually(lambda: folder.dag("a"), lambda view: view.is_stale)
    assert (await folder.here.tidemill.bundles.describe(folder.name)).problem is None
    folder.path.rmdir()
    aside.rename(folder.path)
    await folder.look()
    await eventually(lambda: folder.dag("a"), lambda view: not view.is_stale)


async def command_said(folder: Folder, *arguments: str, code: int = 0) -> str:
    done = await asyncio.to_thread(run_command, folder.here, *arguments)
    assert done.returncode == code, done.stderr
    return done.stdout
