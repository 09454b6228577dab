"""Callbacks, notifiers, SLAs and deadlines: each of them told once."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from support import Stack, bash, dag, eventually, stack
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.run.identity import TriggerRequest

FILE = Path(__file__).parents[1] / "dags" / "task_shapes.py"


async def test_functions_of_the_dag_file_are_called_with_the_context(here: Stack, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    [spec] = [spec for spec in parse_dag_file(FILE).dags if spec.dag_id == "callbacks"]
    await here.tidemill.dags.register(spec)
    run = await here.tidemill.runs.trigger("callbacks", TriggerRequest(conf={"notes": str(notes)}))
    await here.finished("callbacks", run.run_id)
    assert sorted(notes.read_text().splitlines()) == [
        "begin bad 1 None",
        "begin bad 2 None",
        "failed again bad 2 no",
        "failed bad 2 no",
        "retry bad 1 no",
        "run failed bad 2 None",
        "well good 1 None",
    ]


@pytest.fixture
def posts() -> Iterator[tuple[str, list[tuple[str | None, Any]]]]:
    """A web server and what is posted to it; it fails the first time."""
    received: list[tuple[str | None, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.headers["Idempotency-Key"], json.loads(body)))
            self.send_response(500 if len(received) == 1 else 200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Quietly."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", received
    server.shutdown()
    server.server_close()


async def test_commands_and_webhooks_are_told_and_tried_again(
    here: Stack, tmp_path: Path, posts: tuple[str, list[tuple[str | None, Any]]]
) -> None:
    url, received = posts
    command = f"echo $TIDEMILL_EVENT $TIDEMILL_DAG_ID $TIDEMILL_TASK_ID >> {tmp_path}/told"
    told = {"on_failure_callback": [{"kind": "command", "command": command}, {"kind": "webhook", "url": url}]}
    await here.run_once(dag("told", [bash("a", "false", callbacks=told)], callbacks=told), run_id="mine")
    assert sorted((tmp_path / "told").read_text().splitlines()) == [
        "on_failure_callback told",
        "on_failure_callback told a",
    ]
    assert {key for key, _ in received} == {"told/mine/2/on_failure_callback", "told/mine/4/on_failure_callback"}
    assert len(received) == 3, "the one that failed was repeated under its key"
    body = received[-1][1]
    assert (body["dag_id"], body["run_id"], body["event"]) == ("told", "mine", "on_failure_callback")


LINKS = """
from tidemill import DAG, task
def told(context):
    with open({out!r}, "a") as file:
        file.write(context["ti"].log_url + "\\n")
with DAG("links", on_failure_callback=told):
    @task(on_failure_callback=told)
    def fails(n):
        assert n == 0
    fails.expand(n=[0, 1])
"""


async def test_alerts_lead_to_the_web(server: str, tmp_path: Path) -> None:
    file, out, base = tmp_path / "links.py", tmp_path / "out", "https://tidemill.example/at"
    file.write_text(LINKS.format(out=str(out)))
    place = WorkerContext(home=tmp_path / "home", base_url=f"{base}/")
    command = {"kind": "command", "command": f"echo $TIDEMILL_URL >> {out}"}
    async with stack(server, tmp_path / "home", place=place) as here:
        await here.run_once(parse_dag_file(file).dags[0], run_id="a+run")
        told = {"on_failure_callback": [command]}
        await here.run_once(dag("commands", [bash("a", "false", callbacks=told)], callbacks=told), run_id="b")
    page = f"{base}/dags/links/runs/a%2Brun/tasks/fails/mapped/1?try_number=1"
    run = f"{base}/dags/commands/runs/b"
    assert sorted(out.read_text().splitlines()) == sorted([page, page, run, f"{run}/tasks/a?try_number=1"])


async def test_what_is_late_is_told_once(here: Stack, tmp_path: Path) -> None:
    command = {"kind": "command", "command": f"echo $TIDEMILL_EVENT $TIDEMILL_TASK_ID >> {tmp_path}/late"}
    late = {"sla_miss_callback": [command], "deadline_miss_callback": [command]}
    tasks = [bash("slow", "sleep 3", sla=1), bash("quick", "true", sla=60)]
    await here.run_once(dag("late", tasks, deadline=2, callbacks=late))
    told = sorted((tmp_path / "late").read_text().splitlines())
    assert told == ["deadline_miss_callback", "sla_miss_callback slow"]


async def test_a_notifier_that_cannot_be_reached_holds_up_nobody_for_ever(here: Stack) -> None:
    told = {"on_success_callback": [{"kind": "command", "command": "exit 3"}]}
    await here.tidemill.dags.register(dag("unreachable", [bash("a", "true", callbacks=told), bash("b", "true", "a")]))
    run = await here.tidemill.runs.trigger("unreachable")
    details = await eventually(
        lambda: here.tidemill.runs.describe("unreachable", run.run_id), lambda found: found.progress.succeeded == 2
    )
    assert details.tasks[1].state == "success"
