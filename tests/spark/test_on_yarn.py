"""On a real YARN whose ResourceManager is killed and started again: applications go on, and each attempt has one.

What holds of every mode is in test_spark_modes.py and test_spark_kills.py.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from spark_clusters import ON_DAY, rows, told, writing
from support import Stack, eventually, stack
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.views import TaskView
from tidemill.model.states import RunState
from yarn_cluster import YarnCluster

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


@pytest.fixture
async def spark(server: str, spark_home: Path, yarn: YarnCluster) -> Any:
    assert yarn.url
    async with stack(server, spark_home) as made:
        yield made


@pytest.fixture
def whole(yarn: YarnCluster) -> Iterator[YarnCluster]:
    """The cluster, which has a ResourceManager again after the test, whatever has become of that."""
    yield yarn
    yarn.kill_resource_manager()
    yarn.start_resource_manager()
    yarn.until_it_answers(nodes=1)


async def seen(spark: Stack, dag_id: str, run_id: str) -> TaskView:
    return (await spark.tidemill.runs.describe(dag_id, run_id)).tasks[0]


async def test_a_resource_manager_that_is_killed_while_a_driver_runs_costs_nothing(
    spark: Stack, whole: YarnCluster, tmp_path: Path
) -> None:
    dag_id = "yarn_away"
    await spark.tidemill.dags.register(writing(dag_id, whole.options(), tmp_path, seconds=30))
    run = await spark.tidemill.runs.trigger(dag_id, TriggerRequest.model_validate(ON_DAY))
    await eventually(lambda: asyncio.to_thread((tmp_path / "notes").exists), bool)
    whole.kill_resource_manager()
    await eventually(
        lambda: seen(spark, dag_id, run.run_id), lambda task: "answer" in str((task.progress or {}).get("cluster"))
    )
    await asyncio.to_thread(whole.start_resource_manager)
    details = await spark.finished(dag_id, run.run_id, within=300)
    assert details.state is RunState.SUCCESS, told(details)
    assert details.tasks[0].try_number == 1
    assert rows(tmp_path) == 40
    assert len(await asyncio.to_thread(whole.applications, dag_id)) == 1


async def test_a_resource_manager_that_is_away_is_waited_for(spark: Stack, whole: YarnCluster, tmp_path: Path) -> None:
    dag_id = "yarn_comes"
    await spark.tidemill.dags.register(writing(dag_id, whole.options(), tmp_path))
    whole.kill_resource_manager()
    run = await spark.tidemill.runs.trigger(dag_id, TriggerRequest.model_validate(ON_DAY))
    await eventually(lambda: seen(spark, dag_id, run.run_id), lambda task: task.why)
    await asyncio.to_thread(whole.start_resource_manager)
    details = await spark.finished(dag_id, run.run_id, within=300)
    assert details.state is RunState.SUCCESS, told(details)
    assert details.tasks[0].try_number == 1
    assert rows(tmp_path) == 40
    assert len(await asyncio.to_thread(whole.applications, dag_id)) == 1
