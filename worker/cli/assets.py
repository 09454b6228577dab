"""`tidemill assets`: which assets there are, their events, and events from outside."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ...model.asset.events import AssetEvent
from ...model.asset.state import AssetView
from ...model.asset.watching import WatcherView
from ...model.errors import InvalidInputError
from ...model.run.identity import RunIdentity
from ..client import Tidemill
from ..pictures.asset_graph import draw_assets, graph_of
from .output import Json, console, fail, instant_text, make_table, print_json, run, show

app = typer.Typer(no_args_is_help=True, add_completion=False)

Name = Annotated[str, typer.Argument(help="The asset's name.")]


@app.command("list")
def list_assets(as_json: Json = False) -> None:
    """List the assets that DAGs name: who writes them, who waits for them, and their last event."""

    async def work() -> list[AssetView]:
        tidemill = await Tidemill.connect()
        return [await tidemill.assets.describe(name) for name in await tidemill.assets.list()]

    views = run(work())
    rows = [
        (
            view.name,
            ", ".join(view.producers),
            ", ".join(view.consumers),
            view.events,
            instant_text(view.last_event.timestamp) if view.last_event is not None else "",
            f"late since {instant_text(view.late_since)}" if view.late_since is not None else "",
        )
        for view in views
    ]
    show(views, as_json, make_table(["ASSET", "WRITTEN BY", "WAITED FOR BY", "EVENTS", "LAST EVENT", ""], rows))


@app.command("show")
def show_asset(name: Name, as_json: Json = False) -> None:
    """Show an asset: its uri, the tasks that write it, the DAGs that wait for it."""

    async def work() -> tuple[AssetView, list[WatcherView]]:
        tidemill = await Tidemill.connect()
        return await tidemill.assets.describe(name), await tidemill.assets.watchers(name)

    view, watchers = run(work())
    if as_json:
        return print_json({**view.model_dump(mode="json"), "watchers": watchers})
    rows = [("uri", view.uri), ("group", view.group)]
    if view.is_paused:
        dropped = f"; {view.dropped:,} were too many" if view.dropped else ""
        rows.append(("paused", f"DAGs hear of its {view.held:,} new events when it is unpaused{dropped}"))
    rows += [("written by", f"{dag_id}: {', '.join(tasks)}") for dag_id, tasks in view.producers.items()]
    rows += [("waited for by", dag_id) for dag_id in view.consumers]
    rows += [("watched by", watcher_text(watcher)) for watcher in watchers]
    if view.late_since is not None:
        rows.append(("late since", instant_text(view.late_since)))
    return console.print(make_table(["FIELD", "VALUE"], rows))


def watcher_text(watcher: WatcherView) -> str:
    """What a watcher looks for, what it has found, and why it finds nothing more."""
    trigger = watcher.trigger
    looks = {"files": f"files below {getattr(trigger, 'url', '')}", "own": "a class of the DAG's file"}
    place = f"asset {getattr(trigger, 'name', '')} of namespace {getattr(trigger, 'namespace', '')}"
    what = looks.get(trigger.kind, place) if trigger is not None else "nothing"
    last = f", the last at {instant_text(watcher.last_found_at)}" if watcher.last_found_at is not None else ""
    trouble = f"; it cannot look: {watcher.error}" if watcher.error is not None else ""
    gap = f"; {watcher.gap}" if watcher.gap is not None else ""
    return f"{watcher.name}: {what}; {watcher.found} found{last}{gap}{trouble}"


@app.command("pause")
def pause(name: Name) -> None:
    """Hold an asset's events back from the DAGs that wait for it; its watchers rest."""
    _set_paused(name, paused=True)


@app.command("unpause")
def unpause(name: Name) -> None:
    """Deliver the events received while it was paused, and resume."""
    _set_paused(name, paused=False)


def _set_paused(name: str, *, paused: bool) -> None:
    async def work() -> None:
        await (await Tidemill.connect()).assets.pause(name, paused)

    run(work())
    console.print(f"{name}: {'paused' if paused else 'unpaused'}")


@app.command("events")
def list_events(name: Name, as_json: Json = False) -> None:
    """List the last events of an asset, newest first."""

    async def work() -> list[AssetEvent]:
        return (await (await Tidemill.connect()).assets.events(name))[::-1]

    events = run(work())
    rows = [
        (
            instant_text(event.timestamp),
            f"{event.source_dag_id} {event.source_run_id} {event.source_task_id}" if event.source_dag_id else "outside",
            event.partition_key,
            json.dumps(event.extra) if event.extra else "",
        )
        for event in events
    ]
    show(events, as_json, make_table(["TIME", "OF", "PARTITION", "EXTRA"], rows))


@app.command("emit")
def emit_event(
    name: Name,
    extra: Annotated[str | None, typer.Option(help="What there is to say of it, as a JSON object.")] = None,
    partition: Annotated[str | None, typer.Option(help="The partition that it is of.")] = None,
    cause: Annotated[
        str | None, typer.Option(help="What tells this event from others: told twice, it is one event.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell an asset that it was updated from outside."""
    values = read_extra(extra)

    async def work() -> AssetEvent | None:
        return await (await Tidemill.connect()).assets.emit(name, extra=values, partition_key=partition, cause=cause)

    event = run(work())
    if as_json:
        return print_json(event)
    outcome = "is known already" if event is None else f"at {instant_text(event.timestamp)}"
    return console.print(f"{name}: the event {outcome}")


@app.command("materialize")
def materialize(name: Name, as_json: Json = False) -> None:
    """Run the DAG that writes an asset. Refused where none does, or several do."""

    async def work() -> RunIdentity:
        return await (await Tidemill.connect()).assets.materialize(name)

    made = run(work())
    if as_json:
        return print_json(made)
    return console.print(f"{made.dag_id}: run {made.run_id} is created")


@app.command("graph")
def draw_graph(
    output: Annotated[Path | None, typer.Option(help="Write a picture: .svg, .png or .pdf.")] = None,
    as_json: Json = False,
) -> None:
    """Show which DAG writes what, and which runs then: a line for each asset, those that close a circle marked."""

    async def work() -> list[AssetView]:
        tidemill = await Tidemill.connect()
        return [await tidemill.assets.describe(name) for name in await tidemill.assets.list()]

    views = run(work())
    if output is not None:
        try:
            draw_assets(views, output)
        except InvalidInputError as error:
            fail(str(error))
        return console.print(f"{output}: {len(views)} assets")
    closing = {name for edge in graph_of(views).closing for kind, name in edge if kind == "asset"}
    rows = [
        (
            ", ".join(view.producers) or "outside",
            "->",
            view.name,
            "->",
            ", ".join(view.consumers) or "nobody",
            "a circle" if view.name in closing else "",
        )
        for view in views
    ]
    return show(views, as_json, make_table(["WRITTEN BY", "", "ASSET", "", "RUNS", ""], rows))


def read_extra(text: str | None) -> dict[str, Any]:
    """*text* as a JSON object; one clear line where it is none."""
    try:
        extra = json.loads(text or "{}")
    except ValueError as error:
        fail(f"extra = {text!r} is no JSON: {error}. Write it as '{{\"rows\": 1}}'")
    if not isinstance(extra, dict):
        fail(f"extra = {text!r} is no JSON object. Write it as '{{\"rows\": 1}}'")
    return extra
