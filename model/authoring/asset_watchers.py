"""Watchers of assets as DAG files write them: Airflow's AssetWatcher, and what it may look at."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from ..errors import InvalidInputError
from ..spec.assets.watchers import EVERY, AssetTrigger, FilesTrigger, OwnTrigger, Trigger, Watcher


class TriggerEvent:
    """Something that a trigger of one's own has found (Airflow: TriggerEvent).

    *key* tells it from others where its source has a name for it: told twice, it is one event.
    """

    def __init__(self, payload: Any = None, *, key: str | None = None, partition_key: str | None = None) -> None:
        self.payload: Any = payload
        self.key: str | None = key
        self.partition_key: str | None = partition_key


class BaseEventTrigger:
    """A source of events of one's own: a queue, a table, a service. ``poll`` runs in a process of its own.

    ``poll(position)`` returns what has happened after *position*, and the position behind it: plain data, None at
    first. It may wait for a while itself. Both are kept together, once, whatever is killed meanwhile. So whatever
    *position* stands for may be committed at the source only when it is given to the next ``poll``.
    """

    poll_interval: timedelta = EVERY
    """How long to wait after a poll that has found nothing."""

    def poll(self, position: Any) -> tuple[Iterable[TriggerEvent], Any]:
        """Overridden by every trigger."""
        raise NotImplementedError

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.poll is BaseEventTrigger.poll:
            raise InvalidInputError(
                f"class {cls.__name__} has no poll(position). Write one that returns (events, position behind them)"
            )


class AssetWatcher:
    """What looks for events of an asset (Airflow: AssetWatcher).

    *trigger*: ``FilesTrigger(url=...)``, ``AssetTrigger(name=..., namespace=...)`` or a BaseEventTrigger of one's own.
    """

    def __init__(self, name: str, *, trigger: FilesTrigger | AssetTrigger | BaseEventTrigger) -> None:
        self.name: str = name
        self.trigger: FilesTrigger | AssetTrigger | BaseEventTrigger = trigger
        self.leaf: Watcher = Watcher.model_validate({"name": name, "trigger": _as_data(name, trigger)})


def _as_data(name: str, trigger: Any) -> Trigger:
    if isinstance(trigger, FilesTrigger | AssetTrigger):
        return trigger
    if isinstance(trigger, BaseEventTrigger):
        return OwnTrigger(poll_interval=trigger.poll_interval)
    raise InvalidInputError(
        f"watcher {name!r}: trigger = {trigger!r} is none. Give a FilesTrigger, an AssetTrigger or a BaseEventTrigger"
    )
