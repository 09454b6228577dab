"""Two hosts in network namespaces of their own, and a router between them that stops to pass packets on."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from forked_commands import REAL
from support import eventually, free_port, worker_environment
from tidemill.worker.app.dev import server_command

pytestmark = [pytest.mark.faults, pytest.mark.long]

HEARTBEAT_TIMEOUT = 10
WORKS_FOR = 35
"""Seconds: longer than it takes until the task begins elsewhere and the severed worker gives up its copy."""


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


class Hosts:
    """A worker's host, the service's host, and a router between."""

    SERVICE = "10.77.2.2"

    def __init__(self, prefix: str) -> None:
        self.worker, self.router, self.service = (f"{prefix}{name}" for name in "wrs")

    def make(self) -> None:
        for name in (self.worker, self.router, self.service):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for number, host in ((1, self.worker), (2, self.service)):
            pair = f"name end netns {host} type veth peer name to{number} netns {self.router}"
            run("ip", "link", "add", *pair.split())
            for name, device, end in ((host, "end", 2), (self.router, f"to{number}", 1)):
                run("ip", "-n", name, "addr", "add", f"10.77.{number}.{end}/24", "dev", device)
                run("ip", "-n", name, "link", "set", device, "up")
            run("ip", "-n", host, "route", "add", "default", "via", f"10.77.{number}.1")
        self.passes(True)

    def passes(self, value: bool) -> None:
        """Whether the router passes packets on, or drops them without a word."""
        text = f"echo {int(value)} > /proc/sys/net/ipv4/ip_forward"
        run("ip", "netns", "exec", self.router, "sh", "-c", text)

    def remove(self) -> None:
        for name in (self.worker, self.router, self.service):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def within(self, host: str, *command: str) -> list[str]:
        """*command* as a host of its own name runs it."""
        return [
            "ip",
            "netns",
            "exec",
            host,
            "unshare",
            "--uts",
            "sh",
            "-c",
            'hostname "$0" && exec "$@"',
            host,
            *command,
        ]


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    made = Hosts(f"tm{os.getpid()}")
    try:
        if not shutil.which("ip") or not shutil.which("unshare"):
            raise FileNotFoundError("ip")
        made.make()
    except (OSError, subprocess.CalledProcessError):
        made.remove()
        pytest.skip("needs root, iproute2 and the right to make network namespaces")
    yield made
    made.remove()


@contextmanager
def process(command: list[str], **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen(command, **more)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


@pytest.mark.parametrize("shares_store", [False, True])
async def test_a_severed_worker_gives_up_its_copy_and_works_again_afterwards(
    shares_store: bool, hosts: Hosts, tmp_path: Path
) -> None:
    """With a store that both reach, its tasks have ended before they begin elsewhere, long before their heartbeats
    are missed."""
    mark, port = tmp_path / "mark", free_port()
    env = worker_environment(f"{Hosts.SERVICE}:{port}", tmp_path / "home", "severed")
    heartbeat_timeout, gives_up = HEARTBEAT_TIMEOUT, ""
    if shares_store:
        env["TIDEMILL_XCOM_URL"] = (tmp_path / "store").as_uri()
        heartbeat_timeout, gives_up = 3600, f"trap 'echo ends >> {mark}; exit 1' TERM; "
    command = f"{gives_up}echo began >> {mark}; sleep {WORKS_FOR} & wait $!; echo ended >> {mark}"
    file = tmp_path / "dags.py"
    file.write_text(
        "from datetime import timedelta\nfrom tidemill import DAG, BashOperator\n"
        f"with DAG('severed', heartbeat_timeout=timedelta(seconds={heartbeat_timeout})):\n"
        f"    BashOperator(task_id='works', bash_command={command!r})\n"
    )

    async def tidemill(*arguments: str) -> str:
        line = hosts.within(hosts.service, REAL, *arguments)
        done = await asyncio.to_thread(subprocess.run, line, env=env, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr}"

    async def state(run_id: str) -> str:
        shown = await tidemill("runs", "show", "severed", run_id, "--json")
        return str(json.loads(shown)["state"]) if shown.startswith("{") else shown

    async def starts(n: int) -> None:
        await eventually(
            lambda: asyncio.to_thread(lambda: mark.exists() and mark.read_text().count("began") == n), bool
        )

    server = server_command(port=port, database=tmp_path / "temporal.db", ui_port=None)
    server[server.index("127.0.0.1")] = "0.0.0.0"
    worker = [REAL, "worker"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ExitStack() as stack:
        stack.enter_context(process(hosts.within(hosts.service, *server), **quiet))
        await eventually(lambda: tidemill("dags", "list"), lambda said: "exit code" not in said)
        stack.enter_context(process(hosts.within(hosts.worker, *worker), env=env))
        await eventually(lambda: tidemill("dags", "register", str(file)), lambda said: "exit code" not in said)
        await tidemill("dags", "trigger", "severed", "--run-id", "first")
        await starts(1)
        with process(hosts.within(hosts.service, *worker), env=env):
            hosts.passes(False)
            await starts(2)
            await eventually(lambda: state("first"), lambda found: found == "success")
            told = ["ends"] if shares_store else []
            assert mark.read_text().split() == ["began", *told, "began", "ended"]
            hosts.passes(True)
        await tidemill("dags", "trigger", "severed", "--run-id", "second")
        await eventually(lambda: state("second"), lambda found: found == "success")
    assert mark.read_text().split() == ["began", *told, "began", "ended", "began", "ended"]
