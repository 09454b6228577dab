"""A worker that is gone with its host is known within seconds; one that nobody can hear is not taken for gone."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from support import bash, dag, eventually, stack, suspended, temporal_server, worker_environment, worker_process
from temporalio.api.workflowservice.v1 import ListWorkersRequest
from temporalio.client import Client
from tidemill.model.states import RunState
from tidemill.worker.app.process import lost_after_of
from tidemill.worker.settings.reading import Settings
from tidemill.worker.supervision.lost_workers import Report, Reports

pytestmark = pytest.mark.faults

LOST_AFTER = 8


def reports(*reported: int, running: bool = True) -> list[Report]:
    return [Report(f"key {n}", f"worker {n}", at, 3.0, running) for n, at in enumerate(reported)]


def test_who_is_silent_while_others_report_is_lost_once() -> None:
    seen = Reports(15)
    found = {now: seen.observe(reports(now, 1), now) for now in range(0, 31, 3)}
    assert {now: lost for now, lost in found.items() if lost} == {n: ["worker 1"] for n in range(15, 31, 3)}
    seen.handled("worker 1", reports(30, 1))
    assert seen.observe(reports(33, 1), 33) == []


def test_who_reports_again_is_not_lost() -> None:
    seen = Reports(15)
    assert [seen.observe(reports(7 * (now // 12)), now) for now in range(0, 90, 3)] == [[]] * 30


def test_nobody_is_lost_after_a_gap_of_the_observer_until_all_had_their_time() -> None:
    seen = Reports(15)
    for now in range(0, 13, 3):
        assert seen.observe(reports(1, 1), now) == []
    assert [seen.observe(reports(1, 1), now) for now in range(3600, 3615, 3)] == [[]] * 5
    assert seen.observe(reports(1, 1), 3615) == ["worker 0", "worker 1"]


def test_who_drains_is_not_lost() -> None:
    """It no longer reports, and its tasks may take long."""
    seen = Reports(15)
    assert [seen.observe(reports(1, running=False), now) for now in range(0, 90, 3)] == [[]] * 30


def test_an_identity_with_a_worker_that_reports_is_not_lost() -> None:
    """A container that starts again has the process id and the host name of the one before."""
    seen = Reports(15)
    old = Report("old", "1@pod", 1, 3.0, process="a")
    new = [Report("new", "1@pod", now, 3.0, process="b") for now in range(0, 90, 3)]
    assert [seen.observe([old, one], one.reported) for one in new] == [[]] * 30
    later = [seen.observe([old, new[-1]], now) for now in range(90, 120, 3)]  # and then that is gone, too
    assert later[-1] == ["1@pod"]


def test_one_that_is_gone_again_is_lost_again() -> None:
    """Of the process before, which had the same identity, the service still lists what it has reported."""
    seen, first = Reports(15), Report("old", "1@pod", 1, 3.0, process="a")
    assert [seen.observe([first], now) for now in range(0, 18, 3)][-1] == ["1@pod"]
    seen.handled("1@pod", [first])
    second = [Report("new", "1@pod", min(now, 30), 3.0, process="b") for now in range(18, 60, 3)]
    found = [seen.observe([first, one], now) for now, one in zip(range(18, 60, 3), second, strict=True)]
    assert found[0] == []
    assert found[-1] == ["1@pod"]


@pytest.mark.parametrize("interval", [0.0, 8.0, 60.0])
def test_who_reports_too_rarely_to_be_missed_is_not_lost(interval: float) -> None:
    """As a worker without the setting, which reports once a minute; or one of which only one report is known."""
    seen = Reports(15)
    assert [seen.observe([Report("key", "worker", 1, interval)], now) for now in range(0, 90, 3)] == [[]] * 30


@pytest.mark.thorough
async def test_a_worker_is_gone_with_its_host_and_an_outage_takes_nobody_for_gone(tmp_path: Path) -> None:
    """Workers with homes of their own know as little of each other as those of two hosts."""
    mark, go = tmp_path / "mark", tmp_path / "go"
    command = f"echo began >> {mark}; while [ ! -e {go} ]; do sleep 0.1; done"

    async def began() -> int:
        return len(mark.read_text().split()) if mark.exists() else 0

    with temporal_server(tmp_path / "server") as address:
        async with stack(address, tmp_path / "here") as here:
            first, second = (
                {**worker_environment(address, tmp_path / home, "lost"), "TIDEMILL_LOST_AFTER_SECONDS": str(LOST_AFTER)}
                for home in ("first", "second")
            )
            await here.tidemill.dags.register(dag("dies", [bash("a", command, queue="lost")], heartbeat_timeout=300))
            with worker_process(first) as dies:
                run = await here.tidemill.runs.trigger("dies")
                await eventually(began, lambda times: times == 1)
                with worker_process(second):
                    await eventually(lambda: reporting(here.tidemill.client), lambda identities: identities >= 2)
                    with suspended(tmp_path / "server"):
                        await asyncio.sleep(2.5 * LOST_AFTER)
                    await asyncio.sleep(2.5 * LOST_AFTER)
                    assert await began() == 1
                    dies.kill()
                    await eventually(began, lambda times: times == 2)
                    go.touch()
                    details = await here.finished("dies", run.run_id)
    assert (details.state, details.tasks[0].try_number) == (RunState.SUCCESS, 1)


async def reporting(client: Client) -> int:
    """How many processes have reported that poll the queue of the two workers."""
    request = ListWorkersRequest(namespace=client.namespace)
    listed = (await client.workflow_service.list_workers(request)).workers_info
    return len({one.worker_heartbeat.worker_identity for one in listed if one.worker_heartbeat.task_queue == "lost"})


def test_one_late_report_does_not_make_it_one_that_reports_rarely() -> None:
    seen = Reports(15)
    before = [seen.observe([Report("key", "worker", now, 3.0)], now) for now in range(0, 30, 3)]
    after = [seen.observe([Report("key", "worker", 30, 9.0)], now) for now in range(30, 60, 3)]
    assert before == [[]] * 10
    assert after[-1] == ["worker"]


def test_who_says_elsewhere_how_often_it_reports_is_lost_by_its_silence_alone() -> None:
    seen = Reports(15, are_known_to_report=True)
    assert [seen.observe([Report("key", "worker", 1)], now) for now in range(0, 18, 3)][-1] == ["worker"]


def test_a_few_look_all_the_time_and_all_agree_who() -> None:
    seen = Reports(15)
    names = [f"worker {n}" for n in range(20)]
    for now in range(0, 30, 3):
        seen.observe(reports(*[now] * 20), now)
    chosen = [name for name in names if seen.is_observer(name)]
    assert len(chosen) == 5
    assert seen.is_observer("one that has not reported yet")
    gone = names.index(chosen[0])
    for now in range(30, 60, 3):  # it reports no longer: another takes its place
        seen.observe(reports(*[27 if n == gone else now for n in range(20)]), now)
    assert len([name for name in names if name != chosen[0] and seen.is_observer(name)]) == 5


async def test_without_a_store_nobody_is_looked_for_unless_it_is_asked_for() -> None:
    assert lost_after_of(Settings()) is None
    assert lost_after_of(Settings(xcom_url="s3://a/b")) == timedelta(seconds=5)
    assert lost_after_of(Settings(xcom_url="s3://a/b", lost_after_seconds=0)) is None
    assert lost_after_of(Settings(lost_after_seconds=15)) == timedelta(seconds=15)
