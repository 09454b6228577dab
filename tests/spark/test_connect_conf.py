"""On Connect a task's conf holds, or the task fails: by Spark's own client it would go on with the default."""

from pathlib import Path

import pytest
from spark_clusters import told
from support import dag, stack

pytestmark = pytest.mark.spark


async def test_a_value_that_spark_refuses_fails_the_task(
    server: str, spark_home: Path, connect: tuple[str, str]
) -> None:
    confs = {
        "refused": {"spark.sql.sources.partitionOverwriteMode": "dynamc"},
        "of_the_server": {"spark.executor.memory": "1g", "spark.sql.shuffle.partitions": 3},
    }
    tasks = [
        {"kind": "spark_sql", "task_id": task_id, "sql": "select 1", "spark": {"master": connect[0], "conf": conf}}
        for task_id, conf in confs.items()
    ]
    async with stack(server, spark_home) as here:
        details = await here.run_once(dag("connect_conf", tasks))
    assert {task.key: str(task.state) for task in details.tasks} == {"refused": "failed", "of_the_server": "success"}
    [refused] = [text for text in told(details) if text is not None]
    assert "INVALID_CONF_VALUE" in refused
    assert "'dynamc'" in refused
