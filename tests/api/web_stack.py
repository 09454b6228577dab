"""A real server with real runs, for the tests of the web."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from support import Stack, eventually, stack
from temporalio.client import Client
from tidemill.activities.dag_files import each_dag_file
from tidemill.model.pool.state import PoolSettings
from tidemill.model.run.identity import TriggerRequest
from tidemill.worker.app.dev import free_port
from tidemill.worker.cli.web import web_server
from tidemill.worker.client import Tidemill
from tidemill.worker.service.converter import ModelsPlugin
from tidemill.worker.settings.reading import Settings

FILE = """
from datetime import datetime, timedelta
from tidemill import *

with DAG("web_daily", schedule="@daily", start_date=datetime(2026, 1, 1), end_date=datetime(2026, 1, 3), catchup=True,
         tags=["fast", "small"], description="What is shown", params={"n": 3}, doc_md="# Read me"):

    @task
    def make():
        print("hello from the task")
        return {"x": 1}

    @task(owner="ann, bob")
    def each(i):
        return i

    with TaskGroup("group"):
        say = BashOperator(task_id="say", bash_command="echo hi")
    make() >> each.expand(i=[1, 2, 3]) >> say >> BashOperator(task_id="fails", bash_command="exit 3")

with DAG("web_hand", schedule=None):
    ApprovalOperator(task_id="ask", subject="Go on?") >> EmptyOperator(task_id="end", outlets=[Asset("web_asset")])

with DAG("web_slow", schedule=None, params={"name": Param("x", type="string")}):
    BashOperator(task_id="waits", bash_command="echo begun; while [ ! -e {go} ]; do sleep 0.2; done; echo over")

with DAG("web_after", schedule=[Asset("web_asset")]):
    EmptyOperator(task_id="x")

with DAG("web_both", schedule=Asset("web_one") & Asset("web_two")):
    EmptyOperator(task_id="x")

with DAG("web_long", schedule=None):
    text = "x" * 60
    BashOperator(task_id="prints", bash_command=f"yes {text} | head -60000; echo the last line")

with DAG("web_clicks", schedule="@daily", start_date=datetime(2026, 1, 1), end_date=datetime(2026, 1, 2), catchup=True):
    BashOperator(task_id="first", bash_command="true") >> BashOperator(task_id="last", bash_command="true")

with DAG("web_mend", schedule=None):
    mend = BashOperator(task_id="mend", bash_command="test -e {mended}", retries=1, retry_delay=0)
    mend >> BashOperator(task_id="after", bash_command="echo after")

with DAG("web_groups", schedule=None):
    with TaskGroup("group"):
        BashOperator(task_id="one", bash_command="echo 1")
        BashOperator(task_id="two", bash_command="echo 2")

with DAG("web_mapped", schedule=None):
    @task
    def of_one(n):
        return n
    of_one.expand(n=[1, 2])

with DAG("web_talks", schedule=None):
    BashOperator(task_id="talks", bash_command="for i in 1 2 3 4 5 6 7 8; do echo line $i of 8; sleep 1; done")

with DAG("web_paused", schedule="@daily", start_date=datetime(2099, 1, 1), is_paused_upon_creation=True):
    EmptyOperator(task_id="x")
"""


@dataclass
class Web:
    """A server with its API, and a client of it."""

    url: str
    here: Stack
    folder: Path
    loop: asyncio.AbstractEventLoop
    failed_run: str

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(self.url + path, timeout=60, **options)

    def ask(self, work: Any) -> Any:
        """What *work*, a coroutine on the server's loop, gives."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)


@contextmanager
def in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs as long as the block: tests that drive a browser have none of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


@asynccontextmanager
async def asking_web(here: Stack, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a web server of its own, whose home is *folder*, before the DAGs of *here*."""
    async with (
        web_server(here.tidemill, Settings(home=folder), "127.0.0.1", 0) as url,
        httpx.AsyncClient(base_url=f"{url}/api/v2", timeout=60) as client,
    ):
        yield client


def nowhere() -> Tidemill:
    """A client that has not connected, and will not."""

    async def made() -> Tidemill:
        return Tidemill(await Client.connect("127.0.0.1:1", lazy=True, plugins=[ModelsPlugin()]))

    with ThreadPoolExecutor(1) as apart:  # there may be a loop in this thread
        return apart.submit(asyncio.run, made()).result()


def with_timeout(waiting: Any) -> None:
    try:
        waiting.result(0.5)
    except TimeoutError:
        return


async def serve(
    server: str, folder: Path, loop: asyncio.AbstractEventLoop, ready: asyncio.Queue[Web], over: asyncio.Event
) -> None:
    async with stack(server, folder / "home") as here:
        file = folder / "dags.py"
        file.write_text(FILE.replace("{go}", str(folder / "go")).replace("{mended}", str(folder / "mended")))
        [parsed] = each_dag_file(file)
        assert parsed.error is None, parsed.error
        for spec in parsed.dags:
            await here.tidemill.dags.register(spec)
        await here.tidemill.pools.configure("web_pool", PoolSettings(slots=3, description="For the web"))
        runs = await here.all_finished("web_daily", 3)
        await here.all_finished("web_clicks", 2)
        await eventually(
            here.tidemill.dags.list, lambda found: {"web_daily", "web_paused"} <= {r.dag_id for r in found[0]}
        )
        await here.tidemill.runs.trigger("web_hand", TriggerRequest(run_id="asks"))
        settings = Settings(home=folder / "home", task_queue=here.task_queue)
        async with web_server(here.tidemill, settings, "127.0.0.1", free_port()) as url:
            await ready.put(Web(url, here, folder, loop, runs[0].run_id))
            await over.wait()
