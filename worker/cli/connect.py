"""`tidemill connect`: a Spark Connect server that is looked after."""

import asyncio
from typing import Annotated

import typer

from ..app.health import health_server
from ..app.process import until_stopped
from ..spark.connect_service import ConnectService
from .home import Home, set_up_logging, with_home
from .output import console, fail, run


def connect(
    host: Annotated[str, typer.Option(help="The address that takes clients. Whoever reaches it can run code.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Its port.")] = 15002,
    master: Annotated[
        str, typer.Option(help="Where the server's work runs: local[N], spark://..., yarn.")
    ] = "local[*]",
    memory: Annotated[str, typer.Option(help="The heap of the server, as Spark writes it.")] = "2g",
    ui_port: Annotated[
        int | None, typer.Option(help="The port of Spark's user interface; a free one by default.")
    ] = None,
    conf: Annotated[list[str] | None, typer.Option("--conf", "-c", help="KEY=VALUE, as spark-submit takes it.")] = None,
    health_address: Annotated[
        str | None, typer.Option(help="Where /healthz and /readyz are answered, such as 127.0.0.1:8089.")
    ] = None,
    home: Home = None,
) -> None:
    """Run a Spark Connect server, and start it again when it ends or does not answer any more."""
    settings = with_home(home)
    set_up_logging(settings.log_format)
    service = ConnectService(
        folder=settings.home.resolve() / "spark_connect" / f"{host}-{port}".replace(":", "_"),
        host=host,
        port=port,
        master=master,
        memory=memory,
        ui_port=ui_port,
        conf=read_pairs(conf or []),
        passed_on=settings.task_environment,
    )

    async def work() -> None:
        async with health_server(health_address, service.is_ready, "--health-address"):
            console.print(f"Spark Connect  sc://{host}:{port}")
            serving, stopped = asyncio.create_task(service.run()), asyncio.create_task(until_stopped())
            try:
                await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
                if serving.done():
                    serving.result()
            finally:
                for task in (serving, stopped):
                    task.cancel()
                await asyncio.gather(serving, stopped, return_exceptions=True)

    run(work())


def read_pairs(given: list[str]) -> dict[str, str]:
    """What `--conf KEY=VALUE` says; ends the command for one that is none."""
    for one in given:
        if "=" not in one.lstrip("="):
            fail(f"--conf {one!r} is no KEY=VALUE. Write --conf spark.sql.shuffle.partitions=8")
    return {key.strip(): value for key, _, value in (one.partition("=") for one in given)}
