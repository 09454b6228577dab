"""What a DAG has gathered of the assets that it waits for, and what its next run takes (Airflow: the asset queue).

Airflow's rules, which its users know: an asset is there from its first event on; when the condition holds, one run
takes all that is there, and gathering begins anew. Its `run_after` is when the last of them came; it lists every
event since the run before it up to that moment. What comes later belongs to the next run, and wakes it only with
another event.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from ..base import Instant, Model, Record
from ..spec.assets.condition import Condition, Leaf, assets_in, holds
from ..spec.assets.identity import Asset, AssetAlias, AssetKey
from .events import AssetEvent, is_listed, newest_that_fit, wakes

MOMENT = timedelta(microseconds=1)
MAX_EVENTS, MAX_BYTES = 1000, 256 * 1024
"""So many events are kept for the next run, the newest, and so many bytes of them."""


class Gathered(Model):
    """An asset that is there, since its first event."""

    name: str
    uri: str
    since: Instant

    @property
    def key(self) -> AssetKey:
        return self.name, self.uri


class Unqueue(Model):
    """Which assets no longer count as there for the next run of a DAG."""

    name: str | None = None
    """None: all."""
    before: Instant | None = None
    """Only those that have been there since before it."""


class Reference(Model):
    """Since when the DAG has waited for an asset: without catchup, what was before does not count."""

    name: str
    uri: str
    since: Instant


class Taken(Model):
    """What a run takes."""

    run_after: Instant
    events: tuple[AssetEvent, ...] = ()


class Heard(Model):
    """An event, and when the DAG heard of it: assets are told of in no common order, and none may come too late."""

    event: AssetEvent
    at: Instant


class Gathering(Record):
    """The assets that a DAG waits for, and their events that no run has taken yet."""

    rows: list[Gathered] = []
    heard: list[Heard] = []
    references: list[Reference] = []
    floor: Instant | None = None
    """`run_after` of the last run that assets have triggered: what is no later is done with."""
    links: dict[str, list[AssetKey]] = {}
    """By alias, the assets whose events have ever come in by it."""
    dropped: int = 0
    """How many events were too many to be kept."""
    taken: list[str] = []
    """The causes of the last events that were taken: told again, they are known."""

    def expect(self, condition: Condition | None, now: datetime) -> None:
        """Takes *condition* on, in the place of another: what it does not name any more is forgotten."""
        wanted = [] if condition is None else assets_in(condition)
        keys = {asset.key for asset in wanted}
        known = {(ref.name, ref.uri): ref for ref in self.references}
        gone = {key for key in known if key not in keys}
        self.rows = [row for row in self.rows if row.key not in gone]
        self.references = [
            known.get(asset.key) or Reference(name=asset.name, uri=asset.uri, since=now) for asset in wanted
        ]

    def forget_references(self) -> None:
        """The DAG is in no file: what has been gathered stays, and what it waits for is new when it comes back."""
        self.references = []

    def hear(
        self, event: AssetEvent, condition: Condition | None, *, paused: bool, now: datetime | None = None
    ) -> None:
        """Takes note of *event*, heard of *now*. While the DAG is paused it does not count: the next run lists it.

        One of a partition counts for DAGs with partitions alone.
        """
        at = event.timestamp if now is None else self._after_all_before(now)
        for alias in event.aliases:
            known = self.links.setdefault(alias, [])
            if event.key not in known:
                known.append(event.key)
        if condition is None or event.cause in self.taken or event.cause in {one.event.cause for one in self.heard}:
            return
        if is_listed(condition, event):
            self._keep([*self.heard, Heard(event=event, at=at)])
        counts = event.partition_key is None and not paused and wakes(condition, event)
        if counts and event.key not in {row.key for row in self.rows}:
            self.rows.append(Gathered(name=event.name, uri=event.uri, since=at))

    def _after_all_before(self, now: datetime) -> datetime:
        """*now*, or a moment after what is done with: a clock that stands still, or is set back, loses no event."""
        done = [self.floor, *(reference.since for reference in self.references)]
        return max([now, *(moment + MOMENT for moment in done if moment is not None)])

    def learn(self, events: Sequence[AssetEvent]) -> None:
        """Takes note of events from before the DAG waited for their asset: they may be listed, and do not count."""
        known = {one.event.cause for one in self.heard} | {*self.taken}
        new = [Heard(event=event, at=event.timestamp) for event in events if event.cause not in known]
        self._keep([*new, *self.heard])

    def _keep(self, heard: list[Heard]) -> None:
        """Keeps the newest of *heard*, as many as a DAG's state may have; how many that leaves out is told."""
        kept = newest_that_fit([one.event for one in heard], MAX_EVENTS, MAX_BYTES)
        self.dropped += len(heard) - len(kept)
        self.heard = heard[len(heard) - len(kept) :]

    def is_due(self, condition: Condition | None, inactive: Collection[AssetKey] = ()) -> bool:
        """Whether a run is to be made."""
        return (
            condition is not None and bool(self.rows) and holds(condition, lambda leaf: self.is_there(leaf, inactive))
        )

    def is_there(self, leaf: Leaf, inactive: Collection[AssetKey] = ()) -> bool:
        """Whether an asset, alias or reference is there; a reference means an active asset."""
        keys = [row.key for row in self.rows]
        match leaf:
            case Asset():
                return leaf.key in keys
            case AssetAlias():
                return any(tuple(key) in keys for key in self.links.get(leaf.name, ()))
            case _:
                return any(leaf.means(key) and key not in inactive for key in keys)

    def take(self, condition: Condition, *, catchup: bool, all_of_it: bool = False) -> Taken:
        """What the next run takes; from then on, everything is gathered anew.

        As in Airflow, what came after the first event of each asset is left; or with *all_of_it* it is taken, too.
        """
        until = max(row.since for row in self.rows)
        if all_of_it:
            until = max([until, *(one.at for one in self.heard)])
        taken = Taken(run_after=until, events=tuple(self.listed(condition, until, catchup=catchup)))
        self.rows, self.floor = [], until
        self.heard = [one for one in self.heard if one.at > until]
        self.taken = [*self.taken, *(event.cause for event in taken.events)][-MAX_EVENTS:]
        return taken

    def listed(self, condition: Condition, until: datetime, *, catchup: bool) -> list[AssetEvent]:
        """The events that a run with that run_after lists, oldest first."""
        floor = self.since(catchup=catchup)
        found = [
            one
            for one in self.heard
            if is_listed(condition, one.event) and one.at <= until and (floor is None or self._counts(one, floor))
        ]
        return [one.event for one in sorted(found, key=lambda one: one.at)]

    def _counts(self, heard: Heard, floor: datetime) -> bool:
        """Whether an event came after *floor*, or at the instant of a run that did not take it."""
        return heard.at > floor or (heard.at == self.floor and heard.event.cause not in self.taken)

    def since(self, *, catchup: bool) -> datetime | None:
        """What is no later does not count: the run before, or without catchup when the DAG began to wait."""
        if self.floor is not None or catchup or not self.references:
            return self.floor
        return min(reference.since for reference in self.references)

    def unqueue(self, key: AssetKey | None = None, before: datetime | None = None) -> int:
        """Has an asset, or all of them, count as not there; their events are listed nevertheless.

        Returns how many did.
        """
        kept = [row for row in self.rows if key not in (None, row.key) or (before is not None and row.since >= before)]
        taken = len(self.rows) - len(kept)
        self.rows = kept
        return taken
