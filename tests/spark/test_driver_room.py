"""How many drivers run below one worker: as many as memory and cores have room for, whoever starts them."""

import threading
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from spark_starts import start
from temporalio.exceptions import CancelledError
from temporalio.testing import ActivityEnvironment
from tidemill.activities import host
from tidemill.activities.attempts.supervision import AttemptSupervisor, Stopped
from tidemill.activities.spark.driver_room import SUBMISSION_MEGABYTES, DriverRoom, drivers_of_host
from tidemill.activities.tasks import task_activity
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.spec.tasks import AirflowTask


def told_while_waiting(reserve: Any) -> dict[str, Any]:
    """What is told of waiting by one that does not get room, until it is cancelled."""
    environment, told = ActivityEnvironment(), []

    def heard(*details: Any) -> None:
        told.append(details[0])
        environment.cancel()

    environment.on_heartbeat = heard
    with pytest.raises((CancelledError, Stopped)):
        environment.run(reserve)
    return dict(told[0])


@pytest.mark.parametrize(("wanted", "reason"), [
    (100, "a driver of this worker to end: it has 2"), (950, "memory: 950 MiB wanted, 900 of 1,000 free"),
])  # fmt: skip
def test_a_driver_waits_for_a_place_and_for_memory(wanted: int, reason: str) -> None:
    room = DriverRoom(1000, 2)

    def wait() -> None:
        with room.reserved(wanted, AttemptSupervisor(None)):
            raise AssertionError("there is no room")

    def held(megabytes: int) -> AbstractContextManager[None]:
        return room.reserved(megabytes, AttemptSupervisor(None))

    with held(100):
        if wanted == 950:
            assert reason in told_while_waiting(wait)["waits_for"]
        else:
            with held(100):
                assert reason in told_while_waiting(wait)["waits_for"]
    with held(950), held(50):
        pass  # all that was held is free again


def test_small_drivers_do_not_overtake_a_large_one() -> None:
    room, begun, over = DriverRoom(1000, 4), threading.Event(), threading.Event()

    def large() -> None:
        with room.reserved(900, AttemptSupervisor(None)):
            begun.set()
            over.wait(30)

    with room.reserved(300, AttemptSupervisor(None)):
        environment, waiting = ActivityEnvironment(), threading.Event()
        environment.on_heartbeat = lambda *_: waiting.set()
        thread = threading.Thread(target=environment.run, args=(large,))
        thread.start()
        assert waiting.wait(30)

        def small() -> None:
            with room.reserved(100, AttemptSupervisor(None)):
                raise AssertionError("it has overtaken the large one")

        assert told_while_waiting(small)["waits_for"] == "room on this worker, behind 1 others"
    assert begun.wait(30)
    over.set()
    thread.join(30)


def test_the_time_of_a_try_counts_from_when_it_has_room() -> None:
    room, over = DriverRoom(1000, 1), threading.Event()

    def work() -> None:
        watch = AttemptSupervisor(timedelta(seconds=0.3))
        with room.reserved(1, watch):
            watch.check()

    with room.reserved(1, AttemptSupervisor(None)):
        environment = ActivityEnvironment()
        environment.on_heartbeat = lambda *_: over.set()  # after a second: it would have timed out by then
        thread = threading.Thread(target=environment.run, args=(work,))
        thread.start()
        assert over.wait(30)
    thread.join(30)
    with room.reserved(1000, AttemptSupervisor(None)):
        pass


def test_a_driver_that_airflows_provider_starts_has_a_place_too(tmp_path: Path) -> None:
    place = WorkerContext(home=tmp_path, spark_drivers=1)
    operator = "airflow.providers.apache.spark.operators.spark_submit.SparkSubmitOperator"
    attempt = start(tmp_path, {}).attempt.model_copy(update={"task": AirflowTask(task_id="x", operator=operator)})
    with place.driver_room.reserved(1, AttemptSupervisor(None)):
        told = told_while_waiting(lambda: task_activity("tidemill.airflow", place)(attempt))
    assert "it has 1, its most" in told["waits_for"]


def test_submissions_to_one_cluster_hold_up_no_other_clusters(tmp_path: Path) -> None:
    place = WorkerContext(home=tmp_path, spark_memory=1000)

    def submitting(master: str) -> AbstractContextManager[None]:
        return place.submission_room(master).reserved(SUBMISSION_MEGABYTES, AttemptSupervisor(None))

    def wait() -> None:
        with submitting("yarn"):
            raise AssertionError("there is no room")

    with submitting("yarn"), submitting("k8s://https://h:6443"):
        told = told_while_waiting(wait)
    assert told["waits_for"].startswith("a submission of this worker to end: it has 1")


def test_a_container_with_half_a_core_has_one_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "CGROUP", tmp_path)
    alone = drivers_of_host()
    assert alone >= 2
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert drivers_of_host() == alone
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert drivers_of_host() == 1
