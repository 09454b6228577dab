"""Runs that are ended, forgotten or marked before and while they run, by commands; and what watching them ends with."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support import Stack, bash, dag, empty, eventually, told
from tidemill.model.run.identity import TriggerRequest, dag_workflow_id


async def test_queued_runs_are_cancelled_marked_and_deleted_by_commands(here: Stack) -> None:
    await here.tidemill.dags.register(dag("waiting", [empty("a")]))
    await here.tidemill.dags.pause("waiting")
    for name in ("cancelled", "marked", "deleted"):
        await here.tidemill.runs.trigger("waiting", TriggerRequest(run_id=name))
    await told(here, "runs", "cancel", "waiting", "cancelled")
    await told(here, "runs", "mark", "waiting", "marked", "success")
    await told(here, "runs", "delete", "waiting", "deleted")

    async def states() -> dict[str, str]:
        return {run.run_id: str(run.state) for run in await here.tidemill.runs.list("waiting")}

    await eventually(states, lambda found: found == {"cancelled": "failed", "marked": "success"})


async def test_pausing_may_end_what_runs(here: Stack, tmp_path: Path) -> None:
    stopped = tmp_path / "stopped"
    slow = f"trap 'touch {stopped}; exit 1' TERM; echo begun; while :; do sleep 0.1; done"
    await here.tidemill.dags.register(dag("busy", [bash("a", slow)]))
    run = await here.tidemill.runs.trigger("busy")
    await eventually(lambda: asyncio.to_thread(lambda: list(here.home.rglob("attempt=1.log"))), bool)
    await eventually(lambda: asyncio.to_thread(here.log_of, "busy", run.run_id, "a"), lambda text: "begun" in text)
    await told(here, "dags", "pause", "busy", "--cancel-runs")
    ended = await eventually(lambda: here.tidemill.runs.find("busy", run.run_id), lambda view: view.state.finished)
    assert (str(ended.state), stopped.exists()) == ("failed", True)


async def test_watching_ends_with_what_is_watched(here: Stack) -> None:
    later = {"schedule": "@daily", "start_date": "2099-01-01T00:00:00Z"}
    dates = ("--from-date", "2024-01-01", "--to-date", "2024-01-02", "--watch")
    await here.tidemill.dags.register(dag("fails", [bash("a", "exit 1")], **later))
    await told(here, "backfill", "create", "fails", *dates, code=1)
    await here.tidemill.dags.register(dag("works", [empty("a")], **later))
    await told(here, "backfill", "create", "works", *dates, code=0)


async def test_a_run_says_who_asked_for_it(here: Stack) -> None:
    old = {"schedule": "@daily", "start_date": "2024-01-01T00:00:00Z", "end_date": "2024-01-01T00:00:00Z"}
    await here.tidemill.dags.register(dag("asked", [empty("a")], catchup=True, **old))
    await here.all_finished("asked", 1)
    await told(here, "dags", "trigger", "asked", "--run-id", "by_command")
    await here.tidemill.runs.trigger("asked", TriggerRequest(run_id="by_client"))
    handle = here.tidemill.client.get_workflow_handle(dag_workflow_id("asked"))
    await handle.signal("trigger", {"run_id": "by_signal"})
    trigger = {"kind": "trigger_dag", "task_id": "t", "trigger_dag_id": "asked", "trigger_run_id": "by_task"}
    await here.run_once(dag("asking", [trigger]))
    runs = await here.all_finished("asked", 5)
    asked = {}
    for run in runs:
        details = await here.tidemill.runs.describe("asked", run.run_id)
        asked[run.run_id.partition("__")[0]] = str(details.run.triggered_by)
    assert asked == {
        "scheduled": "timetable",
        "by_command": "cli",
        "by_client": "client",
        "by_signal": "signal",
        "by_task": "operator",
    }
