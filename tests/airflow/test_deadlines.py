"""Deadlines of Airflow's files act: by what they count from, each by its own callback, once, and only when missed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow_stack import airflow_place, answer_of, needs_airflow, read_file, register
from support import Stack, eventually, stack
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.revisions import ClearRequest
from tidemill.model.spec.deadlines import DeadlineAlert
from tidemill.model.states import RunState

pytestmark = needs_airflow
FILE = """
import json
from datetime import datetime, timedelta, timezone
from airflow.sdk import DAG, task
from airflow.sdk.definitions.deadline import AsyncCallback, DeadlineAlert, DeadlineReference, SyncCallback

OUT = {out!r}

def note(**told):
    with open(OUT, "a") as file:
        file.write(json.dumps(told) + "\\n")

async def missed(who, context):
    note(who=who, run=context["dag_run"]["run_id"], at=context["deadline"]["deadline_time"])

def plain(who):
    note(who=who)

PAST = datetime(2026, 1, 1, tzinfo=timezone.utc)
ALERTS = [
    DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, timedelta(seconds=1), AsyncCallback(missed, {{"who": "queued"}})),
    DeadlineAlert(DeadlineReference.AVERAGE_RUNTIME(), timedelta(hours=1), AsyncCallback(missed, {{"who": "never"}})),
    DeadlineAlert(DeadlineReference.FIXED_DATETIME(PAST), timedelta(), SyncCallback(plain, {{"who": "fixed"}})),
    DeadlineAlert(DeadlineReference.DAGRUN_LOGICAL_DATE, timedelta(days=1), AsyncCallback(missed, {{"who": "date"}})),
    DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, timedelta(hours=1), AsyncCallback(missed, {{"who": "in time"}})),
]

with DAG("deadlines_of_airflow", schedule=None, deadline=ALERTS):
    @task
    def slow():
        import time
        time.sleep(3)
    slow()

with DAG("one_deadline", schedule=None, deadline=ALERTS[4]):
    @task
    def quick(): return 1
    quick()
"""


@pytest.fixture
def place(tmp_path: Path) -> WorkerContext:
    return airflow_place(tmp_path / "home")


@pytest.fixture
async def airflow(server: str, tmp_path: Path, place: WorkerContext) -> AsyncIterator[Stack]:
    async with stack(server, tmp_path / "home", place=place) as made:
        yield made


async def test_each_is_told_once_by_its_own_callback(airflow: Stack, place: WorkerContext, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "deadlines.py"
    file.write_text(FILE.format(out=str(out)))
    await register(airflow, read_file(place, file).values())
    date = datetime(2026, 1, 5, tzinfo=UTC)
    run = await airflow.tidemill.runs.trigger("deadlines_of_airflow", TriggerRequest(logical_date=date))
    assert (await airflow.finished("deadlines_of_airflow", run.run_id)).state is RunState.SUCCESS

    async def told() -> list[dict[str, Any]]:
        return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []

    said = await eventually(told, lambda found: len(found) >= 3)
    assert sorted(one["who"] for one in said) == ["date", "fixed", "queued"]
    by_date = next(one for one in said if one["who"] == "date")
    assert (by_date["run"], by_date["at"]) == (run.run_id, "2026-01-06T00:00:00+00:00")
    quick = await airflow.tidemill.runs.trigger("one_deadline")
    await airflow.finished("one_deadline", quick.run_id)
    assert len(await told()) == 3


def test_what_cannot_be_counted_is_noticed(place: WorkerContext, tmp_path: Path) -> None:
    file = tmp_path / "deadlines.py"
    file.write_text(FILE.format(out="unused"))
    notices = answer_of(place, file).notices
    assert notices == ("DAG 'deadlines_of_airflow': a deadline by AverageRuntimeDeadline changes nothing here",)


@pytest.mark.parametrize(("fields", "due"), [
    ({"reference": "queued_at", "interval": 60}, "2026-01-02T00:01:00"),
    ({"reference": "logical_date", "interval": -60}, "2025-12-31T23:59:00"),
    ({"reference": "fixed", "at": "2026-02-01T00:00:00Z", "interval": 0}, "2026-02-01T00:00:00"),
    ({"reference": "queued_at", "interval": 1e12}, None),
    ({"reference": "fixed", "at": "9999-01-01T00:00:00Z"}, None),
])  # fmt: skip
def test_when_one_is_due(fields: dict[str, Any], due: str | None) -> None:
    alert = DeadlineAlert.model_validate({"number": 0, **fields})
    logical, queued = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    found = alert.due(logical, queued)
    assert (found is None and due is None) or (found is not None and found.isoformat().startswith(str(due)))
    assert DeadlineAlert(number=0, reference="logical_date", interval=timedelta(1)).due(None, queued) is None


REPORTED = """
import json
from datetime import timedelta
from airflow.sdk import DAG, task
from airflow.sdk.bases.notifier import BaseNotifier
from airflow.sdk.definitions.deadline import AsyncCallback, DeadlineAlert, DeadlineReference

def note(who):
    with open({out!r}, "a") as file:
        file.write(json.dumps({{"who": who}}) + "\\n")

async def missed(who):
    note(who)

class Tells(BaseNotifier):
    def __init__(self, who):
        super().__init__()
        self.who = who

    async def async_notify(self, context):
        note(self.who)

    def notify(self, context):
        note(self.who)

def after(seconds, callback, who):
    callback = AsyncCallback(callback, {{"who": who}})
    return DeadlineAlert(DeadlineReference.DAGRUN_QUEUED_AT, timedelta(seconds=seconds), callback)

def waits(seconds):
    @task
    def waiting():
        import time
        time.sleep(seconds)
    waiting()

with DAG("fails_early", schedule=None, deadline=after(5, missed, "early")):
    @task
    def fails():
        raise ValueError("no")
    fails()

with DAG("edited", schedule=None, deadline=after(2, missed, "edited"), tags={tags!r}):
    waits(4)

with DAG("by_notifier", schedule=None, deadline=after(2, Tells, "notifier")):
    waits(4)

with DAG("late", schedule=None, deadline=after(8, missed, "late")):
    waits(10)
"""


async def test_deadlines_as_public_reports_have_them(airflow: Stack, place: WorkerContext, tmp_path: Path) -> None:
    """60927, 43999: none after the run has ended; 68732: also of a version that is new for another reason.

    58560: a notifier as the callback; 61372: one that counts from queueing counts anew when its run is cleared.
    """
    out, file = tmp_path / "out", tmp_path / "deadlines.py"

    async def told(who: str) -> int:
        lines = out.read_text().splitlines() if out.exists() else []
        return sum(json.loads(line)["who"] == who for line in lines)

    for tags in (["before"], ["after"]):
        file.write_text(REPORTED.format(out=str(out), tags=tags))
        await register(airflow, read_file(place, file).values())
    runs = {dag_id: await airflow.tidemill.runs.trigger(dag_id) for dag_id in ("fails_early", "edited", "by_notifier")}
    assert (await airflow.finished("fails_early", runs["fails_early"].run_id)).state is RunState.FAILED
    late = await airflow.tidemill.runs.trigger("late")
    for dag_id, who in (("edited", "edited"), ("by_notifier", "notifier"), ("late", "late")):
        await eventually(lambda who=who: told(who), lambda n: n == 1)
        await airflow.finished(dag_id, (runs | {"late": late})[dag_id].run_id)
    assert await told("early") == 0, "its run had ended before, and what was due later has been told"
    await airflow.tidemill.runs.clear("edited", runs["edited"].run_id, ClearRequest(only_failed=False))
    await eventually(lambda: told("edited"), lambda n: n == 2)
