"""One watcher of an asset: what it is looking for, what it has seen, and what it has still to tell."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from ..base import Instant, Model, OmitDefaults, Record
from ..errors import InvalidInputError
from ..sizes import json_size
from ..spec.assets.watchers import Trigger, Watcher
from ..spec.dag import DagSource
from ..workflow_ids import bounded
from .state import WRAPPED_EVENT_LIMIT, ReportedEvent, check_event, short_name

PAGE = 100
"""The most events that one look may bring."""
PAGE_BYTES = 512 * 1024
"""The most that their payloads may have together."""
LONGEST_LOOK = timedelta(minutes=10)
"""After which a look ends that has found nothing, so that no activity is endless."""
AGAIN_FIRST, AGAIN_LAST = timedelta(seconds=5), timedelta(minutes=5)
"""After how long it looks again when it could not."""


def watcher_workflow_id(asset: str, name: str) -> str:
    return bounded(f"watcher:{short_name(asset)}/{name}")


class Watching(OmitDefaults, Model):
    """What a watcher is told to look for; without *watcher* for nothing, since no DAG waits for the asset."""

    asset: str
    name: str
    watcher: Watcher | None = None
    dag_id: str | None = None
    """The DAG in whose file the asset's own classes are."""
    source: DagSource | None = None

    @property
    def trigger(self) -> Trigger | None:
        return self.watcher.trigger if self.watcher is not None else None


class Sighting(OmitDefaults, Model):
    """Something that a watcher has found."""

    key: str | None = None
    """What tells it from others, where its source has a name for it; else its number does."""
    payload: Any = None
    partition_key: str | None = None


class WatchQuestion(OmitDefaults, Model):
    """Look from *position* on. None: from the beginning."""

    watching: Watching
    position: Any = None


class WatchAnswer(OmitDefaults, Model):
    """What was found, and the position behind it; nothing, after a long look. Or why nothing can be seen."""

    found: tuple[Sighting, ...] = ()
    position: Any = None
    moved: bool = False
    """Whether the position is another though nothing was found."""
    error: str | None = None
    gap: str | None = None
    """What may have been missed before this, in words."""


class WatcherView(Model):
    """A watcher as it is shown."""

    asset: str
    name: str
    trigger: Trigger | None
    found: int
    last_found_at: Instant | None
    error: str | None
    """Why it cannot look, while it cannot."""
    gap: str | None = None
    """What it may have missed last."""


class WatcherState(OmitDefaults, Record):
    """What a watcher's workflow knows; travels through continue-as-new."""

    watching: Watching
    position: Any = None
    found: int = 0
    last_found_at: Instant | None = None
    error: str | None = None
    gap: str | None = None
    failures: int = 0
    """How often in a row it could not look."""
    unsent: list[ReportedEvent] = []
    last_trigger: Trigger | None = None
    """What it looked for before it was told to look for nothing."""

    def expect(self, watching: Watching) -> None:
        """Takes on what it is told to look for; something else is looked for from its beginning."""
        before, after = self.watching.trigger or self.last_trigger, watching.trigger
        if before is not None and after is not None and _thing(before) != _thing(after):
            self.position = None
        self.last_trigger = before if after is None else None
        self.watching = watching
        self.error, self.failures = None, 0

    def take(self, answer: WatchAnswer, now: datetime, execution: str) -> timedelta | None:
        """Takes in what a look has brought. After how long to look again; None: at once.

        *execution* tells this watcher from another of its name that was ended: both count from one.
        """
        self.error = answer.error
        if answer.error is not None:
            self.failures += 1
            doubled: int = 2 ** min(self.failures - 1, 10)
            return min(AGAIN_FIRST * doubled, AGAIN_LAST)
        self.failures = 0
        self.gap = answer.gap or self.gap
        if answer.found or answer.moved:
            self.position = answer.position
        if not answer.found:
            return self.watching.trigger.poll_interval if self.watching.trigger is not None else None
        self.last_found_at = now
        self.unsent += self._events_of(answer.found, execution)
        return None

    def _events_of(self, found: Sequence[Sighting], execution: str) -> list[ReportedEvent]:
        events = []
        for one in found:
            self.found += 1
            known_by = one.key if one.key is not None else f"{execution[:8]}#{self.found}"
            events.append(
                ReportedEvent(
                    cause=f"{watcher_workflow_id(self.watching.asset, self.watching.name)} {known_by}",
                    extra={"from_trigger": True, "payload": one.payload},
                    partition_key=one.partition_key,
                )
            )
        return events

    def view(self) -> WatcherView:
        return WatcherView(
            asset=self.watching.asset,
            name=self.watching.name,
            trigger=self.watching.trigger,
            found=self.found,
            last_found_at=self.last_found_at,
            error=self.error,
            gap=self.gap,
        )


def check_sightings(found: Sequence[Sighting]) -> None:
    """Raises InvalidInputError for what the asset would not take, or too much of it."""
    if len(found) > PAGE:
        raise InvalidInputError(f"{len(found)} events were found at a time. Return at most {PAGE}")
    for one in found:
        check_event({"payload": one.payload}, one.partition_key, limit=WRAPPED_EVENT_LIMIT)
    if (size := json_size([one.model_dump(mode="json") for one in found])) > PAGE_BYTES:
        raise InvalidInputError(f"the events have {size:,} bytes together, and may have {PAGE_BYTES:,}. Return fewer")


def _thing(trigger: Trigger) -> dict[str, Any]:
    """What is looked at, however often."""
    return trigger.model_dump(exclude={"poll_interval", "settled_for", "pattern"})
