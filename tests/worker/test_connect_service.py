"""`tidemill connect`: a server that ends is started again, one that cannot start says why, and nothing is left."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import httpx
import psutil
import pytest
from forked_commands import REAL, forked
from support import eventually
from tidemill.model.errors import InvalidInputError
from tidemill.worker.app.dev import free_port
from tidemill.worker.spark import connect_service
from tidemill.worker.spark.connect_service import ConnectService

SESSION = "00000000-0000-4000-8000-000000000001"


@contextmanager
def served(home: Path, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [REAL, "connect", "--home", str(home), "--memory", "600m", "--master", "local[1]", *options],
            stdout=log,
            stderr=log,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


async def ready(url: str) -> int:
    try:
        async with httpx.AsyncClient() as client:
            return (await client.get(f"{url}/readyz", timeout=20)).status_code
    except httpx.HTTPError:
        return 0


def java_below(process: "subprocess.Popen[bytes]") -> psutil.Process:
    [java] = [one for one in psutil.Process(process.pid).children(recursive=True) if one.name() == "java"]
    return java


@pytest.mark.spark
@pytest.mark.thorough
async def test_a_server_that_is_killed_is_started_again_and_nothing_is_left_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(connect_service.TOKEN, "of-the-team")
    port, health = free_port(), free_port()
    url = f"http://127.0.0.1:{health}"
    with served(tmp_path, "--port", str(port), "--health-address", f"127.0.0.1:{health}") as process:
        assert await eventually(lambda: ready(url), lambda code: code == 200) == 200
        assert connect_service.server_version("127.0.0.1", port, SESSION).startswith("4.")
        monkeypatch.delenv(connect_service.TOKEN)
        with pytest.raises(grpc.RpcError, match="UNAUTHENTICATED"):
            connect_service.server_version("127.0.0.1", port, SESSION)
        first = java_below(process)
        assert "-XX:+ExitOnOutOfMemoryError" in " ".join(first.cmdline())
        first.kill()
        await eventually(lambda: ready(url), lambda code: code == 503)
        await eventually(lambda: ready(url), lambda code: code == 200)
        second = java_below(process)
        assert second.pid != first.pid
    assert process.returncode == 0
    assert not second.is_running()
    assert "has ended; it is started again" in " ".join((tmp_path / "server.log").read_text().split())


def test_what_is_wrong_is_told_before_a_server_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for options, expected in (
            (("--port", port), f"127.0.0.1:{port}: Address already in use. Choose another --port"),
            (("--conf", "spark.x"), "--conf 'spark.x' is no KEY=VALUE"),
            (("--health-address", "8089"), "--health-address = '8089' is no address"),
        ):
            argv = [forked(), "connect", "--home", str(tmp_path), *options]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 1
            assert expected in done.stderr


@contextmanager
def silent_server() -> Iterator[int]:
    """Takes connections, and answers none: as a JVM does that collects garbage for ever."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield int(listening.getsockname()[1])


class Endless:
    """A process that does not end."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def poll(self) -> int | None:
        return 0 if self.ended.is_set() else None


async def test_a_server_that_has_answered_and_is_silent_is_one_to_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["4.3.0"])
    real = connect_service.server_version
    monkeypatch.setattr(connect_service, "LOOKS_EVERY", 0.01)
    monkeypatch.setattr(connect_service, "ANSWER_TIMEOUT", 0.2)
    monkeypatch.setattr(connect_service, "HUNG_AFTER", 0.5)
    monkeypatch.setattr(connect_service, "server_version", lambda *of: next(answers, None) or real(*of))
    with silent_server() as port:
        service = ConnectService(tmp_path, "127.0.0.1", port, "local[1]", "600m")
        with pytest.raises(RuntimeError, match="it has not answered yet"):
            await service.is_ready()
        found = await service._followed(Endless())  # type: ignore[arg-type]
        assert found == (True, "has not answered for 0.5 s")
        with pytest.raises(RuntimeError, match="does not answer"):
            await service.is_ready()


async def test_one_that_never_answers_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_service, "ANSWER_TIMEOUT", 0.2)
    monkeypatch.setattr(connect_service, "STARTUP_TIMEOUT", 0.3)
    with silent_server() as port:
        service = ConnectService(tmp_path, "127.0.0.1", port, "local[1]", "600m")
        assert await service._followed(Endless()) == (False, "has not answered for 0.3 s")  # type: ignore[arg-type]


async def test_one_that_cannot_start_is_not_tried_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_service, "LONGEST_DELAY", 0.01)
    monkeypatch.setattr(connect_service, "server_arguments", lambda *_: ["--master", "nowhere"])
    service = ConnectService(tmp_path, "127.0.0.1", free_port(), "nowhere", "600m")
    with pytest.raises(RuntimeError, match="has ended, 3 times in a row"):
        await service.run()


def test_an_address_that_is_not_this_hosts_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"192\.0\.2\.77:15002: .*Choose another --port"):
        ConnectService(tmp_path, "192.0.2.77", 15002, "local[1]", "600m").check()
