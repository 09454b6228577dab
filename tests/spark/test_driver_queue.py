"""Who waits for room for a driver: tasks whose drivers are below a worker, and nobody else."""

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from spark_clusters import told
from spark_starts import start
from support import Stack, dag, eventually, stack
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from tidemill.activities.spark.activity import SparkActivities
from tidemill.activities.spark.driver_room import DriverRoom
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.run.revisions import MarkRequest
from tidemill.model.run.task_instances import Outcome
from tidemill.model.spec.tasks import SparkOptions
from tidemill.model.states import RunState, TaskState

HOLDS = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession

session = SparkSession.builder.getOrCreate()
while not Path(sys.argv[1]).exists():
    time.sleep(0.1)
session.stop()
"""
LOCAL = {"master": "local[1]", "driver_memory": "600m"}


def holding(task_id: str, folder: Path, **fields: Any) -> dict[str, Any]:
    """A driver below the worker that is there until the file `free` is."""
    (folder / "holds.py").write_text(HOLDS)
    args = [str(folder / "free")]
    application = {"application": str(folder / "holds.py"), "application_args": args, "spark": LOCAL}
    return {"kind": "spark_submit", "task_id": task_id, **application, **fields}


def query(task_id: str, spark: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "spark_sql", "task_id": task_id, "sql": "SELECT 40 + 2 AS n", "spark": spark}


def states(details: Any) -> Counter[TaskState]:
    return Counter(task.state for task in details.tasks if task.kind == "spark_submit")


async def ended(here: Stack, run_id: str, **of: TaskState) -> Any:
    """The run as it is when tasks have the states *of*."""
    return await eventually(
        lambda: here.tidemill.runs.describe("queueing", run_id),
        lambda found: all(task.state == of.get(task.task_id, task.state) for task in found.tasks),
    )


@pytest.mark.spark
async def test_who_needs_no_driver_below_a_worker_waits_behind_none(
    server: str, spark_home: Path, connect: tuple[str, str], tmp_path: Path
) -> None:
    """More drivers than the worker has room for; a query on a Connect server, named by the task or its connection."""
    place = WorkerContext(
        home=spark_home, spark_drivers=1, spark_connections={"server": SparkOptions(master=connect[0])}
    )
    drivers = [holding(f"driver_{n}", tmp_path) for n in range(3)]
    queries = [query("named", {"master": connect[0]}), query("connected", {"conn_id": "server"})]
    async with stack(server, spark_home, place=place) as here:
        await here.tidemill.dags.register(dag("queueing", [*drivers, *queries], max_active_tasks=9))
        run_id = (await here.tidemill.runs.trigger("queueing")).run_id
        details = await ended(here, run_id, named=TaskState.SUCCESS, connected=TaskState.SUCCESS)
        details = await eventually(
            lambda: here.tidemill.runs.describe("queueing", run_id),
            lambda found: states(found)[TaskState.RUNNING] == 1 and states(found)[TaskState.QUEUED] == 2,
        )
        [waiting, *_] = [task for task in details.tasks if task.state is TaskState.QUEUED]
        assert waiting.why == "waits for a worker with room for a driver of Spark"
        # What waits is ended as anything is.
        mark = MarkRequest(tasks=(waiting.task_id,), state=TaskState.FAILED)
        await here.tidemill.tasks.mark("queueing", run_id, mark)
        (tmp_path / "free").touch()
        details = await here.finished("queueing", run_id)
    assert details.state is RunState.FAILED, told(details)
    assert states(details) == {TaskState.SUCCESS: 2, TaskState.FAILED: 1}
    assert {task.try_number for task in details.tasks} == {1}


@pytest.mark.spark
async def test_a_queue_of_the_tasks_own_is_where_its_driver_runs(server: str, spark_home: Path, tmp_path: Path) -> None:
    (tmp_path / "free").touch()
    async with stack(server, spark_home) as here:
        spec = dag("queued_apart", [holding("driver", tmp_path, queue=here.tidemill.task_queue)])
        details = await here.run_once(spec)
    assert details.state is RunState.SUCCESS, told(details)


def test_room_is_for_drivers_and_for_clients(tmp_path: Path) -> None:
    place = WorkerContext(home=tmp_path, spark_memory=4096)
    place.__dict__["driver_room"] = DriverRoom(4096, 6)
    assert (place.max_spark_tasks, place.max_drivers) == (8, 2)  # as many as there is memory
    submissions = place.submission_room("yarn")
    assert (submissions.drivers, submissions.megabytes) == (6, 3072)
    place = WorkerContext(home=tmp_path, spark_memory=1000, spark_drivers=6)
    assert (place.max_spark_tasks, place.max_drivers, place.submission_room("yarn").drivers) == (3, 3, 1)
    place = WorkerContext(home=tmp_path, spark_memory=20_000)
    assert place.max_spark_tasks == 19
    place = WorkerContext(home=tmp_path, spark_memory=400_000, spark_drivers=6)
    assert (place.max_spark_tasks, place.max_drivers) == (64, 6)
    place = WorkerContext(home=tmp_path, spark_memory=400_000, spark_drivers=6, spark_slots=3)
    assert (place.max_spark_tasks, place.max_drivers) == (3, 3)


@pytest.mark.parametrize(("hands_over", "number", "queue"), [
    (False, 1, "q-spark"),  # a run of a release that knows of no queue for drivers
    (True, 2, "q-spark"),  # an earlier start may have begun it
    (True, 1, "q-drivers"),
])  # fmt: skip
def test_a_driver_is_begun_where_it_is(tmp_path: Path, hands_over: bool, number: int, queue: str) -> None:
    attempt = start(tmp_path, {}).attempt.model_copy(update={"hands_over": hands_over})
    place = WorkerContext(home=tmp_path, spark_memory=1)
    here = ActivityEnvironment()
    here.info = replace(here.info, attempt=number, task_queue=queue)
    with closing(place), pytest.raises(ApplicationError, match="the driver would take"):
        here.run(SparkActivities(place).run, attempt)


def test_a_driver_is_left_to_a_worker_that_has_room(tmp_path: Path) -> None:
    attempt = start(tmp_path, {}).attempt.model_copy(update={"hands_over": True})
    assert ActivityEnvironment().run(SparkActivities(WorkerContext(home=tmp_path)).run, attempt) == Outcome(
        needs_driver=True
    )
    assert Outcome(needs_driver=True).model_dump(mode="json") == {"needs_driver": True}
