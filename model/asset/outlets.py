"""What a task says of the assets that it writes."""

from typing import Any

from ..base import Brief, Model
from ..spec.assets.identity import Asset, AssetAlias
from ..spec.tasks import BaseTask
from .state import ToldEvent, alias_workflow_id, asset_workflow_id


class OutletEvent(Brief, Model):
    """What a task has said of one of its outlets; by an alias, of an asset that it has come upon."""

    asset: Asset
    alias: str | None = None
    extra: dict[str, Any] = {}
    partition_keys: tuple[str, ...] = ()


class Emission(Model):
    """An event for an asset's workflow, and for those of the aliases that it came by."""

    asset: Asset
    told: ToldEvent

    @property
    def workflow_ids(self) -> list[str]:
        return [asset_workflow_id(self.asset.name), *map(alias_workflow_id, self.told.aliases)]


def emissions(
    task: BaseTask, said: tuple[OutletEvent, ...], source: dict[str, Any], cause: str, own: dict[str, Any]
) -> list[Emission]:
    """The events of a task that has succeeded: one for each asset among its outlets, and those that came by aliases.

    *source* says of which run and task they are, *cause* tells the try from others, and *own* is the partition that
    the run is about: an event's, unless the task gives it keys of its own.
    """
    found: list[Emission] = []
    for number, outlet in enumerate(task.outlets):
        if isinstance(outlet, Asset):
            mine = next((one for one in said if one.alias is None and one.asset.key == outlet.key), None)
            extra = mine.extra if mine is not None else {}
            keys = mine.partition_keys if mine is not None else ()
            parts = [_of_key(key, own) for key in keys] or [own]
            found += [
                Emission(asset=outlet, told=ToldEvent(cause=f"{cause}/{number}.{n}", extra=extra, **source, **part))
                for n, part in enumerate(parts)
            ]
    aliases = [outlet.name for outlet in task.outlets if isinstance(outlet, AssetAlias)]
    together: dict[str, list[OutletEvent]] = {}
    for one in said:
        if one.alias in aliases:
            together.setdefault(repr((one.asset.key, one.extra)), []).append(one)
    for number, same in enumerate(together.values()):
        names = tuple(dict.fromkeys(str(one.alias) for one in same))
        asset = same[0].asset
        told = ToldEvent(cause=f"{cause}/a{number}", asset=asset, extra=same[0].extra, aliases=names, **source, **own)
        found.append(Emission(asset=asset, told=told))
    return found


def _of_key(key: str, own: dict[str, Any]) -> dict[str, Any]:
    """A key that is not the run's own carries no date."""
    return own if key == own.get("partition_key") else {"partition_key": key}
