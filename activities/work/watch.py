"""Looks for events of an asset: files, or what a trigger of the DAG file finds. Runs only in child processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ...model.asset.watching import Sighting, WatchAnswer, check_sightings
from ...model.authoring.asset_watchers import BaseEventTrigger, TriggerEvent
from ...model.authoring.assets import declared
from ...model.errors import InvalidInputError
from ...model.spec.assets.watchers import FilesTrigger
from ..processes.answers import Failed, Watched
from .failures import describe_failure, print_failure

if TYPE_CHECKING:
    from .job import Job

POSITION_LIMIT = 256 * 1024


def run(job: Job) -> Watched | Failed:
    """Looks until there is something, or the time of the request is over."""
    request = job.request
    try:
        if request["files"] is None and (answer := _airflow(job)) is not None:
            return Watched(answer=answer)
        look = _files(request) if request["files"] is not None else _own(job)
        return Watched(answer=_repeated(look, request["position"], request["seconds"]))
    except BaseException as error:
        print_failure(error)
        return Failed(failure=describe_failure(error))


@dataclass(frozen=True)
class _Looking:
    """How it looks from a position on, and how many seconds it waits between two looks."""

    once: Callable[[Any], tuple[tuple[Sighting, ...], Any]]
    pause: float


def _files(request: dict[str, Any]) -> _Looking:
    from .watched_files import look_at_files

    trigger = FilesTrigger.model_validate(request["files"])
    return _Looking(
        lambda position: look_at_files(trigger, position, time.time()), trigger.poll_interval.total_seconds()
    )


def _airflow(job: Job) -> WatchAnswer | None:
    """What is found for an asset of an Airflow DAG; None for any other."""
    if not (dags := job.imported().airflow_dags):
        return None
    from .airflow import watchers

    return watchers.look(job) if watchers.are_for(dags, job.request["asset"]) else None


def _own(job: Job) -> _Looking:
    job.imported()
    trigger = declared(job.request["asset"]).trigger_of(job.request["watcher"])
    return _Looking(partial(_polled, trigger), trigger.poll_interval.total_seconds())


def _repeated(look: _Looking, position: Any, seconds: float) -> WatchAnswer:
    until, first = time.monotonic() + seconds, position
    while True:
        found, position = look.once(position)
        if found or time.monotonic() + look.pause >= until:
            return WatchAnswer(found=found, position=position, moved=position != first)
        time.sleep(look.pause)


def _polled(trigger: BaseEventTrigger, position: Any) -> tuple[tuple[Sighting, ...], Any]:
    """What one poll has found, as data. Raises InvalidInputError for an answer that is none."""
    name = type(trigger).__name__
    try:
        events, behind = trigger.poll(position)
        events = [*events]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{name}.poll: {type(error).__name__}: {error}. Return (events, position behind them)"
        ) from error
    strange = next((event for event in events if not isinstance(event, TriggerEvent)), None)
    if strange is not None:
        raise InvalidInputError(f"{name}.poll returned {strange!r} as an event. Return TriggerEvent(payload)")
    odd = next((event for event in events if not _is_text(event.key) or not _is_text(event.partition_key)), None)
    if odd is not None:
        raise InvalidInputError(f"{name}.poll: key = {odd.key!r}, partition_key = {odd.partition_key!r}. Give texts")
    try:
        converted = [(event.key, to_jsonable_python(event.payload), event.partition_key) for event in events]
        behind = to_jsonable_python(behind)
        size = len(json.dumps(behind))
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidInputError(f"{name}.poll returned what is not JSON: {error}. Return plain data") from None
    if size > POSITION_LIMIT:
        raise InvalidInputError(f"{name}.poll: the position has {size:,} bytes, and may have {POSITION_LIMIT:,}")
    found = tuple(Sighting(key=key, payload=payload, partition_key=part) for key, payload, part in converted)
    try:
        check_sightings(found)
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}.poll: {error}") from None
    return found, behind


def _is_text(key: Any) -> bool:
    return key is None or isinstance(key, str)
