"""A real server with real runs, shared by the tests of a file."""

import asyncio
from collections.abc import Iterator

import pytest
from airflow_wheel import airflow_wheel
from support import temporal_server
from tidemill.api.static_ui import install_ui
from web_stack import Web, in_thread, serve, with_timeout

SECRETS = {
    "TIDEMILL_VAR_WEB_REGION": "hush",
    "TIDEMILL_CONN_WEB_DB": "postgres://ann:hush@db.example.com:5432/sales?token=hush",
    "TIDEMILL_CONN_WEB_WRONG": "{hush",
}


# No longer than its file: its workflows run in this process, where tests of other files change constants of theirs.
@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server of its own: lists show all DAGs that there are. `web_daily` has run three times, and failed."""
    folder = tmp_path_factory.mktemp("web")
    known = pytest.MonkeyPatch()
    for name, value in SECRETS.items():
        known.setenv(name, value)
    install_ui(folder / "home", airflow_wheel())
    with temporal_server(folder / "temporal") as server, in_thread() as loop:
        ready: asyncio.Queue[Web] = asyncio.Queue()
        over = asyncio.Event()
        serving = asyncio.run_coroutine_threadsafe(serve(server, folder, loop, ready, over), loop)
        waiting = asyncio.run_coroutine_threadsafe(ready.get(), loop)
        while not waiting.done():
            if serving.done():
                serving.result()
            with_timeout(waiting)
        try:
            yield waiting.result()
        finally:
            loop.call_soon_threadsafe(over.set)
            serving.result(60)
            known.undo()
