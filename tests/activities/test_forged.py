"""What a task, its DAG or its bundle says of itself and of others is not believed: what is refused, and why."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from tidemill.activities.attempts.folder import AttemptFolder
from tidemill.activities.attempts.key_values import ANY_TASK, KeyValues
from tidemill.activities.attempts.lifecycle import ChildListener
from tidemill.activities.attempts.xcom_store import XComStore
from tidemill.activities.bundles import snapshots
from tidemill.activities.bundles.files import _listed
from tidemill.activities.bundles.snapshots import Snapshots
from tidemill.activities.bundles.sources import GitSource
from tidemill.activities.masking import Masker
from tidemill.activities.processes.users import RunAs
from tidemill.activities.spark.client import ClientMode
from tidemill.activities.spark.output import OutputActivities
from tidemill.activities.spark.staging import stage
from tidemill.activities.spark.starts import SparkStart
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.asset.state import AssetState
from tidemill.model.bundle.data import BundleSettings
from tidemill.model.dag.assets import ties_need_bundle, wanted_ties
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.attempts import TaskAttempt
from tidemill.model.run.identity import RunIdentity, RunType, TriggeredBy
from tidemill.model.run.task_instances import Outcome, StagedOutput
from tidemill.model.spec.assets.identity import Asset
from tidemill.model.spec.dag import DagSpec
from tidemill.model.spec.owned import OwnedNames
from tidemill.model.spec.references import stored_reference
from tidemill.model.spec.tasks import BranchTask, PythonTask, SparkOptions, SparkSubmitTask
from tidemill.model.states import TaskState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOBODY = RunAs(65534, 65534)
OF_A = OwnedNames(variable=("a_",), connection=("a_",), asset=("a_",))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.fixture
def ground() -> Iterator[Path]:
    """A folder that every user may pass through and read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def attempt(dag_id: str = "a_dag", **fields: Any) -> TaskAttempt:
    run = RunIdentity(dag_id=dag_id, run_id="r", run_type=RunType.MANUAL, triggered_by=TriggeredBy.CLI, run_after=NOW)
    task = fields.pop("task", PythonTask(task_id="t"))
    return TaskAttempt(run=run, task=task, try_number=1, execution="e", **fields)


def conversation(url: Path, task: str | None = "dag_id=a_dag/run_id=r/task_id=t") -> ChildListener:
    return ChildListener(None, Masker(), key_values=KeyValues(f"file://{url}"), task=task, owns=OF_A)


@pytest.mark.parametrize("kind", ["model_extra", "pool", "asset", "dag_id", "connections", "__dict__", "", None, 1])
@pytest.mark.parametrize("asked", [{"name": "b_db"}, {}])
def test_only_variables_and_connections_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, asked: dict[str, str]
) -> None:
    monkeypatch.setenv("TIDEMILL_CONN_B_DB", "postgres://u:secret@h/db")
    question = {"look_up": kind, **asked} if asked else {"names": kind}
    assert "is nothing that is looked up" in conversation(tmp_path).answer(question)["error"]


def test_variables_are_not_cleared_and_values_of_others_assets_not_touched(tmp_path: Path) -> None:
    kept = KeyValues(f"file://{tmp_path}")
    kept.put("variables", "b_key", 1)
    mine = conversation(tmp_path)
    for store in ("clear", "keys", "get"):
        assert "one by one" in mine.answer({"store": store, "of": "variables", "key": "a_key"})["error"]
    for of in ("asset_name", "asset_uri"):
        for store in ("get", "set", "delete", "clear", "keys"):
            question = {"store": store, "of": of, "asset": "b_sales", "key": "k", "value": 1}
            assert "asset 'b_sales': its bundle owns" in mine.answer(question)["error"]
    assert mine.answer({"store": "set", "of": "asset_name", "asset": "a_sales", "key": "k", "value": 1}) == {}
    assert kept.get("variables", "b_key") == {"found": True, "value": 1}


def test_a_process_that_watches_triggers_has_no_values_of_its_own(tmp_path: Path) -> None:
    """Which tasks it works for its host knows."""
    question = {"store": "get", "of": "task", "task": "variables", "key": "b_key"}
    assert "does not work for" in conversation(tmp_path, ANY_TASK).answer(question)["error"]


def test_a_reference_leads_to_results_of_its_own_run_alone(tmp_path: Path) -> None:
    store = XComStore(f"file://{tmp_path}")
    others = tmp_path / "dag_id=b_dag" / "run_id=r" / "x.json"
    variables = tmp_path / "_values" / "variables" / "b_key.json"
    for path in (others, variables):
        path.parent.mkdir(parents=True)
        path.write_text('"S3CRET"')
        forged = stored_reference(f"file://{path}", 8, None)
        for made in (
            attempt(xcom={"t": {"k": forged}}),
            attempt(task=PythonTask(task_id="t", args=[forged])),
        ):
            with pytest.raises(ApplicationError, match="which is not where its run keeps results"):
                store.fill(made)
        branch = attempt(task=BranchTask(task_id="t"))
        pushed = store.put(branch, Outcome(state=TaskState.SUCCESS, xcom={"k": forged, "return_value": "next"})).xcom
        assert pushed["return_value"] == "next"
        assert store.filled(pushed["k"], "dag_id=a_dag") == forged, "what it pushed is a value, and leads nowhere"
        outcome = store.put(branch, Outcome(state=TaskState.SUCCESS, xcom={"return_value": forged}))
        with pytest.raises(ApplicationError, match="which is not where its run keeps results"):
            store.filled(outcome.xcom, "dag_id=a_dag")
    large = store.put(attempt(), Outcome(state=TaskState.SUCCESS, xcom={"k": "x" * 100_000}))
    assert store.fill(attempt(xcom={"t": large.xcom})).xcom == {"t": {"k": "x" * 100_000}}


@pytest.mark.parametrize(
    "target", ["local:///etc/x", "sftp://localhost/root/x", "simplecache::file:///etc/x", "s3::file:///x", "zip://a/b"]
)
def test_output_is_published_to_folders_and_object_stores_alone(target: str) -> None:
    with pytest.raises(ApplicationError, match="nothing is published to"):
        stage(attempt(), target, 1, Path("/dags"), Path("/home"))
    assert stage(attempt(), "s3://bucket/x", 1, Path("/dags"), Path("/home")) is not None


def test_what_a_driver_says_is_published_is_not_believed(tmp_path: Path) -> None:
    place = WorkerContext(home=tmp_path / "home")
    forged = {"staged": "local:///etc", "target": "local:///tmp/pub"}
    told = {
        "outcome": {"state": "success", "staged": forged, "submission": {"application_id": "x", "submitted_at": NOW}}
    }
    for output in (None, "/lake/x"):
        task = SparkSubmitTask(task_id="t", application="a.py", output=output)
        made = attempt(task=task)
        folder = AttemptFolder(tmp_path, tmp_path)
        work = SparkStart(made, place, SparkOptions(), ClientMode(), folder, task.written(), 1)
        outcome = work.ended({**told, "staged": forged} if output else told)
        assert outcome.submission is None
        assert outcome.staged is None if output is None else (outcome.staged or forged).target == "/lake/x"
    with pytest.raises(ApplicationError, match="nothing is published to local"):
        ActivityEnvironment().run(OutputActivities(place).publish, StagedOutput.model_validate(forged))


def spec_with(asset: dict[str, Any], bundle: str = "team_a", prefix: str = "a_") -> DagSpec:
    source = {"path": "/f.py", "sha256": "1", "bundle": bundle, "owns": {"asset": [prefix]}, "snapshot": "0" * 20}
    schedule = {"kind": "asset", "condition": {"kind": "asset", "name": asset["name"], "uri": asset["name"], **asset}}
    return DagSpec.model_validate({"dag_id": f"{bundle}_waits", "schedule": schedule, "tasks": [], "source": source})


def test_what_is_done_when_an_asset_is_late_is_its_bundles() -> None:
    command = {"kind": "command", "command": "id"}
    spec = spec_with({"name": "a_feed", "freshness": 60, "on_late": [command]})
    assert ties_need_bundle(spec)
    [tie] = wanted_ties(spec).values()
    assert tie.source is not None
    assert (tie.source.bundle, tie.source.owns) == ("team_a", OwnedNames(asset=("a_",)))
    newer = spec.model_copy(update={"source": spec.source and spec.source.model_copy(update={"snapshot": "1" * 20})})
    assert wanted_ties(newer) == wanted_ties(spec)


def test_who_waits_for_an_asset_of_others_says_nothing_of_it() -> None:
    """Neither its uri, by which others wait for it, nor how fresh it has to be."""
    theirs = spec_with({"name": "b_sales", "uri": "s3://b/sales"}, "team_b", "b_")
    hostile = spec_with({"name": "b_sales", "uri": "s3://evil/x", "freshness": 86400 * 3000})
    state = AssetState(asset=Asset(name="b_sales", uri="s3://b/sales"))
    for spec in (theirs, hostile):
        for tie in wanted_ties(spec).values():
            state.tie(tie, NOW)
    assert state.asset.uri == "s3://b/sales"
    assert state.fresh_until is None
    assert state.consumers == ["team_a_waits", "team_b_waits"]


def listing(root: Path, ground: Path, syntax: str = "glob") -> dict[str, Any]:
    cache = ground / "home" / "cache.json"
    user = [NOBODY.uid, NOBODY.gid] if os.geteuid() == 0 else None
    return _listed({"root": str(root), "syntax": syntax, "extras": {}, "cache": str(cache), "user": user})


@needs_root
def test_an_ignore_file_shows_nothing_that_its_bundle_could_not_read(ground: Path) -> None:
    secret, root = ground / "secret", ground / "dags"
    secret.write_text("password: hunter2(")
    secret.chmod(0o600)
    root.mkdir()
    (root / ".airflowignore").symlink_to(secret)
    (root / "a.py").write_text("import airflow # dag")
    answer = listing(root, ground, "regexp")
    assert answer["warnings"] == [".airflowignore cannot be read: Permission denied"]
    assert [*answer["files"]] == ["a.py"]
    assert (ground / "home" / "cache.json").stat().st_uid == 0


@pytest.mark.parametrize("made", ["device", "pipe", "large"])
def test_an_ignore_file_that_has_no_end_is_told(ground: Path, made: str) -> None:
    root = ground / "dags"
    root.mkdir()
    ignore = root / ".airflowignore"
    if made == "device":
        ignore.symlink_to("/dev/zero")
    elif made == "pipe":
        os.mkfifo(ignore)
    else:
        ignore.write_text("x\n" * 2**20)
    (root / "a.py").write_text("import airflow # dag")
    answer = listing(root, ground)
    assert ".airflowignore cannot be read: it" in answer["warnings"][0]
    assert [*answer["files"]] == ["a.py"]


@needs_root
def test_a_repository_that_leads_to_anothers_is_read_with_its_bundles_rights(ground: Path) -> None:
    from dulwich import porcelain

    theirs, mine = ground / "team_b", ground / "team_a"
    repository = porcelain.init(str(theirs))
    (theirs / "dag.py").write_text("secret = 1")
    porcelain.add(repository, [str(theirs / "dag.py")])
    porcelain.commit(repository, message=b"m", author=b"b <b@b>", committer=b"b <b@b>")
    mine.mkdir()
    (mine / ".git").symlink_to(theirs / ".git")
    settings = BundleSettings(name="team_a", path=str(mine), kind="git")
    assert GitSource(settings, ground / "home", NOBODY).newest()
    theirs.chmod(0o700)
    with pytest.raises(InvalidInputError, match="repository"):
        GitSource(settings, ground / "home", NOBODY).newest()


def test_tasks_that_begin_together_lay_out_their_version_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "dags"
    root.mkdir()
    names = [f"f{n}.py" for n in range(20)]
    for name in names:
        (root / name).write_text(name)
    kept = Snapshots(f"file://{tmp_path}/kept", tmp_path / "here")
    version = kept.keep(root, names)
    monkeypatch.setattr(snapshots, "_checked", {})
    failed: list[BaseException] = []

    def lay_out() -> None:
        try:
            assert sorted(path.name for path in kept.lay_out(version).iterdir()) == sorted(names)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=lay_out) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert [path.name for path in (tmp_path / "here").iterdir()] == [version]
    assert json.loads((tmp_path / "kept" / "manifests" / f"{version}.json").read_text()).keys() == {*names}
