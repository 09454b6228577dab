"""Publishing: one attempt's folder takes the target's place, whatever is there, however often it is asked for."""

from pathlib import Path

import fsspec
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from tidemill.activities.spark import staging
from tidemill.activities.spark.output import MARK, OutputActivities
from tidemill.activities.spark.staging import STAGING
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.run.task_instances import StagedOutput


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
