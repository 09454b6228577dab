"""A change that is made is answered as made, also where no question is answered afterwards: else it is made again."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from support import Stack, bash, dag, eventually, stack
from tidemill.activities.dag_files import each_dag_file
from tidemill.api.read.cached_client import CachedClient
from tidemill.api.responses.dags import DagAnswer, fields_of_line
from tidemill.model.dag.row import DagRow
from tidemill.model.states import RunState
from tidemill.worker.cli.web import web_server
from tidemill.worker.client.caller import Caller
from tidemill.worker.client.dags import Dags
from tidemill.worker.client.runs import Runs
from tidemill.worker.service.connection import NoWorkerError
from tidemill.worker.settings.reading import Settings

PARTITIONED = """
from datetime import datetime
from tidemill import *
days = CronPartitionTimetable("0 0 * * *", timezone="UTC", key_format="%Y-%m-%d")
with DAG("parts", schedule=days, start_date=datetime(2099, 1, 1)):
    EmptyOperator(task_id="x")
"""


@dataclass
class Web:
    here: Stack
    client: httpx.AsyncClient
    dag_id: str
    is_deaf: bool = False
    """Whether questions are not answered."""
    deaf_after_change: bool = False

    @property
    def runs(self) -> str:
        return f"dags/{self.dag_id}/dagRuns"

    async def send(self, method: str, path: str, body: Any) -> Any:
        """What is answered to a change after which nobody answers questions."""
        self.deaf_after_change = True
        answer = await self.client.request(method, path, json=body)
        self.deaf_after_change = self.is_deaf = False
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
async def web(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Web]:
    async with (
        stack(server, tmp_path / "home") as here,
        web_server(here.tidemill, Settings(home=tmp_path / "web"), "127.0.0.1", 0) as url,
        httpx.AsyncClient(base_url=f"{url}/api/v2", timeout=60) as client,
    ):
        made = Web(here, client, f"changed_{uuid4().hex}")  # the service is every test's

        def deaf_after(change: Callable[..., Any]) -> Callable[..., Any]:
            async def changed(*arguments: Any, **named: Any) -> Any:
                answer = await change(*arguments, **named)
                made.is_deaf = made.deaf_after_change
                return answer

            return changed

        def unless_deaf(question: Callable[..., Any]) -> Callable[..., Any]:
            async def asked(*arguments: Any, **named: Any) -> Any:
                if made.is_deaf:
                    raise NoWorkerError("nobody answers")
                return await question(*arguments, **named)

            return asked

        for of, name in ((Caller, "update"), (Dags, "pause")):
            monkeypatch.setattr(of, name, deaf_after(getattr(of, name)))
        for of, name in ((Caller, "query"), (Runs, "list"), (Runs, "describe"), (Runs, "find")):
            monkeypatch.setattr(of, name, unless_deaf(getattr(of, name)))
        await here.tidemill.dags.register(dag(made.dag_id, [bash("a", "exit 1")], schedule="@daily", catchup=False))
        yield made


async def test_each_change_is_answered_as_made(web: Web) -> None:
    made = await web.send("POST", web.runs, {"dag_run_id": "r", "logical_date": None})
    assert (made["dag_run_id"], made["state"]) == ("r", "queued")
    assert (await web.here.finished(web.dag_id, "r")).state is RunState.FAILED

    marked = await web.send("PATCH", f"{web.runs}/r/taskInstances/a", {"new_state": "success"})
    assert [(one["task_id"], one["state"]) for one in marked["task_instances"]] == [("a", "success")]
    assert (await web.here.finished(web.dag_id, "r")).state is RunState.SUCCESS

    assert (await web.send("PATCH", f"{web.runs}/r", {"state": "failed"}))["state"] == "failed"
    assert (await web.send("POST", f"{web.runs}/r/clear", {"dry_run": False}))["state"] == "queued"
    assert (await web.here.finished(web.dag_id, "r")).state is RunState.FAILED

    assert (await web.send("PATCH", f"dags/{web.dag_id}", {"is_paused": True}))["is_paused"] is True
    assert (await web.here.tidemill.dags.describe(web.dag_id)).is_paused

    dates = {"from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-02T00:00:00Z"}
    backfill = await web.send("POST", "backfills", {"dag_id": web.dag_id, **dates})
    [known] = (await web.client.get("backfills", params={"dag_id": web.dag_id})).json()["backfills"]
    assert backfill["id"] == known["id"]


async def test_what_is_tried_is_what_is_made(web: Web, tmp_path: Path) -> None:
    """A backfill over partitions: its runs have neither a logical date, nor other keys than those that were shown."""
    file = tmp_path / "parts.py"
    file.write_text(PARTITIONED)
    [parsed] = each_dag_file(file)
    assert parsed.error is None, parsed.error
    await web.here.tidemill.dags.register(parsed.dags[0])
    dates = {"dag_id": "parts", "from_date": "2026-03-01T00:00:00Z", "to_date": "2026-03-02T00:00:00Z"}
    tried = (await web.client.post("backfills/dry_run", json=dates)).json()["backfills"]
    (await web.client.post("backfills", json=dates)).raise_for_status()
    await web.here.all_finished("parts", 2)
    runs = (await web.client.get("dags/parts/dagRuns", params={"order_by": "run_after"})).json()["dag_runs"]
    assert [{name: run[name] for name in tried[0]} for run in runs] == tried
    assert [one["partition_key"] for one in tried] == ["2026-03-01", "2026-03-02"]


async def test_a_list_shows_a_dag_as_its_own_answer_does(web: Web) -> None:

    async def listed() -> dict[str, Any]:
        return {one["dag_id"]: one for one in (await web.client.get("dags")).json()["dags"]}

    await eventually(listed, lambda found: web.dag_id in found)
    await web.send("POST", web.runs, {"dag_run_id": "r", "logical_date": None})
    await web.here.finished(web.dag_id, "r")
    await web.send("PATCH", f"dags/{web.dag_id}", {"is_paused": True})
    row, own = (await listed())[web.dag_id], (await web.client.get(f"dags/{web.dag_id}")).json()
    assert {name: row[name] for name in row if row[name] != own[name]} == {}


async def test_of_a_line_from_before_a_change_only_that_stays_which_no_dag_tells(here: Stack, tmp_path: Path) -> None:
    await here.tidemill.dags.register(dag("stale", [bash("a", "true")], schedule="@daily", catchup=False))
    source = CachedClient(here.tidemill, Settings(home=tmp_path / "web"))
    kept: dict[str, Any] = {"tags": ("fast",), "owners": ("ann",), "written_for": "Airflow"}
    before = DagRow(dag_id="stale", version="of before", max_active_runs=99, is_broken=True, **kept)
    await eventually(lambda: here.tidemill.dags.describe("stale"), lambda found: found.next_dagrun is not None)
    now = await source.row("stale")
    assert await source._row_now(before) == now.model_copy(update=kept)
    source.ended.close()


def test_a_silent_dag_is_shown_by_its_line_and_nothing_is_made_up() -> None:
    known: dict[str, Any] = {"timetable_summary": "0 3 * * *", "max_active_runs": 1, "is_paused": True}
    row = DagRow(dag_id="d", dag_display_name="Sales", owners=("ada",), tags=("x",), source="/dags/x.py", **known)
    found = DagAnswer(**fields_of_line(row))
    assert {name: getattr(found, name) for name in known} == known
    assert (found.dag_display_name, found.owners, [tag.name for tag in found.tags]) == ("Sales", ["ada"], ["x"])
    assert (found.fileloc, found.timetable_description, found.max_active_tasks) == ("/dags/x.py", None, 0)
    assert not found.is_backfillable
