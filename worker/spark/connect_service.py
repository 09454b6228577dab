"""A Spark Connect server that is looked after: started again when it ends or does not answer any more."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from uuid import uuid4

from ...activities.processes.supervised import start_supervised, stop
from ...activities.spark.command import environment
from ...activities.worker_context import find_java
from ...model.errors import InvalidInputError
from ..app.dev import free_port
from ..spark_daemon import command
from .connect_server import server_arguments

LOOKS_EVERY = 5.0
ANSWER_TIMEOUT = 10.0
STARTUP_TIMEOUT = 600.0
"""Seconds that a server has for its first answer; one that waits for room on YARN, say, takes long."""
HUNG_AFTER = 120.0
"""Seconds without an answer after which a server that had answered is ended: its sessions are lost with it."""
STEADY_AFTER = 60.0
"""Seconds after which a server counts as one that works: the next start is tried at once again."""
LONGEST_DELAY = 30.0
MAX_FAILED_STARTS = 3
"""Of servers that never answered, one after the other: whoever runs this is to hear of it."""
JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of a variable

log = logging.getLogger(__name__)


@dataclass
class ConnectService:
    """One server, started as often as it takes. All of it lives as long as `run`."""

    folder: Path
    host: str
    port: int
    master: str
    memory: str
    ui_port: int | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    passed_on: tuple[str, ...] = ()
    """Patterns of environment variables that the server gets beside the usual ones."""
    _trouble: str | None = "it has not answered yet"
    _session: str = field(default_factory=lambda: str(uuid4()))
    """In which the server is asked: always the same one, since it remembers those that have ended for their clients."""

    def check(self) -> Path:
        """Return where Java is. Raises InvalidInputError for what can be seen beforehand to keep it from starting."""
        java = find_java()
        if java is None:
            raise InvalidInputError("Spark needs Java 17 or later. Install it, or set JAVA_HOME")
        try:
            family, *_, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
        except OSError as error:
            raise InvalidInputError(f"{self.host}:{self.port}: {error.strerror}. Choose another --port") from None
        return java

    async def is_ready(self) -> None:
        """Raises RuntimeError unless the server has answered when it was asked last."""
        if self._trouble is not None:
            raise RuntimeError(self._trouble)

    async def run(self) -> None:
        """Keeps a server running until it is cancelled.

        Raises InvalidInputError as `check` does, and RuntimeError when several starts in a row have failed.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        delay, failed = 1.0, 0
        while True:
            java = self.check()  # each time: what answers at the port is to be this server
            process, began = self._start(java), time.monotonic()
            try:
                has_answered, why = await self._followed(process)
            finally:
                await asyncio.shield(asyncio.to_thread(stop, process))
            self._trouble = why
            failed = 0 if has_answered else failed + 1
            if failed >= MAX_FAILED_STARTS:
                raise RuntimeError(f"the Spark Connect server {why}, {failed} times in a row. Its output says why")
            if time.monotonic() - began > STEADY_AFTER:
                delay = 1.0
            log.error("the Spark Connect server %s; it is started again in %g s", why, delay)
            await asyncio.sleep(delay)
            delay = min(LONGEST_DELAY, delay * 2)

    def _start(self, java: Path) -> "Popen[bytes]":
        """A JVM that has run out of memory answers nobody, and does not end by itself: hence the option of Java's.

        It goes by the environment, since one in the conf would take the place of those in `spark-defaults.conf`.
        """
        ui_port = self.ui_port if self.ui_port is not None else free_port()
        argv = command("connect", server_arguments(self.host, self.port, ui_port, self.master, self.memory, self.conf))
        options = f"{os.environ.get(JAVA_OPTIONS, '')} -XX:+ExitOnOutOfMemoryError".strip()
        token = {TOKEN: os.environ[TOKEN]} if TOKEN in os.environ else {}
        local = {"SPARK_LOCAL_IP": "127.0.0.1"} if self.master.startswith("local") else {}
        given = {**local, **token, JAVA_OPTIONS: options}
        return start_supervised(self.folder, argv, None, environment(given, java, self.passed_on))

    async def _followed(self, process: "Popen[bytes]") -> tuple[bool, str]:
        """Return, when the server is to be started again, whether it has ever answered, and why."""
        has_answered, answered_at = False, time.monotonic()
        while process.poll() is None:
            try:
                await asyncio.to_thread(server_version, self.host, self.port, self._session)
            except Exception as error:  # whatever gRPC raises
                self._trouble = f"does not answer: {type(error).__name__}: {str(error)[:300]}"
                self._session = str(uuid4())  # perhaps it is only the session that is gone
            else:
                if not has_answered:
                    log.info("a Spark Connect server answers at %s:%d", self.host, self.port)
                has_answered, answered_at, self._trouble = True, time.monotonic(), None
            patience = HUNG_AFTER if has_answered else STARTUP_TIMEOUT
            if time.monotonic() - answered_at > patience:
                return has_answered, f"has not answered for {patience:g} s"
            await asyncio.sleep(LOOKS_EVERY if has_answered else 1.0)
        return has_answered, "has ended"


def server_version(host: str, port: int, session: str) -> str:
    """Return the version that the server says it has, asked in *session*. Raises what gRPC raises."""
    import grpc
    from pyspark.sql.connect.proto import AnalyzePlanRequest, SparkConnectServiceStub, UserContext

    token = os.environ.get(TOKEN)
    metadata = [("authorization", f"Bearer {token}")] if token is not None else None
    local = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - asked for by who starts it
    with grpc.insecure_channel(f"{local.get(host, host)}:{port}") as channel:
        user = UserContext(user_id="tidemill")
        request = AnalyzePlanRequest(session_id=session, user_context=user, client_type="tidemill")
        request.spark_version.SetInParent()
        answer = SparkConnectServiceStub(channel).AnalyzePlan(request, timeout=ANSWER_TIMEOUT, metadata=metadata)
    return str(answer.spark_version.version)
