"""A year of a daily DAG in seconds, on Temporal's time-skipping server: the runs are those of the pure function.

That server's time stands still while no worker polls, so a downtime is no part of this: it is in
`tests/model/test_schedules.py` and, with real kills, in the demo's test. It also stands still for good when a
workflow continues as new while a child of it runs: the DAG's workflow waits for a moment at which none does.
"""

import uuid
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support import at, dag, empty
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from tidemill.model.dag.state import DagState
from tidemill.model.dag.ticks import coming_runs
from tidemill.model.spec.timetables.cron import zone
from tidemill.model.states import RunState
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin
from time_skipping import time_skipping_server, with_skipped_time

ZONE = "Europe/Berlin"


async def in_parts(env: WorkflowEnvironment, days: int) -> None:
    """Lets *days* go by, one at a time: a call may take a minute, on a machine that is busy with others, too."""
    for _ in range(days):
        await env.sleep(timedelta(days=1))


def expected(state: DagState, until: datetime) -> list[datetime]:
    """The logical dates that the timetable alone gives from *state* until *until*."""
    answer = coming_runs(state.ask(until).model_copy(update={"limit": 1000}))
    return [info.logical_date for info in answer.infos if info.run_after <= until]


@pytest.mark.thorough
async def test_a_year_with_a_pause_both_changes_of_the_clocks_and_a_new_schedule(tmp_path: Path) -> None:
    await with_skipped_time(lambda: a_year(tmp_path))


async def a_year(tmp_path: Path) -> None:
    async with await WorkflowEnvironment.start_time_skipping(test_server_existing_path=time_skipping_server()) as env:
        plugin = TidemillPlugin(tmp_path)
        client = await Client.connect(env.client.service_client.config.target_host, plugins=[plugin])
        queue = f"year-{uuid.uuid4()}"
        tidemill = Tidemill(client, queue)
        begin = (await env.get_current_time()).replace(hour=0, minute=0, second=0, microsecond=0)
        daily = {"schedule": "30 2 * * *", "timezone": ZONE, "start_date": begin.isoformat(), "catchup": True}
        old = dag("year", [empty("only")], **daily)
        new = dag("year", [empty("only")], **{**daily, "schedule": "0 */8 * * *"})

        async with Worker(client, task_queue=queue):
            await tidemill.dags.register(old)
            await in_parts(env, days=60)
            await tidemill.dags.pause("year")
            await env.sleep(timedelta(days=9, hours=5))
            await tidemill.dags.pause("year", False)
            await in_parts(env, days=270)
            view = await tidemill.dags.describe("year")
            assert view.last_automated_interval is not None
            changed_after = view.last_automated_interval
            await tidemill.dags.register(new)
            await in_parts(env, days=30)
            end = await env.get_current_time()
            await env.sleep(timedelta(hours=1))
            runs = [run for run in await tidemill.runs.list("year") if run.run_after <= end]

    first = expected(DagState(spec=old, registered_at=begin), changed_after.end)
    second = expected(
        DagState(spec=new, registered_at=begin, last_automated_interval=changed_after, resume_at=changed_after.end),
        end,
    )
    found = sorted(run.logical_date for run in runs if run.logical_date)
    assert found == first + second
    assert len(first) >= 335
    assert len({run.logical_date.astimezone(zone(ZONE)).utcoffset() for run in runs if run.logical_date}) == 2
    assert at("2000-01-01") < found[0] < begin + timedelta(days=2)
    assert all(run.queued_at >= run.run_after for run in runs)


@pytest.mark.thorough
async def test_a_sensor_that_pokes_for_a_month_leaves_the_home_as_flat_as_one_poke(tmp_path: Path) -> None:
    """720 pokes, one an hour: no folder, no file and no line of a log for each."""
    pokes, month = tmp_path / "pokes", timedelta(days=31)
    command = f"echo poke >> {pokes}; [ $(wc -l < {pokes}) -ge 720 ]"
    sensor = {"kind": "bash_sensor", "task_id": "wait", "command": command, "poke_interval": 3600}
    async with await WorkflowEnvironment.start_time_skipping(test_server_existing_path=time_skipping_server()) as env:
        client = await Client.connect(
            env.client.service_client.config.target_host, plugins=[TidemillPlugin(tmp_path / "home")]
        )
        tidemill = Tidemill(client, f"month-{uuid.uuid4()}")
        async with Worker(client, task_queue=tidemill.task_queue):
            await tidemill.dags.register(dag("patient", [{**sensor, "timeout": month.total_seconds()}]))
            run = await tidemill.runs.trigger("patient")
            await in_parts(env, month.days)
            assert await tidemill.runs.wait(run) is RunState.SUCCESS
    assert len(pokes.read_text().split()) == 720
    kept = [path for place in ("attempts", "logs") for path in (tmp_path / "home" / place).rglob("*")]
    assert len([path for path in kept if path.is_dir()]) < 20
    assert len([path for path in kept if path.is_file()]) < 20
