"""Assets as tasks see them: what they say of what they write, and which events there were (Airflow's accessors)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import pendulum
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..asset.events import AssetEvent
from ..asset.outlets import OutletEvent
from ..asset.state import check_event
from ..errors import InvalidInputError
from ..sizes import json_size
from ..spec.assets.identity import Asset, AssetAlias


def plain_leaf(given: Any) -> Any:
    """An asset, alias or reference as a DAG file has it, or as data, or the name of an asset."""
    if isinstance(given, str):
        return Asset.model_validate({"name": given})
    return getattr(given, "leaf", given)


OUTLET_EVENTS_LIMIT, MAX_OUTLET_EVENTS = 128 * 1024, 1000


def as_json(extra: Any) -> dict[str, Any]:
    """*extra* as JSON has it. Raises InvalidInputError for what it cannot hold."""
    try:
        plain = to_jsonable_python(extra)
    except PydanticSerializationError as error:
        raise InvalidInputError(f"outlet_events: extra is not JSON: {error}. Give plain data") from None
    if not isinstance(plain, dict):
        raise InvalidInputError(f"outlet_events: extra is {type(extra).__name__}, and no dict. Give a dict")
    return plain


class OutletEventAccessor:
    """What a task says of one outlet."""

    def __init__(self, leaf: Asset | AssetAlias) -> None:
        self._leaf = leaf
        self.extra: dict[str, Any] = {}
        self._added: list[OutletEvent] = []
        self._keys: list[str] = []

    def add(self, asset: Any, extra: dict[str, Any] | None = None) -> None:
        """Has an event of *asset* come in by this alias; on an asset it does nothing, as in Airflow."""
        if isinstance(self._leaf, AssetAlias):
            leaf = plain_leaf(asset)
            self._added.append(OutletEvent(asset=leaf, alias=self._leaf.name, extra=as_json(extra or {})))

    def add_partitions(self, keys: str | Sequence[str]) -> None:
        """Has an event for each of *keys*, instead of one for the run's own partition."""
        if isinstance(self._leaf, AssetAlias):
            raise TypeError(f"{self._leaf.name!r} is an alias, and has no partitions. Add them to an asset")
        for key in [keys] if isinstance(keys, str) else keys:
            check_event({}, key)
            if not key:
                raise ValueError("a partition key is empty. Give one")
            self._keys.append(key)

    def recorded(self) -> list[OutletEvent]:
        """All that was said, as data. Raises InvalidInputError for an extra that is too large."""
        for event in self._added:
            check_event(event.extra, None)
        if isinstance(self._leaf, AssetAlias):
            return self._added
        extra = as_json(self.extra)
        check_event(extra, None)
        if not extra and not self._keys:
            return []
        return [OutletEvent(asset=self._leaf, extra=extra, partition_keys=tuple(dict.fromkeys(self._keys)))]


class OutletEventAccessors(Mapping[Any, OutletEventAccessor]):
    """`outlet_events`: by asset or alias, what the task says of it."""

    def __init__(self, outlets: Sequence[Any]) -> None:
        self._outlets = outlets
        self._of = {(leaf.kind, leaf.name, getattr(leaf, "uri", None)): OutletEventAccessor(leaf) for leaf in outlets}

    def __getitem__(self, outlet: Any) -> OutletEventAccessor:
        leaf = plain_leaf(outlet)
        found = self._of.get((leaf.kind, leaf.name, getattr(leaf, "uri", None)))
        if found is None and (isinstance(outlet, str) or leaf.kind == "ref"):
            found = next((a for (_, name, uri), a in self._of.items() if leaf.name == name or leaf.uri == uri), None)
        if found is None:
            has = ", ".join(str(one.name or one.uri) for one in self._outlets) or "none"
            raise InvalidInputError(
                f"outlet_events: {leaf.name or leaf.uri!r} is no outlet of this task, which has {has}. "
                "Add it to outlets"
            )
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)

    def recorded(self) -> list[OutletEvent]:
        """All that was said. Raises InvalidInputError if that is too much."""
        found = [event for accessor in self._of.values() for event in accessor.recorded()]
        keys = sum(max(1, len(event.partition_keys)) for event in found)
        size = json_size([event.model_dump(mode="json") for event in found])
        if size > OUTLET_EVENTS_LIMIT or keys > MAX_OUTLET_EVENTS:
            raise InvalidInputError(
                f"outlet_events: {keys:,} events with {size:,} bytes; a task may have {MAX_OUTLET_EVENTS:,} events, "
                f"and {OUTLET_EVENTS_LIMIT:,} bytes. Write less to `extra`"
            )
        return found


class EventView:
    """An event as tasks and templates see it."""

    def __init__(self, event: AssetEvent) -> None:
        self.asset = Asset.model_validate({"name": event.name, "uri": event.uri})
        self.uri, self.name = event.uri, event.name
        self.extra = event.extra
        self.timestamp = pendulum.instance(event.timestamp)
        self.partition_key = event.partition_key
        self.source_dag_id = event.source_dag_id
        self.source_task_id = event.source_task_id
        self.source_run_id = event.source_run_id
        self.source_map_index = event.source_map_index
        self.source_dag_run = SimpleNamespace(dag_id=event.source_dag_id, run_id=event.source_run_id)
        self.source_task_instance = SimpleNamespace(
            dag_id=event.source_dag_id,
            run_id=event.source_run_id,
            task_id=event.source_task_id,
            map_index=event.source_map_index,
        )
        self.source_aliases = [*event.aliases]

    def __repr__(self) -> str:
        return f"AssetEvent(asset={self.name!r}, timestamp={self.timestamp}, extra={self.extra})"


class InletEvents(Sequence[EventView]):
    """Events of one asset, oldest first; asked for when they are looked at."""

    def __init__(self, ask: Callable[[], list[AssetEvent]], **limits: Any) -> None:
        self._ask, self._limits = ask, limits
        self._known: list[EventView] | None = None

    def _events(self) -> list[EventView]:
        if self._known is None:
            after, before = self._limits.get("after"), self._limits.get("before")
            found = [
                EventView(event)
                for event in self._ask()
                if (after is None or event.timestamp >= after) and (before is None or event.timestamp <= before)
            ]
            if not self._limits.get("ascending", True):
                found.reverse()
            self._known = found[: self._limits.get("limit")]
        return self._known

    def after(self, time: Any) -> "InletEvents":
        """Those from *time* on."""
        return InletEvents(self._ask, **{**self._limits, "after": _instant(time)})

    def before(self, time: Any) -> "InletEvents":
        """Those up to *time*."""
        return InletEvents(self._ask, **{**self._limits, "before": _instant(time)})

    def ascending(self, oldest_first: bool = True) -> "InletEvents":
        """The same in that order."""
        return InletEvents(self._ask, **{**self._limits, "ascending": oldest_first})

    def limit(self, limit: int) -> "InletEvents":
        """The first *limit*."""
        return InletEvents(self._ask, **{**self._limits, "limit": limit})

    def __getitem__(self, index: Any) -> Any:
        return self._events()[index]

    def __len__(self) -> int:
        return len(self._events())


class InletEventsAccessors:
    """`inlet_events`: by asset or alias, its events."""

    def __init__(self, ask: Callable[[Any], list[AssetEvent]]) -> None:
        self._ask = ask

    def __getitem__(self, inlet: Any) -> InletEvents:
        leaf = plain_leaf(inlet)
        return InletEvents(lambda: self._ask(leaf))


class TriggeringAssetEvents(Mapping[Any, list[EventView]]):
    """`triggering_asset_events`: by asset, and by alias, the events that the run was made for."""

    def __init__(self, events: Callable[[], Sequence[AssetEvent]]) -> None:
        self._events = events

    @cached_property
    def _of(self) -> dict[Any, list[EventView]]:
        found: dict[Any, list[EventView]] = {}
        for event in self._events():
            view = EventView(event)
            for key in (event.key, *event.aliases):
                found.setdefault(key, []).append(view)
        return found

    def __getitem__(self, which: Any) -> list[EventView]:
        leaf = plain_leaf(which)
        if isinstance(leaf, AssetAlias):
            return self._of[leaf.name]
        if isinstance(leaf, Asset) and not isinstance(which, str):
            return self._of[leaf.key]
        found = self.for_asset(name=leaf.name, uri=leaf.uri)
        if not found:
            raise KeyError(leaf.name or leaf.uri)
        return found

    def for_asset(self, *, name: str | None = None, uri: str | None = None) -> list[EventView]:
        """Those of the asset of that name, or uri."""
        found = [key for key in self._of if isinstance(key, tuple) and (key[0] == name or key[1] == uri)]
        return [view for key in found for view in self._of[key]]

    def for_asset_alias(self, *, name: str) -> list[EventView]:
        """Those that came in by the alias."""
        return self._of.get(name, [])

    def __iter__(self) -> Iterator[Any]:
        for key in self._of:
            yield Asset.model_construct(name=key[0], uri=key[1]) if isinstance(key, tuple) else AssetAlias(name=key)

    def __len__(self) -> int:
        return len(self._of)


def _instant(time: Any) -> Any:
    return pendulum.parse(time) if isinstance(time, str) else time
