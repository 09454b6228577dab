"""What runs somewhere today goes on under tomorrow's code: recorded histories replay without a difference."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support import Stack, dag, empty, stack
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from tidemill.model.spec.dag import DagSpec
from tidemill.model.spec.timetables.cron import Cron
from tidemill.worker.plugin import TidemillPlugin
from tidemill.workflows.memo_view import SHOWS_VIEW

RECORDED = sorted((Path(__file__).parent / "histories").glob("*.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    started = json.loads(text)["events"][0]["workflowExecutionStartedEventAttributes"]
    history = WorkflowHistory.from_json(started["workflowId"], text)
    await Replayer(workflows=[], plugins=[TidemillPlugin(tmp_path)], debug_mode=True).replay_workflow(history)


def test_there_are_histories_of_both_kinds_with_and_without_continue_as_new() -> None:
    names = {path.stem.rpartition("-")[0].split("-", 1)[1] for path in RECORDED}
    assert {"whole-Dag", "whole-DagRun", "continued-Dag", "continued-DagRun", "whole-Pool", "continued-Asset"} <= names


async def test_another_release_of_cron_or_of_the_time_zones_cannot_change_what_was_decided(
    here: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ticks are in history: a worker whose tables put them elsewhere replays to the same child ids."""
    start = (datetime.now(UTC) - timedelta(days=5)).replace(hour=0, minute=0, second=0, microsecond=0)
    fields = {"schedule": "30 2 * * *", "timezone": "Europe/Berlin", "start_date": start.isoformat(), "catchup": True}
    spec = dag("zoned", [empty("only")], **fields)
    await here.tidemill.dags.register(spec)
    await here.all_finished("zoned", 4)
    history = await here.tidemill.client.get_workflow_handle("dag:zoned").fetch_history()
    real = Cron.next
    monkeypatch.setattr(Cron, "next", lambda self, instant: moved(real(self, instant)))
    assert spec.schedule.next_dagrun_info(None, spec.restriction, start) != await asked_before(spec, start, real)
    await Replayer(workflows=[], plugins=[TidemillPlugin(tmp_path)], debug_mode=True).replay_workflow(history)


async def test_a_suggestion_that_replay_finds_earlier_changes_nothing(impatient_server: str, tmp_path: Path) -> None:
    """The SDK says of a workflow task whether to continue as new, and replay may take several tasks as one."""
    async with stack(impatient_server, tmp_path / "home") as made:
        start = (datetime.now(UTC) - timedelta(days=12)).replace(hour=0, minute=0, second=0, microsecond=0)
        fields = {"schedule": "@daily", "start_date": start.isoformat(), "catchup": True, "max_active_runs": 2}
        await made.tidemill.dags.register(dag("suggested", [empty("only")], **fields))
        await made.all_finished("suggested", 11)
        listed = made.tidemill.client.list_workflows("WorkflowId = 'dag:suggested'", page_size=20)
        handles = [made.tidemill.client.get_workflow_handle(e.id, run_id=e.run_id) async for e in listed]
        histories = [await handle.fetch_history() for handle in handles]
    assert len(histories) > 1
    for earlier in [changed for history in histories for changed in with_earlier_suggestions(history)]:
        await Replayer(workflows=[], plugins=[TidemillPlugin(tmp_path)], debug_mode=True).replay_workflow(earlier)


def with_earlier_suggestions(history: WorkflowHistory) -> list[WorkflowHistory]:
    """A history for each of its tasks without a suggestion, with one there.

    Of an execution that a client has begun, of those tasks that come after it has written its memo.
    """
    told, key = history.to_json_dict(), "workflowTaskStartedEventAttributes"
    begun, memo = told["events"][0]["workflowExecutionStartedEventAttributes"], "workflowPropertiesModified"
    of_client = SHOWS_VIEW not in begun.get("memo", {}).get("fields", {})
    first = next(n for n, event in enumerate(told["events"]) if f"{memo}EventAttributes" in event) if of_client else 0
    tasks = [n for n, event in enumerate(told["events"]) if n > first and key in event]
    changed = []
    for number in tasks:
        if not told["events"][number][key].get("suggestContinueAsNew"):
            copy = json.loads(json.dumps(told))
            copy["events"][number][key]["suggestContinueAsNew"] = True
            changed.append(WorkflowHistory.from_json(history.workflow_id, copy))
    return changed


def moved(tick: datetime | None) -> datetime | None:
    return None if tick is None else tick + timedelta(hours=1)


async def asked_before(spec: DagSpec, start: datetime, real: object) -> object:
    """What the timetable answers with the tables as they were."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cron, "next", real)
        return spec.schedule.next_dagrun_info(None, spec.restriction, start)
