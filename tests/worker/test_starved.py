"""A worker that is short of something, or given too much at once: its tasks take longer, and none is lost."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Stack, bash, dag, worker_environment, worker_process
from temporalio.client import Client
from tidemill.worker.client import Tidemill
from tidemill.worker.service.converter import ModelsPlugin

pytestmark = pytest.mark.faults

LINES = 50_000
MEMORY_BYTES = 600 * 2**20


async def stack_without_worker(server: str, tmp_path: Path) -> Stack:
    client = await Client.connect(server, plugins=[ModelsPlugin()])
    return Stack(Tidemill(client, "starved"), server, tmp_path / "home", "starved")


@pytest.mark.thorough
async def test_few_descriptors_cost_no_try(server: str, tmp_path: Path) -> None:
    """Each of twenty-four tasks needs several, and there are some thirty for all of them."""
    stack = await stack_without_worker(server, tmp_path)
    with worker_process(worker_environment(server, stack.home, stack.task_queue)) as worker:
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (50, 50))
        spec = dag("few_descriptors", [bash(f"t{i}", "sleep 1; echo done") for i in range(24)], max_active_tasks=24)
        await stack.tidemill.dags.register(spec)
        run = await stack.tidemill.runs.trigger("few_descriptors")
        details = await stack.finished("few_descriptors", run.run_id)
    assert {(str(task.state), task.try_number) for task in details.tasks} == {("success", 1)}


async def test_a_flood_of_lines_is_kept_whole_and_holds_up_nobody(here: Stack) -> None:
    flood = f"for i in $(seq 1 10); do seq -f 'line %g of a log that is very long' 1 {LINES // 10}; done"
    await here.tidemill.dags.register(dag("floods", [bash(f"t{i}", flood) for i in range(3)]))
    flooding = await here.tidemill.runs.trigger("floods")
    beside = await here.run_once(dag("beside_it", [bash("one", "true"), bash("two", "true")]))
    assert str(beside.state) == "success"
    details = await here.finished("floods", flooding.run_id)
    assert str(details.state) == "success"
    logs = [*(here.home / "logs").rglob("dag_id=floods/**/*.log")]
    assert len(logs) == 3
    for log in logs:
        assert log.read_text().count("of a log that is very long\n") == LINES


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A control group of few megabytes."""
    groups = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    first_version = "memory" in groups
    own = groups["memory" if first_version else ""].lstrip("/")
    made = Path("/sys/fs/cgroup", "memory" if first_version else "", own) / f"tidemill_test_{os.getpid()}"
    try:
        made.mkdir()
        limit = made / ("memory.limit_in_bytes" if first_version else "memory.max")
        limit.write_text(str(MEMORY_BYTES))
    except OSError:
        with contextlib.suppress(OSError):
            made.rmdir()
        pytest.skip("needs root and a memory control group below its own")
    yield made
    made.rmdir()


async def test_a_task_that_eats_memory_goes_before_its_worker(server: str, tmp_path: Path, memory_group: Path) -> None:
    stack = await stack_without_worker(server, tmp_path)
    eats = f"{sys.executable} -c 'x = bytearray({4 * MEMORY_BYTES})'"
    enter = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(memory_group)]
    command = [*enter, str(Path(sys.executable).with_name("tidemill")), "worker"]
    worker = subprocess.Popen(command, env=worker_environment(server, stack.home, stack.task_queue))
    try:
        await stack.tidemill.dags.register(dag("hungry", [bash("eats", eats), bash("beside", "sleep 8")]))
        run = await stack.tidemill.runs.trigger("hungry")
        details = await stack.finished("hungry", run.run_id)
        assert worker.poll() is None
    finally:
        worker.terminate()
        worker.wait()
    tasks = {task.task_id: task for task in details.tasks}
    assert (str(tasks["beside"].state), tasks["beside"].try_number) == ("success", 1)
    assert (str(tasks["eats"].state), tasks["eats"].try_number) == ("failed", 1)
    assert "memory ran out" in str(tasks["eats"].error)
