"""One asset for as long as somebody names it: who writes it, who waits for it, and its last events."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ..base import Brief, Instant, Model, Record, Request
from ..errors import InvalidInputError
from ..sizes import json_size
from ..spec.assets.identity import Asset
from .events import AssetEvent

EVENTS_KEPT = 100
CAUSES_KEPT = 5000
EXTRA_LIMIT = 32 * 1024
KEY_LIMIT = 250


def asset_workflow_id(name: str) -> str:
    return f"asset:{name}"


def alias_workflow_id(name: str) -> str:
    return f"asset-alias:{name}"


class Tie(Brief, Model):
    """What a DAG has to do with an asset."""

    dag_id: str
    consumes: bool = False
    produced_by: tuple[str, ...] = ()
    """The tasks that write it."""
    asset: Asset | None = None
    """What the DAG's file says of it."""
    since: Instant | None = None
    """From when on the DAG wants to know of events that were before; None: of none."""


class ToldEvent(Brief, Request):
    """An event as whoever caused it tells of it."""

    cause: str
    asset: Asset | None = None
    """Which asset it is of, where an alias is told."""
    extra: dict[str, Any] = {}
    partition_key: str | None = None
    partition_date: Instant | None = None
    aliases: tuple[str, ...] = ()
    source_dag_id: str | None = None
    source_task_id: str | None = None
    source_run_id: str | None = None
    source_map_index: int = -1


class Delivery(Model):
    """Events on their way to a DAG; those of before it waited for the asset do not count."""

    events: tuple[AssetEvent, ...]
    history: bool = False


class AssetView(Model):
    """An asset as it is shown."""

    name: str
    uri: str
    group: str
    producers: dict[str, tuple[str, ...]]
    consumers: tuple[str, ...]
    events: int
    last_event: AssetEvent | None
    late_since: Instant | None = None


class AssetState(Record):
    """What an asset's workflow knows; travels through continue-as-new."""

    asset: Asset
    is_alias: bool = False
    ties: dict[str, Tie] = {}
    numbered: int = 0
    events: list[AssetEvent] = []
    causes: list[str] = []
    """Of the last events: told twice, an event is one."""

    def tie(self, tie: Tie) -> Sequence[AssetEvent]:
        """Takes note of what a DAG has to do with the asset. The events of before that it wants to know of."""
        before = self.ties.get(tie.dag_id)
        if tie.asset is not None:
            self.asset = tie.asset
        if tie.consumes or tie.produced_by:
            self.ties[tie.dag_id] = tie
        else:
            self.ties.pop(tie.dag_id, None)
        is_new = tie.consumes and not (before is not None and before.consumes)
        if not is_new or tie.since is None:
            return []
        return [event for event in self.events if event.timestamp > tie.since]

    def add(self, told: ToldEvent, now: datetime) -> AssetEvent | None:
        """The event, numbered; None if it has been told before."""
        if told.cause in self.causes:
            return None
        self.numbered += 1
        asset = told.asset or self.asset
        fields = told.model_dump(exclude={"asset"})
        event = AssetEvent(name=asset.name, uri=asset.uri, timestamp=now, **fields)
        self.causes = [*self.causes[-CAUSES_KEPT + 1 :], told.cause]
        self.events = [*self.events[-EVENTS_KEPT + 1 :], event]
        return event

    @property
    def consumers(self) -> list[str]:
        """The DAGs that wait for it."""
        return sorted(tie.dag_id for tie in self.ties.values() if tie.consumes)

    def view(self, now: datetime) -> AssetView:
        """The asset as it is *now*."""
        last = self.events[-1] if self.events else None
        fresh_until = None
        if last is not None and self.asset.freshness is not None:
            fresh_until = last.timestamp + self.asset.freshness
        return AssetView(
            name=self.asset.name,
            uri=self.asset.uri,
            group=self.asset.group,
            producers={tie.dag_id: tie.produced_by for tie in self.ties.values() if tie.produced_by},
            consumers=tuple(self.consumers),
            events=self.numbered,
            last_event=last,
            late_since=fresh_until if fresh_until is not None and fresh_until < now else None,
        )


def check_event(extra: dict[str, Any], partition_key: str | None) -> None:
    """Raises InvalidInputError for an event that is too large, or whose key is none."""
    if (size := json_size(extra)) > EXTRA_LIMIT:
        raise InvalidInputError(
            f"extra has {size:,} bytes, and may have {EXTRA_LIMIT:,}. Write it to a file, and give its path"
        )
    if partition_key is not None and (partition_key.isspace() or len(partition_key) > KEY_LIMIT):
        raise InvalidInputError(
            f"partition_key = {partition_key[:60]!r} is blank, or longer than {KEY_LIMIT} characters. Correct it"
        )
