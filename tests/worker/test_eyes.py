"""What operators see of a worker: health, readiness, metrics."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import httpx
from support import bash, dag, eventually, stack, worker_environment, worker_process
from tidemill.worker.app.dev import free_port


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    root = Path(__file__).parents[2]
    names = set(re.findall(r"tidemill_\w+", (root / "docs" / "grafana.json").read_text()))
    code = (root / "workflows" / "metrics.py").read_text() + (root / "activities" / "metrics.py").read_text()
    made = set(re.findall(r'"(tidemill_\w+)"', code))
    assert {name.removesuffix("_bucket") for name in names} <= made


async def get(url: str) -> httpx.Response | None:
    try:
        async with httpx.AsyncClient() as client:
            return await client.get(url, timeout=20)
    except httpx.HTTPError:
        return None


async def test_a_worker_tells_its_health_and_what_it_does(server: str, tmp_path: Path) -> None:
    health, metrics = free_port(), free_port()
    async with stack(server, tmp_path / "home", no_remote_activities=True) as here:
        env = {
            **worker_environment(server, here.home, here.task_queue),
            "TIDEMILL_HEALTH_ADDRESS": f"127.0.0.1:{health}",
            "TIDEMILL_METRICS_ADDRESS": f"127.0.0.1:{metrics}",
        }
        with worker_process(env) as worker:
            url = f"http://127.0.0.1:{health}"
            for path in ("/healthz", "/readyz"):
                answer = await eventually(
                    lambda: get(f"{url}{path}"),  # noqa: B023
                    lambda found: found is not None and found.status_code == 200,
                )
                assert answer is not None
                assert json.loads(answer.text) == {"status": "ok"}
            unknown = await get(f"{url}/etc")
            assert unknown is not None
            assert unknown.status_code == 404
            await here.tidemill.dags.register(
                dag("measured", [bash("a", "true"), bash("b", "exit 1")], max_active_runs=9)
            )

            async def with_delay() -> httpx.Response | None:
                """After another run: the test's own worker has no metrics, and takes some of their workflows."""
                run = await here.tidemill.runs.trigger("measured")
                await here.finished("measured", run.run_id)
                return await get(f"http://127.0.0.1:{metrics}/metrics")

            told = await eventually(
                with_delay, lambda found: found and "tidemill_schedule_delay_count{" in found.text, 180
            )
            assert told is not None
            assert "tidemill_running_attempts{" in told.text
            delays = re.findall(r"^tidemill_schedule_delay_(count|sum)\{[^}]*\} ([\d.e+]+)$", told.text, re.MULTILINE)
            assert {name for name, _ in delays} == {"count", "sum"}
            assert all(0 <= float(value) < 600_000 for _, value in delays), "milliseconds, and no more than minutes"
            # A worker that stands still is noticed.
            worker.send_signal(signal.SIGSTOP)
            try:
                assert await asyncio.wait_for(get(f"{url}/healthz"), 30) is None
            finally:
                worker.send_signal(signal.SIGCONT)


def test_a_worker_runs_as_long_as_it_is_told(server: str, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("tidemill")), "worker", "--run-duration", "2"]
    env = worker_environment(server, tmp_path / "home", f"test-{uuid.uuid4().hex[:8]}")
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, "worker polls task queue" in done.stdout) == (0, True), done.stderr
