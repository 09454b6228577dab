"""Watchers of assets in Airflow's DAG files: what their triggers say are events, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_stack import needs_airflow
from support import Stack, eventually
from test_airflow_dags import airflow, out, specs_of
from tidemill.model.run.messages import XComQuestion
from tidemill.model.spec.assets.condition import assets_in

__all__ = ["airflow", "out"]
pytestmark = needs_airflow


async def result_of_next_run(made: Stack, dag_id: str, task_id: str, number: int) -> Any:
    """What a task has returned in the run that is the DAG's *number*th."""

    async def runs() -> list[Any]:
        return sorted(await made.tidemill.runs.list(dag_id), key=lambda run: run.run_after)

    run = (await eventually(runs, lambda found: len(found) >= number))[number - 1]
    details = await made.finished(dag_id, run.run_id)
    assert {str(task.state) for task in details.tasks} == {"success"}
    handle = made.tidemill.client.get_workflow_handle(run.workflow_id)
    found = await handle.query("xcom", XComQuestion(task_id=task_id, key="return_value"))
    return found["-1"]


async def test_what_a_trigger_says_is_an_event_of_its_asset(airflow: Stack, out: Path) -> None:
    """Also what it says at once, and with what it has kept of the asset in a look before."""
    specs = await specs_of(airflow, "watched")
    [asset] = assets_in(specs["on_arrival"].schedule.condition)  # type: ignore[union-attr]
    assert [watcher.name for watcher in asset.watchers] == ["by_a_queue"]
    (out / "one").write_text("first")
    (out / "one").rename(out / "alone")
    expected = [{"from_trigger": True, "payload": {"line": "first"}}]
    assert await result_of_next_run(airflow, "on_arrival", "heard", 1) == expected
    (out / "two").write_text("again third")
    (out / "two").rename(out / "alone")

    async def lines() -> list[str]:
        events = await airflow.tidemill.assets.events("alone")
        return [event.extra["payload"]["line"] for event in events]

    assert sorted(await eventually(lines, lambda found: len(found) >= 3)) == ["first", "first", "third"]


async def test_triggers_that_may_share_a_stream_have_one_each(airflow: Stack, out: Path) -> None:
    await specs_of(airflow, "watched")
    (out / "both").write_text("left-1 right-1")
    (out / "both").rename(out / "shared")
    assert await result_of_next_run(airflow, "on_both", "both", 1) == ["left-1", "right-1"]
