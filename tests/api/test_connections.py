"""Half requests, which cost their senders nothing, keep nobody out; whole ones are answered meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tidemill.api import connections
from tidemill.worker.cli.web import web_server
from tidemill.worker.settings.reading import Settings
from web_stack import nowhere


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[tuple[str, int]]:
    async with web_server(nowhere(), Settings(home=tmp_path), "127.0.0.1", 0) as url:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        yield parts.hostname, parts.port
    assert not connections.BoundedProtocol.of_address


@asynccontextmanager
async def half_requests(
    address: tuple[str, int], number: int, text: bytes
) -> AsyncIterator[list[asyncio.StreamReader]]:
    made = [await asyncio.open_connection(*address) for _ in range(number)]
    for _, writer in made:
        writer.write(text)
    try:
        yield [reader for reader, _ in made]
    finally:
        for _, writer in made:
            writer.close()


async def answers(address: tuple[str, int]) -> int:
    async with httpx.AsyncClient() as web:
        return (await web.get(f"http://{address[0]}:{address[1]}/api/v2/version", timeout=60)).status_code


async def test_headers_that_do_not_end_end_their_connection(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADERS_TIMEOUT", 0.3)
    async with half_requests(address, 20, b"GET / HTTP/1.1\r\nHost: x\r\nX:") as readers:
        assert await answers(address) == 200
        assert await asyncio.gather(*(reader.read() for reader in readers)) == [b""] * 20


async def test_a_body_that_does_not_end_ends_its_connection(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BODY_TIMEOUT", 0.3)
    head = b"POST /api/v2/pools HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    begun = head + b"Content-Length: 99\r\n\r\n{"
    async with half_requests(address, 5, begun) as readers:
        assert await answers(address) == 200
        told = await asyncio.gather(*(reader.read() for reader in readers))
        assert not any(b"500" in text for text in told)


async def test_one_address_has_half_of_the_connections_at_most(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "max_connections", lambda: 8)
    async with half_requests(address, 12, b"GET /") as readers:
        await asyncio.gather(*(reader.read() for reader in readers[4:]), return_exceptions=True)
        assert connections.BoundedProtocol.of_address.total() == 4
    monkeypatch.undo()
    assert await answers(address) == 200


async def test_a_connection_is_used_again(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADERS_TIMEOUT", 30.0)
    request = b"GET /api/v2/version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    reader, writer = await asyncio.open_connection(*address)
    for _ in range(3):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        assert b"200 OK" in head
    writer.close()
