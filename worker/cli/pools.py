"""`tidemill pools`: slots that tasks of all DAGs share."""

from typing import Annotated

import typer
from pydantic import ValidationError
from rich.table import Table

from ...model.errors import explain
from ...model.pool.state import PoolSettings, PoolView
from ...model.spec.tasks.base import DEFAULT_POOL
from ..client import Tidemill
from .output import Json, console, errors, fail, make_table, print_json, run, show

app = typer.Typer(no_args_is_help=True, add_completion=False)

Name = Annotated[str, typer.Argument(help="The pool's name.")]


@app.command("set")
def set_pool(
    name: Name,
    slots: Annotated[int, typer.Argument(help="How many slots it has; -1: no limit.")],
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    include_deferred: Annotated[
        bool, typer.Option("--include-deferred", help="Tasks that wait outside of a worker keep their slots.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a pool, or change it. Slots that are held stay held."""
    fields = {"slots": slots, "description": description, "include_deferred": include_deferred}
    try:
        settings = PoolSettings.model_validate(fields)
    except ValidationError as error:
        fail(str(explain(error, f"pool {name!r}", PoolSettings)))

    async def work() -> PoolView:
        return await (await Tidemill.connect()).pools.configure(name, settings)

    view = run(work())
    show([view], as_json, pools_table([view]))
    if name == DEFAULT_POOL:
        errors.print(
            f"note: tasks that name no pool are in none, also not in {name!r}. To limit all tasks, set "
            "TIDEMILL_PARALLELISM of the workers; to limit some, name a pool in default_args"
        )


@app.command("list")
def list_pools(as_json: Json = False) -> None:
    """List the pools."""

    async def work() -> list[PoolView]:
        return await (await Tidemill.connect()).pools.list()

    views = run(work())
    show(views, as_json, pools_table(views))


def pools_table(views: list[PoolView]) -> Table:
    rows = [
        (
            view.name,
            "unlimited" if view.settings.slots < 0 else view.settings.slots,
            view.occupied_slots,
            "" if view.open_slots is None else view.open_slots,
            len(view.queued),
            view.settings.description,
        )
        for view in views
    ]
    return make_table(["POOL", "SLOTS", "OCCUPIED", "OPEN", "QUEUED", ""], rows)


@app.command("show")
def show_pool(name: Name, as_json: Json = False) -> None:
    """Show who holds a pool's slots, and who waits for some, the next one first."""

    async def work() -> PoolView:
        return await (await Tidemill.connect()).pools.describe(name)

    view = run(work())
    if as_json:
        return print_json(view)
    console.print(pools_table([view]))
    rows = [("holds", line) for line in view.holders] + [("waits", line) for line in view.queued]
    return console.print(make_table(["", "RUN AND TASK"], rows)) if rows else None


@app.command("delete")
def delete_pool(name: Name) -> None:
    """Delete a pool that nobody uses. Tasks that name it wait until it is made again."""

    async def work() -> None:
        await (await Tidemill.connect()).pools.delete(name)

    run(work())
    console.print(f"pool {name} is deleted")
