"""`tidemill assets`: which assets there are, their events, and events from outside."""

import json
from typing import Annotated, Any

import typer

from ...model.asset.events import AssetEvent
from ...model.asset.state import AssetView
from ...model.run.identity import RunIdentity
from ..client import Tidemill
from .output import Json, console, fail, instant_text, make_table, print_json, run, show

app = typer.Typer(no_args_is_help=True, add_completion=False)

Name = Annotated[str, typer.Argument(help="The asset's name.")]


@app.command("list")
def list_assets(as_json: Json = False) -> None:
    """List the assets that DAGs name: who writes them, who waits for them, and their last event."""

    async def work() -> list[AssetView]:
        tidemill = await Tidemill.connect()
        return [await tidemill.asset(name) for name in await tidemill.assets()]

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

    async def work() -> AssetView:
        return await (await Tidemill.connect()).asset(name)

    view = run(work())
    if as_json:
        return print_json(view)
    rows = [("uri", view.uri), ("group", view.group)]
    rows += [("written by", f"{dag_id}: {', '.join(tasks)}") for dag_id, tasks in view.producers.items()]
    rows += [("waited for by", dag_id) for dag_id in view.consumers]
    if view.late_since is not None:
        rows.append(("late since", instant_text(view.late_since)))
    return console.print(make_table(["FIELD", "VALUE"], rows))


@app.command("events")
def list_events(name: Name, as_json: Json = False) -> None:
    """List the last events of an asset, newest first."""

    async def work() -> list[AssetEvent]:
        return (await (await Tidemill.connect()).asset_events(name))[::-1]

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
    said = read_extra(extra)

    async def work() -> AssetEvent | None:
        return await (await Tidemill.connect()).emit(name, extra=said, partition_key=partition, cause=cause)

    event = run(work())
    if as_json:
        return print_json(event)
    told = "is known already" if event is None else f"at {instant_text(event.timestamp)}"
    return console.print(f"{name}: the event {told}")


@app.command("materialize")
def materialize(name: Name, as_json: Json = False) -> None:
    """Run the DAG that writes an asset. Refused where none does, or several do."""

    async def work() -> RunIdentity:
        return await (await Tidemill.connect()).materialize(name)

    made = run(work())
    if as_json:
        return print_json(made)
    return console.print(f"{made.dag_id}: run {made.run_id} is created")


@app.command("graph")
def draw_graph(as_json: Json = False) -> None:
    """Show which DAG writes what, and which runs then: a line for each asset, those that close a circle marked."""

    async def work() -> list[AssetView]:
        tidemill = await Tidemill.connect()
        return [await tidemill.asset(name) for name in await tidemill.assets()]

    views = run(work())
    after = {
        dag_id: {c for v in views if dag_id in v.producers for c in v.consumers}
        for v in views
        for dag_id in v.producers
    }
    rows = [
        (
            ", ".join(view.producers) or "outside",
            "->",
            view.name,
            "->",
            ", ".join(view.consumers) or "nobody",
            "a circle" if any(is_after(after, c, p) for p in view.producers for c in view.consumers) else "",
        )
        for view in views
    ]
    show(views, as_json, make_table(["WRITTEN BY", "", "ASSET", "", "RUNS", ""], rows))


def is_after(after: dict[str, set[str]], dag_id: str, other: str) -> bool:
    """Whether a run of *dag_id* leads to one of *other*."""
    seen: set[str] = set()
    found = {dag_id}
    while found:
        if other in found:
            return True
        seen |= found
        found = {later for one in found for later in after.get(one, ())} - seen
    return False


def read_extra(text: str | None) -> dict[str, Any]:
    """*text* as a JSON object; one clear line where it is none."""
    try:
        extra = json.loads(text or "{}")
    except ValueError as error:
        fail(f"extra = {text!r} is no JSON: {error}. Write it as '{{\"rows\": 1}}'")
    if not isinstance(extra, dict):
        fail(f"extra = {text!r} is no JSON object. Write it as '{{\"rows\": 1}}'")
    return extra
