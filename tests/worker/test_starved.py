"""A worker that is short of something, or given too much at once: its tasks take longer, and none is lost."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from support import Stack, bash, dag, worker_environment, worker_process
from temporalio.client import Client
from tidemill.worker.client import Tidemill
from tidemill.worker.converter import ModelsPlugin

pytestmark = pytest.mark.faults

LINES = 50_000


async def test_few_descriptors_cost_no_try(server: str, tmp_path: Path) -> None:
    """Each of twenty-four tasks needs several, and there are some thirty for all of them."""
    env = worker_environment(server, tmp_path / "home", "starved")
    stack = Stack(
        Tidemill(await Client.connect(server, plugins=[ModelsPlugin()]), "starved"),
        server,
        tmp_path / "home",
        "starved",
    )
    with worker_process(env) as worker:
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (50, 50))
        spec = dag("few_descriptors", [bash(f"t{i}", "sleep 1; echo done") for i in range(24)], max_active_tasks=24)
        await stack.tidemill.register(spec)
        run = await stack.tidemill.trigger("few_descriptors")
        details = await stack.finished("few_descriptors", run.run_id)
    assert {(str(task.state), task.try_number) for task in details.tasks} == {("success", 1)}


async def test_a_flood_of_lines_is_kept_whole_and_holds_up_nobody(here: Stack) -> None:
    flood = f"for i in $(seq 1 10); do seq -f 'line %g of a log that is very long' 1 {LINES // 10}; done"
    await here.tidemill.register(dag("floods", [bash(f"t{i}", flood) for i in range(3)]))
    flooding = await here.tidemill.trigger("floods")
    beside = await here.run_once(dag("beside_it", [bash("one", "true"), bash("two", "true")]))
    assert str(beside.state) == "success"
    details = await here.finished("floods", flooding.run_id)
    assert str(details.state) == "success"
    logs = [*(here.home / "logs").rglob("dag_id=floods/**/*.log")]
    assert len(logs) == 3
    for log in logs:
        assert log.read_text().count("of a log that is very long\n") == LINES
