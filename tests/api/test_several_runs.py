"""A request about several runs: what has been changed is not answered as refused, else it is made again."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from support import Stack, dag, empty
from tidemill.api.routes.task_instances import in_each
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.identity import TriggerRequest
from tidemill.worker.cli.web import web_server
from tidemill.worker.settings.reading import Settings

RUNS = ["one", "two", "three"]


class Changes:
    """Changes runs, but for those that are *refused*."""

    def __init__(self, *refused: str) -> None:
        self.made: list[str] = []
        self._refused = refused

    async def __call__(self, run_id: str) -> list[Any]:
        if run_id in self._refused:
            raise InvalidInputError(f"{run_id}: its history is no longer kept by Temporal")
        self.made.append(run_id)
        return [f"{run_id}/a", f"{run_id}/b"]


async def test_another_run_that_is_refused_is_left_out() -> None:
    found = await in_each(RUNS, RUNS[1], Changes("one"))
    assert found == ["two/a", "two/b", "three/a", "three/b"]


async def test_nothing_is_changed_where_the_named_run_is_refused() -> None:
    change = Changes("two")
    with pytest.raises(InvalidInputError, match="two"):
        await in_each(RUNS, RUNS[1], change)
    assert change.made == []


async def test_where_all_are_refused_that_is_said() -> None:
    with pytest.raises(InvalidInputError, match="one"):
        await in_each(RUNS, None, Changes(*RUNS))


async def test_a_run_without_a_date_is_marked_alone_and_cleared_with_none(here: Stack, tmp_path: Path) -> None:
    """As in Airflow: of runs before and after it there are none, which refuses a clear of those, and no mark."""
    await here.tidemill.dags.register(dag("undated_marks", [empty("a")]))
    for run_id in ("one", "two"):
        await here.tidemill.runs.trigger("undated_marks", TriggerRequest(run_id=run_id))
        await here.finished("undated_marks", run_id)
    async with (
        web_server(here.tidemill, Settings(home=tmp_path / "web"), "127.0.0.1", 0) as url,
        httpx.AsyncClient(base_url=f"{url}/api/v2/dags/undated_marks", timeout=60) as client,
    ):
        around = {"include_past": True, "include_future": True}
        path = "/dagRuns/one/taskInstances/a/dry_run"
        marked = await client.patch(path, json={"new_state": "failed", **around})
        assert [one["dag_run_id"] for one in marked.raise_for_status().json()["task_instances"]] == ["one"]
        cleared = await client.post("/clearTaskInstances", json={"dag_run_id": "one", **around})
        assert (cleared.status_code, "has no logical date" in cleared.json()["detail"]) == (400, True)
