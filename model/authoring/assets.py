"""Assets as DAG files write them: Airflow's names, and `&` and `|`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from ..errors import InvalidInputError
from ..spec.assets import identity, mappers
from ..spec.assets.condition import AssetAll as All
from ..spec.assets.condition import AssetAny as Any_
from ..spec.assets.partitioned import Partitioned
from ..spec.timetables import AssetOrTime, AssetTriggered, CronPartition, PartitionedAsset
from .asset_watchers import AssetWatcher, BaseEventTrigger
from .callbacks import Callback, functions_of, notifiers_of


class _Expression:
    """What `&` and `|` put together."""

    leaf: Any
    """The same as data."""

    def __and__(self, other: _Expression) -> AssetAll:
        return AssetAll(*_parts(self, AssetAll), other)

    def __or__(self, other: _Expression) -> AssetAny:
        return AssetAny(*_parts(self, AssetAny), other)


class Asset(_Expression):
    """A piece of data, by name, uri or both (Airflow: Asset).

    *freshness*: how old its newest event may be before it is late; *on_late_callback* is told of it then.
    *watchers* look for its events outside of tidemill, as long as a DAG waits for it.
    """

    group_default = "asset"

    def __init__(
        self,
        name: str | None = None,
        uri: str | None = None,
        *,
        group: str | None = None,
        extra: dict[str, Any] | None = None,
        watchers: Sequence[AssetWatcher] = (),
        freshness: timedelta | None = None,
        on_late_callback: Callback = None,
    ) -> None:
        self.watchers: list[AssetWatcher] = [*watchers]
        for watcher in self.watchers:
            if not isinstance(watcher, AssetWatcher):
                raise InvalidInputError(
                    f"asset {name or uri!r}: watchers has {watcher!r}. Write AssetWatcher(name=..., trigger=...)"
                )
        self._on_late = on_late_callback
        fields = {
            "name": name,
            "uri": uri,
            "group": group or self.group_default,
            "extra": extra,
            "freshness": freshness,
            "on_late": notifiers_of({"on_late": on_late_callback}).get("on_late", ()),
            "watchers": [watcher.leaf for watcher in self.watchers],
        }
        try:
            self.leaf: Any = identity.Asset.model_validate(fields)
        except ValueError as error:
            raise InvalidInputError(f"asset {name or uri!r}: {_reason(error)}") from None
        if self.leaf.calls_code:
            _declared[self.name] = self

    def callback_functions(self) -> list[Callable[..., Any]]:
        """The functions that are called when it is late."""
        return functions_of(self._on_late)

    def trigger_of(self, watcher: str) -> BaseEventTrigger:
        """What the file says of how to look for its events. Raises InvalidInputError if it says nothing of that."""
        found = next((one.trigger for one in self.watchers if one.name == watcher), None)
        if not isinstance(found, BaseEventTrigger):
            raise InvalidInputError(
                f"asset {self.name!r} has no watcher {watcher!r} any more that is a class of its file. "
                "Put it back, or register the DAG again"
            )
        return found

    @staticmethod
    def ref(*, name: str | None = None, uri: str | None = None) -> AssetRef:
        """An asset that is declared elsewhere."""
        return AssetRef(name=name, uri=uri)

    @property
    def name(self) -> str:
        return str(self.leaf.name)

    @property
    def uri(self) -> str:
        return str(self.leaf.uri)

    @property
    def group(self) -> str:
        return str(self.leaf.group)

    @property
    def extra(self) -> dict[str, Any]:
        return dict(self.leaf.extra)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Asset) and self.leaf == other.leaf

    def __hash__(self) -> int:
        return hash(self.leaf.key)

    def __repr__(self) -> str:
        return f"Asset(name={self.name!r}, uri={self.uri!r})"


_declared: dict[str, Asset] = {}
"""By name, the assets of this process whose functions or classes somebody may want to call."""


def declared(name: str) -> Asset:
    """The asset as the file that was imported declares it. Raises InvalidInputError if it declares none."""
    if name not in _declared:
        raise InvalidInputError(f"asset {name!r} is no longer in its file. Put it back, or register the DAG again")
    return _declared[name]


class Dataset(Asset):
    """Airflow 2's name for an asset."""

    group_default = "dataset"


class Model(Asset):
    """An asset that is a model."""

    group_default = "model"


class AssetAlias(_Expression):
    """A name that events of assets come in by, which a task finds out when it runs (Airflow: AssetAlias)."""

    def __init__(self, name: str, *, group: str = "asset") -> None:
        self.leaf: Any = identity.AssetAlias(name=name, group=group)
        self.name = name


class AssetRef(_Expression):
    """An asset that is declared elsewhere (Airflow: Asset.ref)."""

    def __init__(self, *, name: str | None = None, uri: str | None = None) -> None:
        if (name is None) == (uri is None):
            raise InvalidInputError("Asset.ref: give name= or uri=, exactly one of them")
        self.leaf: Any = identity.AssetRef(name=name, uri=uri)
        self.name: str | None = name
        self.uri: str | None = uri


class AssetAll(_Expression):
    """All of them (Airflow: AssetAll)."""

    def __init__(self, *parts: _Expression) -> None:
        self.parts = parts
        self.leaf: Any = All(of=tuple(_leaf(part) for part in parts))


class AssetAny(_Expression):
    """Any of them (Airflow: AssetAny)."""

    def __init__(self, *parts: _Expression) -> None:
        self.parts = parts
        self.leaf: Any = Any_(of=tuple(_leaf(part) for part in parts))


class Metadata:
    """What a task yields of an asset that it has written (Airflow: Metadata)."""

    def __init__(self, asset: Any, extra: dict[str, Any] | None = None, alias: Any = None) -> None:
        self.asset: Any = asset
        self.extra: dict[str, Any] = extra or {}
        self.alias: Any = alias


def AssetOrTimeSchedule(*, timetable: Any, assets: Any) -> AssetOrTime:  # noqa: N802 - Airflow's name
    """Runs by *timetable*, and whenever *assets* say so."""
    return AssetOrTime.model_validate({"timetable": timetable.model_dump(), "condition": condition_of(assets)})


def PartitionedAssetTimetable(  # noqa: N802 - Airflow's name
    *,
    assets: Any,
    partition_mapper_config: Mapping[Any, Any] | None = None,
    default_partition_mapper: Any = None,
) -> PartitionedAsset:
    """A run for each partition of *assets*; each asset's keys become the run's by its mapper."""
    config = []
    for asset, mapper in (partition_mapper_config or {}).items():
        if isinstance(asset, AssetAlias):
            raise InvalidInputError(f"partition_mapper_config: {asset.name!r} is an alias. Name assets")
        by = {"name": asset.name} if asset.name is not None else {"uri": asset.uri}
        config.append({**by, "mapper": mapper})
    fields = {"assets": condition_of(assets), "mappers": config}
    return PartitionedAsset(
        partitioned=Partitioned.model_validate(
            fields if default_partition_mapper is None else {**fields, "default_mapper": default_partition_mapper}
        )
    )


def CronPartitionTimetable(cron: str, *, timezone: Any, **options: Any) -> CronPartition:  # noqa: N802
    """A run for the partition of each tick of *cron*."""
    zone = timezone if isinstance(timezone, str) else str(getattr(timezone, "key", None) or timezone)
    return CronPartition.model_validate({"expression": cron, "timezone": zone, **options})


def ProductMapper(*parts: Any, delimiter: str = "|", **options: Any) -> mappers.ProductMapper:  # noqa: N802
    """Keys of several segments, each with a mapper of its own."""
    return mappers.ProductMapper.model_validate({"mappers": parts, "delimiter": delimiter, **options})


def ChainMapper(*parts: Any, **options: Any) -> mappers.ChainMapper:  # noqa: N802
    """One mapper after the other."""
    return mappers.ChainMapper.model_validate({"mappers": parts, **options})


def condition_of(given: Any) -> dict[str, Any]:
    """What a DAG waits for, as data; a collection is all of it."""
    parts = _in_order(given)
    whole = parts[0] if len(parts) == 1 and isinstance(given, _Expression) else AssetAll(*parts)
    data: dict[str, Any] = whole.leaf.model_dump()
    return data


def schedule_of(schedule: Any) -> Any:
    """*schedule*, as a timetable where it is assets."""
    is_assets = isinstance(schedule, _Expression)
    if isinstance(schedule, list | tuple | set | frozenset) and schedule:
        is_assets = all(isinstance(part, _Expression) for part in schedule)
    return AssetTriggered.model_validate({"condition": condition_of(schedule)}) if is_assets else schedule


def leaves_of(given: Any) -> tuple[Any, ...]:
    """Outlets or inlets as data."""
    return tuple(_leaf(part) for part in _in_order(given))


def _in_order(given: Any) -> list[Any]:
    """*given* as a list; a set has no order of its own, and a version of a DAG has to be the same in each process."""
    if isinstance(given, _Expression):
        return [given]
    return sorted(given, key=lambda part: repr(_leaf(part))) if isinstance(given, set | frozenset) else [*given]


def _leaf(part: Any) -> Any:
    if isinstance(part, _Expression):
        return part.leaf
    raise InvalidInputError(f"{part!r} is no asset. Write Asset({part!r})")


def _parts(expression: _Expression, kind: type[Any]) -> tuple[_Expression, ...]:
    """What stands there already takes the next one in."""
    return tuple(expression.parts) if isinstance(expression, kind) else (expression,)


def _reason(error: ValueError) -> str:
    details = getattr(error, "errors", None)
    return str(details()[0]["msg"]).removeprefix("Value error, ") if details is not None else str(error)
