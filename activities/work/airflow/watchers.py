"""Looks for events of an asset by a trigger of Airflow's, until it has said something or its time is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ....model.asset.state import WRAPPED_EVENT_LIMIT
from ....model.asset.watching import PAGE, PAGE_BYTES, Sighting, WatchAnswer, check_sightings
from ....model.errors import InvalidInputError
from ....model.run.attempts import TaskAttempt
from ....model.sizes import json_size
from .answers import Asking
from .answers.table import answer
from .assets import watcher_name
from .supervisor_socket import answered
from .task_report import TaskReport
from .triggers import comms_for_many, put_in_order

if TYPE_CHECKING:
    from ..job import Job

TOGETHER_SECONDS = 0.5
"""What a trigger says so soon after its first event is told with that: a queue may have given it many at once."""


def look(job: Job) -> WatchAnswer:
    """What the trigger of the request's watcher says first. Whatever it raises passes through."""
    request = job.request
    asset, trigger = _watched(job.imported().airflow_dags, request["asset"], request["watcher"])
    asking = Asking(TaskAttempt.model_validate(request["attempt"]), TaskReport(), job)
    with answered(lambda message, _: answer(asking, message), comms=comms_for_many):
        return asyncio.run(_looked(asset, trigger, request["seconds"]))


def are_for(dags: Iterable[Any], asset: str) -> bool:
    """Whether one of *dags* waits for the asset."""
    return any(found.name == asset for found in _assets(dags))


def _watched(dags: Iterable[Any], asset: str, watcher: str) -> tuple[Any, Any]:
    """The asset and the trigger. Raises InvalidInputError if no DAG of the file waits for it any more."""
    for found in _assets(dags):
        if found.name == asset:
            for each in found.watchers:
                if watcher_name(each.name) == watcher:
                    return found, each.trigger
    raise InvalidInputError(
        f"asset {asset!r} has no watcher {watcher!r} in its file any more. Put it back, or register the DAG again"
    )


def _assets(dags: Iterable[Any]) -> Iterator[Any]:
    """The assets that DAGs wait for."""
    for dag in dags:
        yield from _in_condition(getattr(dag.timetable, "asset_condition", None))


def _in_condition(condition: Any) -> Iterator[Any]:
    from airflow.sdk.definitions.asset import Asset, AssetBooleanCondition

    if isinstance(condition, Asset):
        yield condition
    elif isinstance(condition, AssetBooleanCondition):
        for part in condition.objects:
            yield from _in_condition(part)


async def _looked(asset: Any, trigger: Any, seconds: float) -> WatchAnswer:
    from airflow.sdk.execution_time.context import AssetStateStoreAccessors

    trigger.asset_state_store = AssetStateStoreAccessors([asset])
    found: list[Sighting] = []
    refused: str | None = None
    size = 0
    try:
        async for event in _batch(_stream(trigger), seconds):
            one = Sighting(payload=event.payload)
            try:
                check_sightings([one])
            except InvalidInputError as error:
                refused = f"an event of {type(trigger).__name__} is not taken: {error}"
                continue
            found.append(one)
            size += json_size(one.model_dump(mode="json"))
            if len(found) == PAGE or size > PAGE_BYTES - WRAPPED_EVENT_LIMIT:
                break
    except Exception:
        if not found:  # else the next look meets it again: what was taken from a queue is not given back
            raise
    finally:
        await put_in_order(trigger, kill=False)
    return WatchAnswer(found=tuple(found), gap=refused)


async def _batch(stream: AsyncIterator[Any], seconds: float) -> AsyncIterator[Any]:
    """The first event, and those that follow at once. No event is taken before there is room for it."""
    timeout = seconds
    while True:
        try:
            yield await asyncio.wait_for(anext(stream), timeout)
        except (TimeoutError, StopAsyncIteration):
            return
        timeout = TOGETHER_SECONDS


def _stream(trigger: Any) -> AsyncIterator[Any]:
    """The trigger's events. One that could share its stream with others has one of its own here."""
    from airflow.triggers.base import BaseEventTrigger

    stream: AsyncIterator[Any]
    if not isinstance(trigger, BaseEventTrigger) or trigger.shared_stream_key() is None:
        stream = trigger.run()
        return stream
    kind = type(trigger)
    if kind.create_shared_stream_producer.__func__ is not BaseEventTrigger.create_shared_stream_producer.__func__:
        raise InvalidInputError(
            f"{kind.__name__}: triggers that acknowledge what they have read are not offered here. "
            "Use one that reads again what was not acknowledged, or a task that reads"
        )
    stream = trigger.filter_shared_stream(kind.open_shared_stream(trigger.serialize()[1]))
    return stream
