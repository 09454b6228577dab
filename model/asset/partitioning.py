"""The partitions of a DAG that are not complete yet: which of their parts are there, and which runs are due."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from hashlib import sha256

from ..base import Instant, Model, Record
from ..spec.assets.condition import Leaf, assets_in, holds
from ..spec.assets.identity import Asset, AssetKey
from ..spec.assets.mappers import Mapper, RollupMapper, listed
from ..spec.assets.partitioned import Partitioned
from .events import AssetEvent

MAX_PENDING = 2000
"""So many partitions may wait for their parts."""
MAX_KEYS = 1000
"""So many partitions one event may be for, where its mapper says nothing of it."""


class Pending(Record):
    """A partition that waits for its parts."""

    key: str
    made_under: str
    """Which mappers it was made by: those of another definition make others of it."""
    events: list[AssetEvent] = []

    def of(self, key: AssetKey) -> list[AssetEvent]:
        """What has come of an asset."""
        return [event for event in self.events if event.key == key]


class TakenPartition(Model):
    """A run for a partition."""

    partition_key: str
    partition_date: Instant | None = None
    events: tuple[AssetEvent, ...] = ()


class Partitioning(Record):
    """A DAG's partitions, oldest first."""

    pending: list[Pending] = []

    def hear(self, event: AssetEvent, schedule: Partitioned, *, paused: bool) -> str | None:
        """Takes note of *event*; why it is for no partition, if it is for none."""
        asset = next((asset for asset in assets_in(schedule.assets) if asset.key == event.key), None)
        if asset is None or paused:
            return None
        if not event.partition_key:
            return f"the event of {event.name} has no partition_key"
        mapper = schedule.mapper_of(asset)
        try:
            keys = listed(mapper.to_downstream(event.partition_key))
        except (ValueError, TypeError, ArithmeticError) as error:
            return f"partition {event.partition_key!r} of {event.name}: {error}"
        if len(keys) > (mapper.max_downstream_keys or MAX_KEYS):
            return f"partition {event.partition_key!r} of {event.name} is for {len(keys)} partitions, which is too many"
        if len(self.pending) + len(keys) > MAX_PENDING:
            return f"{len(self.pending):,} partitions wait for their parts already, and {MAX_PENDING:,} may"
        for key in dict.fromkeys(keys):
            self._open(key, schedule).events.append(event)
        return None

    def _open(self, key: str, schedule: Partitioned) -> Pending:
        made_under = fingerprint(schedule)
        found = next((one for one in self.pending if one.key == key and one.made_under == made_under), None)
        if found is None:
            found = Pending(key=key, made_under=made_under)
            self.pending.append(found)
        return found

    def take(self, schedule: Partitioned, inactive: Collection[AssetKey] = ()) -> Iterator[TakenPartition]:
        """The runs that are due; what they are for waits no more."""
        made_under = fingerprint(schedule)
        self.pending = [one for one in self.pending if one.made_under == made_under]
        for one in [*self.pending]:
            try:
                complete = is_complete(one, schedule, inactive)
            except (ValueError, TypeError, ArithmeticError):  # a key that its mapper cannot read again
                self.pending.remove(one)
                continue
            if complete:
                self.pending.remove(one)
                yield TakenPartition(
                    partition_key=one.key, partition_date=date_of(one, schedule), events=tuple(one.events)
                )


def is_complete(pending: Pending, schedule: Partitioned, inactive: Collection[AssetKey] = ()) -> bool:
    """Whether the condition holds for this one partition."""

    def is_there(leaf: Leaf) -> bool:
        if not isinstance(leaf, Asset) or leaf.key in inactive:
            return False
        there, mapper = pending.of(leaf.key), schedule.mapper_of(leaf)
        if not isinstance(mapper, RollupMapper):
            return bool(there)
        keys = [event.partition_key or "" for event in there]
        return bool(keys) and mapper.wait_policy.is_met(keys, mapper.to_upstream(pending.key))

    return holds(schedule.assets, is_there)


def missing(pending: Pending, schedule: Partitioned) -> dict[str, Sequence[str]]:
    """By asset, the partitions of it that this one still lacks."""
    found: dict[str, Sequence[str]] = {}
    for asset in assets_in(schedule.assets):
        mapper, there = schedule.mapper_of(asset), {event.partition_key for event in pending.of(asset.key)}
        wanted = mapper.to_upstream(pending.key) if isinstance(mapper, RollupMapper) else [pending.key]
        lacking = [key for key in wanted if key not in there] if isinstance(mapper, RollupMapper) or not there else []
        if lacking:
            found[asset.name] = lacking
    return found


def date_of(pending: Pending, schedule: Partitioned) -> datetime | None:
    """The date that the partition is about: as its mappers of time agree, else as its events carried it."""
    keys = {event.key for event in pending.events}
    mappers = [schedule.mapper_of(asset) for asset in assets_in(schedule.assets) if asset.key in keys]
    by_key = {date for mapper in mappers if (date := _decoded(mapper, pending.key)) is not None}
    if by_key:
        return by_key.pop() if len(by_key) == 1 else None
    carriers = {a.key for a in assets_in(schedule.assets) if schedule.mapper_of(a).carries_date}
    carried = {e.partition_date for e in pending.events if e.key in carriers and e.partition_date is not None}
    return carried.pop() if len(carried) == 1 else None


def _decoded(mapper: Mapper, key: str) -> datetime | None:
    try:
        return mapper.partition_date(key)
    except ValueError:
        return None


def fingerprint(schedule: Partitioned) -> str:
    """What tells apart mappers that make different partitions."""
    mappers = [(asset.key, schedule.mapper_of(asset).model_dump_json()) for asset in assets_in(schedule.assets)]
    return sha256(repr(sorted(mappers)).encode()).hexdigest()[:16]
