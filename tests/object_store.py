"""A server that speaks S3, for tests."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from support import eventually
from tidemill.activities.processes.supervised import start_supervised, stop
from tidemill.worker.app.dev import free_port


@contextmanager
def s3(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A server that speaks S3; its URL of a bucket, and the variables by which clients find it."""
    port = free_port()
    with served(folder, [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port):
        httpx.put(f"http://127.0.0.1:{port}/lake").raise_for_status()
        keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
        yield "s3://lake", {**keys, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}


@contextmanager
def served(folder: Path, argv: list[str], port: int) -> Iterator[None]:
    folder.mkdir()
    process = start_supervised(folder, argv, folder / "server.log")
    try:
        asyncio.run(eventually(lambda: answers(port), bool))
        yield
    finally:
        stop(process)


async def answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
