"""Assets and their events, as their workflows know them."""

from datetime import UTC, datetime
from typing import Any

from .....model.asset.events import AssetEvent
from .....model.asset.state import alias_workflow_id, asset_workflow_id
from .....model.run.facts import Question
from . import Answering, Asking, Message, missing


def _asset(asking: Asking, message: Message) -> Message:
    name, uri = message.get("name"), message.get("uri")
    found = asking.worker.facts(Question(about="asset", dag_id="", key=asset_workflow_id(str(name or uri))))
    if not found:
        return missing("ASSET_NOT_FOUND", name=name, uri=uri)
    return {"type": "AssetResult", **_as_asset(found)}


def _as_asset(found: dict[str, Any]) -> dict[str, Any]:
    return {"name": found["name"], "uri": found["uri"], "group": found.get("group", "asset"), "extra": {}}


def _of_alias(asking: Asking, message: Message) -> Message:
    events = _events(asking, alias_workflow_id(message["alias_name"]))
    keys = dict.fromkeys(event.key for event in events)
    assets = [{"type": "AssetResult", **_as_asset({"name": name, "uri": uri})} for name, uri in keys]
    return {"type": "AssetsByAliasResult", "assets": assets}


def _events_of_asset(asking: Asking, message: Message) -> Message:
    return _chosen(message, _events(asking, asset_workflow_id(message.get("name") or message["uri"])))


def _events_of_alias(asking: Asking, message: Message) -> Message:
    return _chosen(message, _events(asking, alias_workflow_id(message["alias_name"])))


def _events(asking: Asking, workflow_id: str) -> list[AssetEvent]:
    found = asking.worker.facts(Question(about="events", dag_id="", key=workflow_id))
    return [AssetEvent.model_validate(event) for event in found or ()]


def _chosen(message: Message, events: list[AssetEvent]) -> Message:
    after, before = _instant(message.get("after")), _instant(message.get("before"))
    kept = [
        (number, event)
        for number, event in enumerate(events)
        if (after is None or event.timestamp >= after) and (before is None or event.timestamp <= before)
    ]
    if not message.get("ascending", True):
        kept.reverse()
    if message.get("limit") is not None:
        kept = kept[: message["limit"]]
    return {"type": "AssetEventsResult", "asset_events": [_as_event(number, event) for number, event in kept]}


def _as_event(number: int, event: AssetEvent) -> dict[str, Any]:
    return {
        "id": number,
        "timestamp": event.timestamp.isoformat(),
        "extra": event.extra,
        "asset": _as_asset({"name": event.name, "uri": event.uri}),
        "created_dagruns": [],
        "source_task_id": event.source_task_id,
        "source_dag_id": event.source_dag_id,
        "source_run_id": event.source_run_id,
        "source_map_index": event.source_map_index,
        "partition_key": event.partition_key,
    }


def consumed(event: AssetEvent) -> dict[str, Any]:
    """An event that a run was made for."""
    return {
        "asset": {"name": event.name, "uri": event.uri, "extra": {}},
        "extra": event.extra,
        "source_task_id": event.source_task_id,
        "source_dag_id": event.source_dag_id,
        "source_run_id": event.source_run_id,
        "source_map_index": event.source_map_index,
        "source_aliases": [{"name": name} for name in event.aliases],
        "timestamp": event.timestamp.isoformat(),
        "partition_key": event.partition_key,
    }


def _instant(value: Any) -> datetime | None:
    if value is None:
        return None
    return (value if isinstance(value, datetime) else datetime.fromisoformat(value)).astimezone(UTC)


ANSWERS: dict[str, Answering] = {
    "GetAssetByName": _asset,
    "GetAssetByUri": _asset,
    "GetAssetsByAlias": _of_alias,
    "GetAssetEventByAsset": _events_of_asset,
    "GetAssetEventByAssetAlias": _events_of_alias,
}
