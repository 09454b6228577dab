"""Events of assets: that data has been written, by whom, and what there is to say of it."""

from collections.abc import Sequence
from typing import Any

from ..base import Instant, Model, OmitDefaults
from ..sizes import json_size
from ..spec.assets.condition import Condition, aliases_in, assets_in, refs_in
from ..spec.assets.identity import AssetKey


class AssetEvent(OmitDefaults, Model):
    """One update of an asset (Airflow: AssetEvent). Its cause says which: told twice, it is one event."""

    cause: str
    name: str
    uri: str
    timestamp: Instant
    extra: dict[str, Any] = {}
    partition_key: str | None = None
    partition_date: Instant | None = None
    """The date that the run was about that the event is of."""
    aliases: tuple[str, ...] = ()
    """The names that it came in by, beside the asset's own."""
    source_dag_id: str | None = None
    source_task_id: str | None = None
    source_run_id: str | None = None
    source_map_index: int = -1

    @property
    def key(self) -> AssetKey:
        return self.name, self.uri


def wakes(condition: Condition, event: AssetEvent) -> bool:
    """Whether *event* counts towards *condition*: by its asset, by a reference to that, or by an alias."""
    return (
        any(asset.key == event.key for asset in assets_in(condition))
        or any(ref.means(event.key) for ref in refs_in(condition))
        or not {*event.aliases}.isdisjoint(aliases_in(condition))
    )


def is_listed(condition: Condition, event: AssetEvent) -> bool:
    """Whether a run of *condition* lists *event*: not those of references alone, as in Airflow."""
    by_asset = any(asset.key == event.key for asset in assets_in(condition))
    return by_asset or not {*event.aliases}.isdisjoint(aliases_in(condition))


def newest_that_fit(events: Sequence[AssetEvent], max_events: int, max_bytes: int) -> list[AssetEvent]:
    """The newest of *events*, oldest first: so many, and so many bytes, and one at least."""
    kept: list[AssetEvent] = []
    size = 0
    for event in reversed(events[-max_events:]):
        size += json_size(event.model_dump(mode="json"))
        if kept and size > max_bytes:
            break
        kept.append(event)
    return kept[::-1]
