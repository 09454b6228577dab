"""What holds of a pool, or of a limit, after each of its workflow tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tidemill.model.pool.state import UNLIMITED

from .catalogue import Found, Look, prop

LEVEL = "Pool"
ROUNDING = timedelta(milliseconds=1)


def picture(workflow: Any) -> dict[str, Any]:
    """What the next look compares with."""
    state = workflow.state
    return {
        "held": {lease_id: lease.parked for lease_id, lease in state.held.items()},
        "waiting": {*state.waiting},
        "returned": {*state.returned},
        "slots": state.settings.slots,
        "recovers": workflow._given_back is not None,
        "as_of": state.limit_as_of,
        "since": {lease_id: lease.since for lease_id, lease in state.held.items()},
    }


def _granted(look: Look) -> list[Any]:
    before = look.before.get("held", {})
    return [lease for lease_id, lease in look.state.held.items() if lease_id not in before]


@prop(LEVEL)
def a_pool_gives_no_more_than_it_has(look: Look) -> Found:
    """No slot is granted while as many are taken as there are."""
    slots = look.state.settings.slots
    if look.before.get("recovers"):  # what is learnt of an earlier pool is no grant
        return
    if slots != UNLIMITED and _granted(look) and look.state.occupied > slots and look.before:
        most = max(slots, look.before["slots"])
        if look.state.occupied > most:
            yield f"{look.state.occupied} of {most}"


@prop(LEVEL)
def nobody_holds_and_waits(look: Look) -> Found:
    """A request has its slots or waits for them, not both."""
    if both := look.state.held.keys() & look.state.waiting.keys():
        yield f"{sorted(both)}"


@prop(LEVEL)
def a_free_slot_is_given(look: Look) -> Found:
    """After a workflow task, nobody waits whose request fits into what is free."""
    state = look.state
    if not look.idle:
        return
    free = None if state.settings.slots == UNLIMITED else state.settings.slots - state.occupied
    for request in state.waiting.values():
        if free is None or 0 < request.slots <= free:
            yield f"{request.lease_id} wants {request.slots}, {free} are free"


def _comes_first(request: Any, other: Any) -> bool:
    """Whether a request is of more weight, or as heavy and of an older run (as in Airflow)."""
    if request.priority_weight != other.priority_weight:
        return bool(request.priority_weight > other.priority_weight)
    return bool(request.date < other.date)


@prop(LEVEL)
def the_heaviest_is_let_in_first(look: Look) -> Found:
    """Of requests that fit, the heaviest is granted first, then that of the oldest run."""
    for lease in _granted(look):
        if abs(lease.since - look.now) > ROUNDING or look.before.get(
            "recovers"
        ):  # what is learnt of an earlier pool is no grant
            continue
        for request in look.state.waiting.values():
            if request.slots <= lease.request.slots and _comes_first(request, lease.request):
                yield f"{lease.request.lease_id} before {request.lease_id}"


@prop(LEVEL)
def requests_are_known_by_their_ids(look: Look) -> Found:
    """What is held, and what waits, is kept by the id of its request."""
    for lease_id, lease in look.state.held.items():
        if lease.request.lease_id != lease_id:
            yield lease_id
    for lease_id, request in look.state.waiting.items():
        if request.lease_id != lease_id:
            yield lease_id


@prop(LEVEL)
def holders_are_runs(look: Look) -> Found:
    """Slots are held by runs, each with its own numbers."""
    for request in [*look.state.waiting.values(), *(lease.request for lease in look.state.held.values())]:
        if not request.holder.startswith("run:") or not request.lease_id.startswith(f"{request.holder}#"):
            yield f"{request.lease_id} of {request.holder}"


@prop(LEVEL)
def who_asks_again_is_answered(look: Look) -> Found:
    """After a workflow task, everybody who has asked again has been answered."""
    if look.state.again and look.idle:
        yield f"{look.state.again}"


@prop(LEVEL)
def slots_are_held_since_they_were_given(look: Look) -> Found:
    """The time since when slots are held never changes, and is not in the future."""
    before = look.before.get("since", {})
    for lease_id, lease in look.state.held.items():
        if lease.since > look.now + ROUNDING or before.get(lease_id, lease.since) > lease.since:
            yield f"{lease_id}: {lease.since}"


@prop(LEVEL)
def the_newest_limit_counts(look: Look) -> Found:
    """An older setting of the installation's limit never replaces a newer one."""
    before, now = look.before.get("as_of"), look.state.limit_as_of
    if before is not None and (now is None or now < before):
        yield f"{now} after {before}"


@prop(LEVEL)
def a_pool_shows_what_it_has_given(look: Look) -> Found:
    """The occupied and open slots that are shown are what is held."""
    view = look.state.view()
    counted = look.state.settings.include_deferred
    taken = sum(lease.request.slots for lease in look.state.held.values() if counted or not lease.parked)
    if view.occupied_slots != taken or (view.open_slots is not None and view.open_slots < 0):
        yield f"it shows {view.occupied_slots} and has given {taken}"


@prop(LEVEL)
def a_pool_goes_on_when_nobody_is_looked_for(look: Look) -> Found:
    """A pool does not go on as new while it looks for holders that have ended."""
    if look.closed == "ContinuedAsNew" and look.object._is_looking:
        yield "it looks"
