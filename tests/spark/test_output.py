"""Publishing: one attempt's folder takes the target's place, whatever is there, however often it is asked for."""

import threading
from datetime import UTC, datetime
from pathlib import Path

import fsspec
import pytest
from spark_starts import start
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from tidemill.activities.spark import staging
from tidemill.activities.spark.activity import SparkActivities
from tidemill.activities.spark.output import MARK, OutputActivities
from tidemill.activities.spark.staging import STAGING, remove_unpublished, stage
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.run.attempts import TaskAttempt
from tidemill.model.run.identity import RunIdentity, RunType, TriggeredBy
from tidemill.model.run.task_instances import StagedOutput
from tidemill.model.spec.tasks import PythonTask


def attempt() -> TaskAttempt:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    run = RunIdentity(dag_id="d", run_id="r", run_type=RunType.MANUAL, triggered_by=TriggeredBy.CLI, run_after=now)
    return TaskAttempt(run=run, task=PythonTask(task_id="t"), try_number=1, execution="e")


def staged(folder: Path, target: str, attempt: str, text: str) -> StagedOutput:
    made = folder / STAGING / f"{target}.{attempt}"
    made.mkdir(parents=True)
    (made / "part-0").write_text(text)
    return StagedOutput(staged=str(made), target=str(folder / target))


def published(output: StagedOutput) -> str:
    return str(ActivityEnvironment().run(OutputActivities(WorkerContext(home=Path())).publish, output))


@pytest.mark.parametrize("target", ["day=2024-01-01", "run#1 of 2?", "100%"])
def test_a_second_attempt_takes_the_place_of_the_first(tmp_path: Path, target: str) -> None:
    for attempt, text in (("a-1", "one"), ("b-1", "two")):
        output = staged(tmp_path, target, attempt, text)
        for _ in range(2):  # asked again, it changes nothing
            assert published(output) == str(tmp_path / target)
            assert (tmp_path / target / "part-0").read_text() == text
            assert (tmp_path / target / MARK).read_text() == f"{target}.{attempt}"
    assert [path.name for path in tmp_path.iterdir()] == [target], "nothing else is left"


@pytest.mark.parametrize(("output", "target"), [
    ("lake/x", "/srv/dags/lake/x"), ("./lake//x/", "/srv/dags/lake/x"), ("../lake", "/srv/lake"),
    ("/lake/x", "/lake/x"), ("r__2024-01-01T00:00:00+00:00", "/srv/dags/r__2024-01-01T00:00:00+00:00"),
    ("/lake/../x", "/x"), ("file:/lake/x", "file:///lake/x"), ("file:///lake/x/", "file:///lake/x"),
    ("file://localhost/lake/x", "file://localhost/lake/x"), ("hdfs:///x", "hdfs:///x"),
    ("s3a://bucket/x/", "s3a://bucket/x"),
])  # fmt: skip
def test_what_an_output_names(output: str, target: str) -> None:
    staged = stage(attempt(), output, 1, Path("/srv/dags"), Path("/home/worker"))
    assert staged is not None
    assert staged.target == target
    assert staged.staged.rpartition("/_tidemill/")[0] == target.rpartition("/")[0]


@pytest.mark.parametrize(("output", "reason"), [
    ("", "it is empty"), ("  ", "it is empty"), ("~/x", "knows no home"), ("/", "no folder of its own"),
    ("//", "no folder of its own"), ("file:///", "no folder of its own"), ("file:/", "no folder of its own"),
    ("s3a://bucket", "no folder of its own"), ("hdfs:///", "no folder of its own"), ("hdfs:/x", "such as s3a://bucket"),
    ("dbfs:/x", "nothing is published to dbfs"), ("s3a://bucket/../x", r"without `\.` and"),
    *((output, "has the DAG file or TIDEMILL_HOME in it") for output in (
        ".", "./", "..", "lake/..", "/srv", "/srv/dags/", "../dags", "file:///srv/dags", "file:/srv", "/home",
        "/home/worker",
    )),
])  # fmt: skip
def test_an_output_that_is_no_folder_of_its_own_is_refused(output: str, reason: str) -> None:
    """It would be replaced, with all that is in it."""
    with pytest.raises(ApplicationError, match=reason):
        stage(attempt(), output, 1, Path("/srv/dags"), Path("/home/worker"))


def test_a_link_to_the_folder_of_the_dag_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "dags")
    with pytest.raises(ApplicationError, match="has the DAG file"):
        stage(attempt(), "../link", 1, tmp_path / "dags", tmp_path / "home")


def test_what_lost_starts_of_the_attempt_wrote_goes_with_it(tmp_path: Path) -> None:
    staged(tmp_path, "numbers", "a-1", "half")
    other = staged(tmp_path, "numbers", "c-1", "of another attempt")
    published(staged(tmp_path, "numbers", "a-2", "whole"))
    assert (tmp_path / "numbers" / "part-0").read_text() == "whole"
    assert [path.name for path in (tmp_path / STAGING).iterdir()] == [Path(other.staged).name]


def test_an_application_that_wrote_nothing_is_told_where_to_write(tmp_path: Path) -> None:
    output = StagedOutput(staged=str(tmp_path / STAGING / "x.a-1"), target=str(tmp_path / "x"))
    with pytest.raises(ApplicationError, match=r"spark\.tidemill\.output"):
        published(output)


def test_objects_are_published_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "PUBLISHED", {*staging.PUBLISHED, "memory"})  # stands in for a store of objects
    store = fsspec.filesystem("memory")
    for attempt, files in (("a-1", ("one", "two")), ("b-1", ("three",))):
        place = f"memory://lake/{STAGING}/numbers.{attempt}"
        store.pipe_file(
            f"memory://lake/{STAGING}/numbers.{attempt.replace('1', '7')}/half", b"of a start that was lost"
        )
        for name in files:
            store.pipe_file(f"{place}/{name}", name.encode())
        for _ in range(2):
            published(StagedOutput(staged=place, target="memory://lake/numbers"))
            found = {path.rpartition("/")[2] for path in store.find("memory://lake/numbers")}
            assert found == {*files, MARK}
    assert store.find(f"memory://lake/{STAGING}") == []


def removed(output: StagedOutput, until: int | None = None) -> None:
    place = WorkerContext(home=Path())
    ActivityEnvironment().run(lambda: remove_unpublished(place, output, until=until))


def test_a_start_that_has_failed_removes_nothing_of_its_successor(tmp_path: Path) -> None:
    """It may not have heard that it has one."""
    first, second, other = (staged(tmp_path, "numbers", name, "rows") for name in ("a-1", "a-2", "b-1"))
    removed(first, until=1)
    assert [Path(each.staged).exists() for each in (first, second, other)] == [False, True, True]
    removed(first)
    assert [Path(each.staged).exists() for each in (first, second, other)] == [False, False, True]


@pytest.mark.parametrize("place", ["abfss://lake@x/_tidemill/a-1", "viewfs://x/_tidemill/a-1", "s3://x/_tidemill/a-1"])
def test_what_cannot_be_removed_changes_no_end(
    place: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    removed(StagedOutput(staged=place, target="x"))
    assert "cannot be removed" in caplog.text


def test_what_takes_long_to_be_removed_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(staging, "REMOVAL_TIMEOUT", 0.1)
    monkeypatch.setattr(staging, "_remove_starts", lambda *_: over.wait(60))
    removed(staged(tmp_path, "numbers", "a-1", "rows"))
    over.set()
    assert "takes long" in caplog.text


class Silent:
    """A Temporal that cannot be asked."""

    def is_open(self, workflow_id: str, run_id: str) -> bool:
        raise TimeoutError(f"nobody says whether {workflow_id} ({run_id}) goes on")


def test_where_temporal_cannot_be_asked_nothing_is_removed_and_no_end_changes(tmp_path: Path) -> None:
    work = start(tmp_path, {"master": "local[1]"}, application="x.py", output=str(tmp_path / "lake" / "numbers"))
    assert work.staged is not None
    Path(work.staged.staged).mkdir(parents=True)
    activities = SparkActivities(work.worker_context)
    activities.temporal = Silent()  # type: ignore[assignment]
    ActivityEnvironment().run(lambda: activities._remove_unpublished(work))
    assert Path(work.staged.staged).exists()
    activities.temporal = None
    ActivityEnvironment().run(lambda: activities._remove_unpublished(work))
    assert not Path(work.staged.staged).exists()
