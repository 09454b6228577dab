"""What holds of an asset, a watcher and a bundle after each of their workflow tasks."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tidemill.model.asset.state import CAUSES_KEPT, EVENTS_KEPT, HELD

from .catalogue import Found, Look, prop

ASSET, WATCHER, BUNDLE = "Asset", "Watcher", "DagBundle"


def picture(workflow: Any) -> dict[str, Any]:
    """What the next look at an asset compares with."""
    state = workflow.state
    return {"numbered": state.numbered, "outbox": {dag: len(out) for dag, out in state.outbox.items()},
            "paused": state.is_paused, "notices": state.notices, "causes": {event.cause for event in state.events},
            "held": [event.cause for event in state.held]}  # fmt: skip


def picture_of_watcher(workflow: Any) -> dict[str, Any]:
    return {"found": workflow.state.found}


def picture_of_bundle(workflow: Any) -> dict[str, Any]:
    state = workflow.state
    return {"executions": state.executions, "parses": {path: record.parses for path, record in state.files.items()}}


@prop(ASSET)
def events_are_told_apart(look: Look) -> Found:
    """No two events of an asset that are kept have one cause."""
    for cause, n in Counter(event.cause for event in look.state.events).items():
        if n > 1:
            yield f"{cause}: {n}"


@prop(ASSET)
def events_are_numbered_on(look: Look) -> Found:
    """The number of an asset's events never falls, and is at least that of those that are kept."""
    if look.state.numbered < max(look.before.get("numbered", 0), len(look.state.events)):
        yield f"{look.state.numbered} after {look.before.get('numbered')}"


@prop(ASSET)
def what_is_to_be_sent_is_there(look: Look) -> Found:
    """Each event that a DAG has to be told of is kept, and no other."""
    wanted = {one.cause for out in look.state.outbox.values() for one in out}
    if wanted != {*look.state.unsent}:
        yield f"{sorted(wanted ^ {*look.state.unsent})}"


@prop(ASSET)
def only_consumers_are_told(look: Look) -> Found:
    """Only DAGs that wait for the asset have events waiting for them."""
    for dag_id in look.state.outbox:
        tie = look.state.ties.get(dag_id)
        if tie is None or not tie.consumes:
            yield dag_id


@prop(ASSET)
def an_event_is_sent_once(look: Look) -> Found:
    """No event waits twice for one DAG."""
    for dag_id, out in look.state.outbox.items():
        causes = [one.cause for one in out]
        if len({*causes}) < len(causes):
            yield f"{dag_id}: {causes}"


@prop(ASSET)
def a_paused_asset_tells_nobody(look: Look) -> Found:
    """While an asset is paused, nothing new waits to be told."""
    if look.before.get("paused") and look.state.is_paused:
        for dag_id, out in look.state.outbox.items():
            before = look.before["outbox"].get(dag_id, 0)
            if len([one for one in out if not one.history]) > before and before:
                yield f"{dag_id}: {len(out)} after {before}"


@prop(ASSET)
def only_a_paused_asset_holds_events(look: Look) -> Found:
    """Events are held back only while the asset is paused."""
    if look.state.held and not look.state.is_paused:
        yield f"{len(look.state.held)}"


@prop(ASSET)
def what_an_asset_keeps_has_bounds(look: Look) -> Found:
    """The lists of an asset's state do not grow without end."""
    state = look.state
    for name, kept, most in (("events", state.events, EVENTS_KEPT), ("causes", state.causes, CAUSES_KEPT),
                             ("held", state.held, HELD)):  # fmt: skip
        if len(kept) > most:
            yield f"{name}: {len(kept)} of {most}"


@prop(ASSET)
def whoever_has_something_waiting_is_being_told(look: Look) -> Found:
    """After a workflow task, each DAG that something waits for is being told."""
    if look.idle and not look.holding:
        idle = {*look.state.outbox} - look.object._sending
        if idle and len(look.object._sending) < 40:
            yield f"{sorted(idle)}"


@prop(ASSET)
def an_asset_leaves_no_message(look: Look) -> Found:
    """An asset that goes on as new is telling nobody at that moment."""
    if look.closed == "ContinuedAsNew" and (look.object._sending or look.object._beside):
        yield f"{sorted(look.object._sending)}"


@prop(ASSET)
def lateness_is_counted_on(look: Look) -> Found:
    """The number of an asset's notices never falls."""
    if look.state.notices < look.before.get("notices", 0):
        yield f"{look.state.notices}"


@prop(WATCHER)
def sightings_are_counted_on(look: Look) -> Found:
    """The number of what a watcher has found never falls."""
    if look.state.found < look.before.get("found", 0):
        yield f"{look.state.found}"


@prop(WATCHER)
def sightings_are_told_apart(look: Look) -> Found:
    """What a watcher has still to tell is told once."""
    causes = [told.cause for told in look.state.unsent]
    if len({*causes}) < len(causes):
        yield f"{causes}"


@prop(WATCHER)
def a_watcher_tells_before_it_goes_on(look: Look) -> Found:
    """A watcher goes on as new only when the asset has been told of all that it has found."""
    if look.closed == "ContinuedAsNew" and look.state.unsent:
        yield f"{len(look.state.unsent)}"


@prop(BUNDLE)
def a_dag_s_file_is_there(look: Look) -> Found:
    """A DAG of a bundle is in the file that it is said to be in, or in none and known as gone."""
    for dag_id, owned in look.state.dags.items():
        record = look.state.files.get(owned.path)
        if (record is None or dag_id not in record.dags) and owned.gone_since is None:
            yield f"{dag_id} in {owned.path}"


@prop(BUNDLE)
def a_dag_that_is_in_a_file_is_not_gone(look: Look) -> Found:
    """A DAG that its file defines is not said to be in none."""
    for dag_id, owned in look.state.dags.items():
        record = look.state.files.get(owned.path)
        if record is not None and dag_id in record.dags and owned.gone_since is not None:
            yield dag_id


@prop(BUNDLE)
def files_are_parsed_by_few(look: Look) -> Found:
    """No more files are parsed at a time than parsing_processes says."""
    if len(look.object._parsing) > look.state.settings.parsing_processes:
        yield f"{sorted(look.object._parsing)}"


@prop(BUNDLE)
def parses_are_counted_on(look: Look) -> Found:
    """The number of a file's parses never falls."""
    for path, parses in look.before.get("parses", {}).items():
        record = look.state.files.get(path)
        if record is not None and record.parses < parses and record.parses > 1:
            yield f"{path}: {record.parses} after {parses}"


@prop(BUNDLE)
def a_bundle_leaves_nothing_under_way(look: Look) -> Found:
    """A bundle that goes on as new lists, parses and registers nothing at that moment."""
    if look.closed == "ContinuedAsNew" and look.object._under_way:
        yield f"{len(look.object._under_way)}"


@prop(BUNDLE)
def a_bundle_has_no_defect(look: Look) -> Found:
    """Nothing that a bundle does is stopped by an error of tidemill."""
    if look.state.problem is not None and "defect" in look.state.problem:
        yield look.state.problem


@prop(BUNDLE)
def what_is_due_of_a_bundle_is_begun(look: Look) -> Found:
    """After a workflow task, no file waits to be parsed that may be."""
    if look.idle and not look.holding:
        yield from look.state.next_parses(look.now, look.object._parsing)
