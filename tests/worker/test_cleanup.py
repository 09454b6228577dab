"""What nobody needs any more goes; what somebody may still ask for stays."""

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path

import fsspec
import pytest
from support import Stack, bash, dag, eventually, stack, temporal_server
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.bundle.data import BundleSettings
from tidemill.model.states import RunState
from tidemill.worker.service.cleanup import Known, clean_lake, cleanup, known_to_temporal

MONTH = timedelta(days=30)


def aged(path: Path, days: int = 40) -> Path:
    """*path* with all in it, as if it had been written *days* ago."""
    then = time.time() - days * 86400
    for each in (*path.rglob("*"), path):
        os.utime(each, (then, then))
    return path


def of_a_run(home: Path, run_id: str) -> tuple[Path, Path, Path]:
    """Log, attempt and result of an old run."""
    place = f"dag_id=d/run_id={run_id}/task_id=t/attempt=1"
    log = home / "logs" / f"{place}.log"
    attempt = home / "attempts" / place / "execution"
    result = home / "xcom" / place / "execution" / "return_value.json"
    for path in (log, attempt / "result.json", result):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    return log, attempt, result


def test_old_things_of_forgotten_runs_go_and_their_folders_with_them(tmp_path: Path) -> None:
    log, attempt, result = of_a_run(tmp_path, "old")
    aged(tmp_path)
    young_log, young_attempt, young_result = of_a_run(tmp_path, "young")
    place = WorkerContext(home=tmp_path)
    planned = cleanup(place, Known(), MONTH, dry_run=True)
    assert log.exists()
    removed = cleanup(place, Known(), MONTH)
    assert sorted(thing.kind for thing in removed) == ["attempt", "log", "result"]
    assert removed == planned
    assert not any(path.exists() for path in (log, attempt, result, attempt.parents[2]))
    assert all(path.exists() for path in (young_log, young_attempt, young_result))
    assert cleanup(place, Known(), MONTH) == []


def test_results_of_a_run_that_temporal_knows_stay_whatever_their_age(tmp_path: Path) -> None:
    _, _, result = of_a_run(tmp_path, "known")
    aged(tmp_path)
    cleanup(WorkerContext(home=tmp_path), Known(run_ids={"known"}), MONTH)
    assert result.exists()


def test_what_a_task_has_kept_goes_with_its_run_and_what_belongs_to_no_run_stays(tmp_path: Path) -> None:
    place = WorkerContext(home=tmp_path)
    values = place.key_values
    scopes = {run_id: f"dag_id=d/run_id={run_id}/task_id=t" for run_id in ("manual__2026-11-23T00:00:00+00:00", "old")}
    for scope in (*scopes.values(), "variables", "asset_name=a"):
        values.put(scope, "key/run_id=latest", 1)
    aged(tmp_path)
    cleanup(place, Known(run_ids={"manual__2026-11-23T00:00:00+00:00"}), MONTH)
    found = {scope for scope in (*scopes.values(), "variables", "asset_name=a") if values.keys(scope)}
    assert found == {scopes["manual__2026-11-23T00:00:00+00:00"], "variables", "asset_name=a"}


async def test_what_a_task_needs_that_runs_for_months_stays(
    here: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.activities.attempts.supervision.TOUCH_EVERY", 0.1)
    go_on = tmp_path / "go_on"
    await here.tidemill.dags.register(
        dag("lasts", [bash("a", f"while [ ! -e {go_on} ]; do sleep 0.1; done; echo done")])
    )
    run = await here.tidemill.runs.trigger("lasts")

    async def begun() -> list[Path]:
        return [*(here.home / "attempts").rglob("claim.json")]

    [claim] = await eventually(begun, bool)
    claim.unlink()  # what a function has is no claim: its folder alone says that it is there
    aged(here.home / "attempts")
    aged(here.home / "logs")
    await eventually(lambda: asyncio.to_thread(young, claim.parent), bool)
    cleanup(WorkerContext(home=here.home), Known(run_ids={run.run_id}), MONTH)
    assert claim.parent.exists()
    go_on.touch()
    assert (await here.finished("lasts", run.run_id)).state is RunState.SUCCESS
    assert [*(here.home / "logs").rglob("*.log")]


def young(path: Path) -> bool:
    return time.time() - path.stat().st_mtime < 86400


async def test_kept_code_stays_as_long_as_a_dag_or_a_run_needs_it(tmp_path: Path) -> None:
    """The version that is registered, and the one that an ended run had; not one that nobody ever ran."""
    with temporal_server(tmp_path / "server") as address:
        async with stack(address, tmp_path / "home") as here:
            await keeps_what_is_needed(here, tmp_path)


async def keeps_what_is_needed(here: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "dags"
    folder.mkdir()
    dag_id = f"kept_{here.task_queue.replace('-', '_')}"
    file = folder / "file.py"
    await here.tidemill.bundles.configure(
        BundleSettings(name=dag_id, path=str(folder), min_file_process_interval=timedelta(0))
    )
    for number in range(3):
        file.write_text(f"from tidemill import DAG, EmptyOperator\nwith DAG('{dag_id}', description='{number}'):\n"
                        "    EmptyOperator(task_id='a')\n")  # fmt: skip
        await here.tidemill.bundles.look(dag_id)
        if number == 1:
            run = await here.tidemill.runs.trigger(dag_id)
            await here.finished(dag_id, run.run_id)
    place = WorkerContext(home=here.home)
    assert len(place.snapshots.names()) == 3
    known = await known_to_temporal(here.tidemill.client)
    aged(here.home)
    cleanup(place, known, MONTH)
    spec = await here.tidemill.dags.spec(dag_id)
    assert spec.source is not None
    assert spec.source.snapshot in place.snapshots.names()
    assert len(place.snapshots.names()) == 2
    again = await here.tidemill.runs.trigger(dag_id)
    assert (await here.finished(dag_id, again.run_id)).state == "success"


async def test_an_attempt_that_runs_is_left_alone(here: Stack, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = f"touch {mark}; while test -e {mark}; do sleep 0.1; done"
    await here.tidemill.dags.register(dag("runs_long", [bash("a", command)]))
    run = await here.tidemill.runs.trigger("runs_long")
    await eventually(lambda: asyncio.to_thread(mark.exists), bool)
    attempts = here.home / "attempts"
    await eventually(lambda: asyncio.to_thread(lambda: [*attempts.rglob("claim.json")]), bool)
    aged(attempts)
    assert cleanup(WorkerContext(home=here.home), Known(), MONTH) == []
    mark.unlink()
    assert (await here.finished("runs_long", run.run_id)).state == "success"


def test_a_link_that_a_task_has_made_leads_to_nothing_that_goes(tmp_path: Path) -> None:
    home, victim = tmp_path / "home", tmp_path / "victim"
    (victim / "base").mkdir(parents=True)
    (victim / "base" / "file").write_text("of somebody else")
    _, attempt, _ = of_a_run(home, "old")
    (attempt / "work").mkdir()
    (attempt / "work" / "attempt=9").symlink_to(victim)
    (attempt / "work" / "claim.json").write_text('{"supervisor": "x", "supervisor_started": 0}')
    (attempt.parent / "attempt=8").symlink_to(victim)
    aged(victim)
    aged(home)
    removed = cleanup(WorkerContext(home=home), Known(), MONTH)
    assert [thing.name for thing in removed if thing.kind == "attempt"] == [str(attempt)]
    assert (victim / "base" / "file").exists()


def test_what_old_tries_have_left_in_a_lake_goes_and_nothing_else(tmp_path: Path) -> None:
    lake, elsewhere = tmp_path / "lake", tmp_path / "elsewhere"
    tries = {name: lake / "sales" / "_tidemill" / f"day=1.{name * 16}-1" for name in "abc"}
    linked = elsewhere / f"day=1.{'d' * 16}-1"
    others = [lake / "sales" / "day=1", lake / "sales" / "_tidemill" / "notes", linked]
    for folder in (*tries.values(), *others):
        folder.mkdir(parents=True)
        (folder / "part-0").write_text("rows")
    (lake / "sales" / "_tidemill" / linked.name).symlink_to(linked)
    (lake / "_tidemill").symlink_to(elsewhere)
    aged(tmp_path)
    (tries["c"] / "part-1").write_text("it still writes")
    planned = clean_lake(str(lake), MONTH, dry_run=True)
    assert tries["a"].exists()
    assert clean_lake(lake.as_uri(), MONTH) == planned
    assert [(each.name, each.size) for each in planned] == [(str(tries[name]), 4) for name in "ab"]
    assert [name for name, folder in tries.items() if folder.exists()] == ["c"]
    assert all((folder / "part-0").exists() for folder in others)
    assert clean_lake(str(lake), MONTH) == []


@pytest.mark.parametrize("place", ["", "file:", "no/such/lake"])
def test_a_lake_that_is_none_is_refused(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError):
        clean_lake(place, MONTH)


def test_what_old_tries_have_left_in_an_object_store_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    store = fsspec.filesystem("memory")
    old, young = (f"/cleaned/lake/_tidemill/day=1.{name * 16}-1/part-0" for name in "ab")
    for name in (old, young, "/cleaned/lake/day=1/part-0"):
        store.pipe_file(name, b"rows")
    store.store[old].created -= timedelta(days=40)
    store.store[old].modified = store.store[old].created
    removed = clean_lake("memory://cleaned/lake", MONTH)
    assert [(each.name, each.size) for each in removed] == [(old.rpartition("/")[0], 4)]
    assert store.find("/cleaned") == [young, "/cleaned/lake/day=1/part-0"]
