"""One asset for as long as somebody names it: who writes it, who waits for it, and its last events."""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from pydantic import Field

from ..base import Instant, Model, OmitDefaults, Record, Request, iso
from ..errors import InvalidInputError
from ..sizes import json_size
from ..spec.assets.identity import Asset
from ..spec.assets.watchers import Watcher
from ..spec.dag import DagSource
from ..spec.notifiers import Notifier
from .events import AssetEvent, newest_that_fit

EVENTS_KEPT = 100
BYTES_KEPT = 256 * 1024
CAUSES_KEPT = 2000
CARRIED_BYTES = 1024 * 1024
"""Half of what Temporal takes as one payload."""
BYTES_PER_MESSAGE = 64 * 1024
LONGEST_ID = 200
HELD = 1000
"""The most events that are held while the asset is paused; a DAG keeps no more of them either."""
EXTRA_LIMIT = 32 * 1024
WRAPPED_EVENT_LIMIT = EXTRA_LIMIT + 8 * 1024
"""What an event may have that somebody else has wrapped, such as a watcher."""
KEY_LIMIT = 250


def asset_workflow_id(name: str) -> str:
    return f"asset:{short_name(name)}"


def alias_workflow_id(name: str) -> str:
    return f"asset-alias:{short_name(name)}"


def short_name(name: str) -> str:
    """*name*, or where it is longer than ids may be, its beginning and a digest."""
    return name if len(name.encode()) <= LONGEST_ID else f"{name[:40]}-{sha256(name.encode()).hexdigest()[:16]}"


def named_asset(name: str) -> Asset:
    """The asset, or alias, that somebody has only named: the name was looked at where it was written."""
    return Asset.model_construct(name=name, uri=name)


def without_version(source: DagSource) -> DagSource:
    """The bundle and the file, where it is all the same what is in it."""
    return source.model_copy(update={"sha256": "", "snapshot": None})


class Tie(OmitDefaults, Model):
    """What a DAG has to do with an asset."""

    dag_id: str
    consumes: bool = False
    produced_by: tuple[str, ...] = ()
    """The tasks that write it."""
    asset: Asset | None = None
    """What the DAG's file says of it."""
    since: Instant | None = None
    """From when on the DAG wants to know of events that were before; None: of none."""
    waits_since: Instant | None = None
    """Since when it has waited for the asset: what came later counts, as if it had been told at once."""
    source: DagSource | None = None
    """The DAG's file, where something of it is done for the asset."""


class ReportedEvent(OmitDefaults, Request):
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

    def of(self, asset: Asset, timestamp: datetime) -> AssetEvent:
        """Return the update of *asset* that it is."""
        return AssetEvent(name=asset.name, uri=asset.uri, timestamp=timestamp, **self.model_dump(exclude={"asset"}))


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
    is_paused: bool = False
    watchers: tuple[str, ...] = ()
    held: int = 0
    """How many events DAGs will hear of when it is unpaused."""
    dropped: int = 0
    """How many were too many to be held."""
    extra: dict[str, Any] = {}


class Outgoing(Model):
    """An event that a DAG has to be told of; one from before it waited for the asset does not count."""

    cause: str
    history: bool = False


class WantedWatcher(OmitDefaults, Model):
    """A watcher that a DAG which waits for the asset has declared."""

    watcher: Watcher
    dag_id: str
    source: DagSource | None = None


class Lateness(Model):
    """That an asset has become late, for one who is to be told."""

    notifier: Notifier
    dag_id: str
    source: DagSource | None
    since: Instant
    reason: str
    number: int
    """Which of the asset's notices it is."""


class AssetState(OmitDefaults, Record):
    """What an asset's workflow knows; travels through continue-as-new, and so has bounds."""

    asset: Asset
    is_alias: bool = False
    ties: dict[str, Tie] = {}
    numbered: int = 0
    events: list[AssetEvent] = []
    causes: list[str] = []
    """Of the last events, in short: told twice, an event is one."""
    outbox: dict[str, list[Outgoing]] = {}
    """By DAG, what it has not been told yet."""
    unsent: dict[str, AssetEvent] = {}
    """By cause, the events in the outbox."""
    is_paused: bool = False
    held: list[AssetEvent] = []
    """What has come while it was paused, and DAGs have not heard of."""
    dropped: int = 0
    """How many events were too many to be held."""
    notices: int = 0
    watching: dict[str, WantedWatcher] = {}
    """By name, the watchers as they were told last."""
    named_since: Instant | None = None
    """Since when DAGs name it."""
    lateness_sent: bool = Field(False, alias="told_late")
    """Whether those who are to be told know that it is late."""

    def tie(self, tie: Tie, now: datetime) -> None:
        """Takes note of what a DAG has to do with the asset, and tells it of events that it has missed."""
        self.named_since = self.named_since or now
        before = self.ties.get(tie.dag_id)
        if tie.asset is not None:
            self.asset = tie.asset
        if not (tie.consumes or tie.produced_by):
            self.forget(tie.dag_id)
            return
        self.ties[tie.dag_id] = tie
        if tie.asset is not None and tie.asset.watchers:
            self.watching = {}  # told again: one that somebody has ended is begun anew
        if tie.consumes and not (before is not None and before.consumes) and tie.since is not None:
            held = {event.cause for event in self.held}
            for event in self.events:
                if event.timestamp > tie.since and event.cause not in held:
                    waited = tie.waits_since is not None and event.timestamp > tie.waits_since
                    self._queue(tie.dag_id, event, history=not waited)

    def forget(self, dag_id: str) -> None:
        """The DAG has nothing to do with the asset any more, or is gone."""
        self.ties.pop(dag_id, None)
        self.outbox.pop(dag_id, None)
        self._drop_sent()

    def add(self, report: ReportedEvent, now: datetime) -> AssetEvent | None:
        """The event, for all who wait for it; None if it has been told before."""
        short = sha256(report.cause.encode()).hexdigest()[:16]
        if short in self.causes:
            return None
        self.numbered += 1
        event = report.of(report.asset or self.asset, now)
        self.causes = [*self.causes[-CAUSES_KEPT + 1 :], short]
        self.events = newest_that_fit([*self.events, event], EVENTS_KEPT, BYTES_KEPT)
        self.lateness_sent = False
        if self.is_paused:
            kept = newest_that_fit([*self.held, event], HELD, BYTES_KEPT)
            self.dropped += len(self.held) + 1 - len(kept)
            self.held = kept
            return event
        for dag_id in self.consumers:
            self._queue(dag_id, event, history=False)
        return event

    def pause(self, paused: bool) -> None:
        """Holds what comes from now on, or lets the DAGs that wait hear of what was held."""
        self.is_paused = paused
        if not paused:
            for event in self.held:
                for dag_id in self.consumers:
                    self._queue(dag_id, event, history=False)
            self.held = []

    def _queue(self, dag_id: str, event: AssetEvent, *, history: bool) -> None:
        self.outbox.setdefault(dag_id, []).append(Outgoing(cause=event.cause, history=history))
        self.unsent[event.cause] = event

    def next_delivery(self, dag_id: str) -> Delivery | None:
        """What a DAG is to be told next, no more than a message may have; None if nothing.

        An asset is known by its name: who waits for it hears of it under the uri that its own file gives it.
        """
        waiting = self.outbox.get(dag_id, [])
        if not waiting:
            return None
        known_as = self.ties[dag_id].asset if dag_id in self.ties else None
        part: list[AssetEvent] = []
        size = 0
        for one in waiting:
            event = self.unsent[one.cause]
            if known_as is not None and known_as.name == event.name:
                event = event.model_copy(update={"uri": known_as.uri})
            size += json_size(event.model_dump(mode="json"))
            if one.history is not waiting[0].history or (part and size > BYTES_PER_MESSAGE):
                break
            part.append(event)
        return Delivery(events=tuple(part), history=waiting[0].history)

    def delivered(self, dag_id: str, n: int) -> None:
        """The DAG has been told of the first *n* events."""
        del self.outbox.get(dag_id, [])[:n]
        if not self.outbox.get(dag_id):
            self.outbox.pop(dag_id, None)
        self._drop_sent()

    @property
    def fits_a_payload(self) -> bool:
        """Whether all of it may go through continue-as-new."""
        return json_size(self.model_dump(mode="json")) <= CARRIED_BYTES

    def _drop_sent(self) -> None:
        wanted = {one.cause for waiting in self.outbox.values() for one in waiting}
        if len(wanted) < len(self.unsent):
            self.unsent = {cause: event for cause, event in self.unsent.items() if cause in wanted}

    @property
    def consumers(self) -> list[str]:
        """The DAGs that wait for it."""
        return sorted(tie.dag_id for tie in self.ties.values() if tie.consumes)

    @property
    def watchers_need_bundle(self) -> bool:
        """Whether a watcher without code of its own has a bundle."""
        ties = [tie for tie in self.ties.values() if tie.source is not None and tie.asset is not None]
        return any(one.trigger.kind != "own" for tie in ties if tie.asset is not None for one in tie.asset.watchers)

    def watchers_to_tell(self) -> dict[str, WantedWatcher | None]:
        """By name, the watchers that are to look for something else than before, None for nothing; they count as told.

        A watcher looks while a DAG waits for the asset. Where several DAGs declare one of the same name, the first
        of them says what it is.
        """
        wanted: dict[str, WantedWatcher] = {}
        for dag_id in [] if self.is_paused else self.consumers:
            tie = self.ties[dag_id]
            for watcher in tie.asset.watchers if tie.asset is not None else ():
                source = tie.source
                if source is not None and watcher.trigger.kind != "own":  # its version says nothing to these
                    source = without_version(source)
                wanted.setdefault(watcher.name, WantedWatcher(watcher=watcher, dag_id=dag_id, source=source))
        changed: dict[str, WantedWatcher | None] = {
            name: found for name, found in wanted.items() if self.watching.get(name) != found
        }
        changed.update(dict.fromkeys(self.watching.keys() - wanted.keys()))
        self.watching = wanted
        return dict(sorted(changed.items()))

    @property
    def _fresh(self) -> tuple[Tie, timedelta, tuple[Notifier, ...]] | None:
        """Who says how old its newest event may be, and who is told: the first DAG of those that say it."""
        for dag_id in sorted(self.ties):
            asset = self.ties[dag_id].asset
            if asset is not None and asset.freshness is not None:
                return self.ties[dag_id], asset.freshness, asset.on_late
        return None

    @property
    def fresh_until(self) -> datetime | None:
        """When it becomes late unless there is an event; None: never."""
        last, fresh = self.events[-1].timestamp if self.events else self.named_since, self._fresh
        return last + fresh[1] if last is not None and fresh is not None else None

    def next_lateness(self) -> datetime | None:
        """When somebody has to be told that it is late."""
        fresh = self._fresh
        return self.fresh_until if fresh is not None and fresh[2] and not self.lateness_sent else None

    def take_lateness(self, now: datetime) -> list[Lateness]:
        """Whom to tell that it is late; told once, until there is another event."""
        due, fresh = self.next_lateness(), self._fresh
        if due is None or fresh is None or now < due:
            return []
        self.lateness_sent = True
        tie, freshness, notifiers = fresh
        newest = f"its newest event is of {iso(self.events[-1].timestamp)}" if self.events else "it has had no event"
        reason = f"asset {self.asset.name!r} is late: {newest}, and freshness = {freshness}"
        messages = []
        for notifier in notifiers:
            self.notices += 1
            messages.append(
                Lateness(
                    notifier=notifier,
                    dag_id=tie.dag_id,
                    source=tie.source,
                    since=due,
                    reason=reason,
                    number=self.notices,
                )
            )
        return messages

    def view(self, now: datetime) -> AssetView:
        """The asset as it is *now*."""
        last = self.events[-1] if self.events else None
        fresh_until = self.fresh_until
        return AssetView(
            name=self.asset.name,
            uri=self.asset.uri,
            group=self.asset.group,
            producers={tie.dag_id: tie.produced_by for tie in self.ties.values() if tie.produced_by},
            consumers=tuple(self.consumers),
            events=self.numbered,
            last_event=last,
            late_since=fresh_until if fresh_until is not None and fresh_until < now else None,
            is_paused=self.is_paused,
            watchers=tuple(self.watching),
            held=len(self.held),
            dropped=self.dropped,
            extra=self.asset.extra,
        )


def check_event(extra: dict[str, Any], partition_key: str | None, *, limit: int = EXTRA_LIMIT) -> None:
    """Raises InvalidInputError for an event that is too large, or whose key is none."""
    if (size := json_size(extra)) > limit:
        raise InvalidInputError(
            f"extra has {size:,} bytes, and may have {limit:,}. Write it to a file, and give its path"
        )
    if partition_key is not None and (partition_key.isspace() or len(partition_key) > KEY_LIMIT):
        raise InvalidInputError(
            f"partition_key = {partition_key[:60]!r} is blank, or longer than {KEY_LIMIT} characters. Correct it"
        )
