"""What runs somewhere today goes on under tomorrow's code: recorded histories replay without a difference."""

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from tidemill.worker.plugin import TidemillPlugin

RECORDED = sorted((Path(__file__).parent / "histories").glob("*.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path, tmp_path: Path) -> None:
    history = WorkflowHistory.from_json("recorded", path.read_text())
    await Replayer(workflows=[], plugins=[TidemillPlugin(tmp_path)]).replay_workflow(history)


def test_there_are_histories_of_both_kinds_with_and_without_continue_as_new() -> None:
    names = {path.stem.rpartition("-")[0].split("-", 1)[1] for path in RECORDED}
    assert {"whole-Dag", "whole-DagRun", "continued-Dag", "continued-DagRun"} <= names
