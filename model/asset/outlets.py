"""What a task says of the assets that it writes."""

from typing import Any

from ..base import Model, OmitDefaults
from ..spec.assets.identity import Asset, AssetAlias, AssetRef
from ..spec.tasks import BaseTask
from .state import ReportedEvent, alias_workflow_id, asset_workflow_id, named_asset


class OutletEvent(OmitDefaults, Model):
    """What a task has said of one of its outlets; by an alias, of an asset that it has come upon."""

    asset: Asset
    alias: str | None = None
    extra: dict[str, Any] = {}
    partition_keys: tuple[str, ...] = ()


class Emission(Model):
    """An event for an asset's workflow, and for those of the aliases that it came by."""

    asset: Asset
    event: ReportedEvent

    @property
    def workflow_ids(self) -> list[str]:
        return [asset_workflow_id(self.asset.name), *map(alias_workflow_id, self.event.aliases)]


def emissions(
    task: BaseTask,
    events: tuple[OutletEvent, ...],
    source: dict[str, Any],
    cause: str,
    own: dict[str, Any],
    *,
    every: bool = True,
) -> list[Emission]:
    """The events of a task that has succeeded: for each asset among its outlets one, or those that it has said itself,
    and those that came by aliases.

    *source* says of which run and task they are, *cause* tells the try from others, and *own* is the partition that
    the run is about: an event's, unless the task gives it keys of its own. Without *every*, as up to 0.2.0: one event
    at most of each asset, and none of a reference.
    """
    found: list[Emission] = []
    for number, outlet in enumerate(task.outlets):
        if isinstance(outlet, Asset) or (every and isinstance(outlet, AssetRef)):
            mine = [one for one in events if one.alias is None and _means(outlet, one.asset)][: None if every else 1]
            parts = [(one.extra, part) for one in mine for part in _parts(one, own)] or [({}, own)]
            asset = outlet if isinstance(outlet, Asset) else next((one.asset for one in mine), _referred(outlet))
            found += [
                Emission(asset=asset, event=ReportedEvent(cause=f"{cause}/{number}.{n}", extra=extra, **source, **part))
                for n, (extra, part) in enumerate(parts)
            ]
    aliases = [outlet.name for outlet in task.outlets if isinstance(outlet, AssetAlias)]
    together: dict[str, list[OutletEvent]] = {}
    for one in events:
        if one.alias in aliases:
            together.setdefault(repr((one.asset.key, one.extra)), []).append(one)
    for number, same in enumerate(together.values()):
        names = tuple(dict.fromkeys(str(one.alias) for one in same))
        asset = same[0].asset
        event = ReportedEvent(
            cause=f"{cause}/a{number}", asset=asset, extra=same[0].extra, aliases=names, **source, **own
        )
        found.append(Emission(asset=asset, event=event))
    return found


def _means(outlet: Asset | AssetRef, asset: Asset) -> bool:
    return outlet.key == asset.key if isinstance(outlet, Asset) else outlet.means(asset.key)


def _referred(outlet: AssetRef) -> Asset:
    """The asset of that name; one that has only a uri is called by it."""
    return named_asset(outlet.name or outlet.uri or "")


def _parts(event: OutletEvent, own: dict[str, Any]) -> list[dict[str, Any]]:
    return [_of_key(key, own) for key in event.partition_keys] or [own]


def _of_key(key: str, own: dict[str, Any]) -> dict[str, Any]:
    """A key that is not the run's own carries no date."""
    return own if key == own.get("partition_key") else {"partition_key": key}
