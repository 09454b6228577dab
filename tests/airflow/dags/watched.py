"""DAGs that run when something arrives which triggers of their own watch, alone and several over one stream."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from airflow.sdk import DAG, Asset, AssetWatcher, task
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

OUT = Path(os.environ.get("TEST_OUT", "/tmp"))


def take(name: str) -> list[str]:
    """The lines of a file that is there then no more."""
    path = OUT / name
    if not path.exists():
        return []
    found = path.read_text().split()
    path.unlink()
    return found


class Arrivals(BaseEventTrigger):
    """Each line of a file is an event; the file is taken away at once, as a message from a queue."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def serialize(self):
        return f"{type(self).__module__}.{type(self).__qualname__}", {"name": self.name}

    async def run(self):
        while True:
            for line in take(self.name):
                seen = await self.asset_state_store.aget("seen") if line == "again" else line
                await self.asset_state_store.aset("seen", line)
                yield TriggerEvent({"line": seen})
            await asyncio.sleep(0.1)


class Shared(Arrivals):
    """Takes the lines for itself out of those of all."""

    def __init__(self, name: str, mine: str) -> None:
        super().__init__(name)
        self.mine = mine

    def serialize(self):
        path, kwargs = super().serialize()
        return path, {**kwargs, "mine": self.mine}

    def shared_stream_key(self):
        return ("arrivals", self.name)

    @classmethod
    async def open_shared_stream(cls, kwargs):
        while True:
            for line in (OUT / kwargs["name"]).read_text().split() if (OUT / kwargs["name"]).exists() else []:
                yield line
            await asyncio.sleep(0.1)

    async def filter_shared_stream(self, shared_stream):
        async for line in shared_stream:
            if line.startswith(self.mine) and not (OUT / f"{self.mine}.heard").exists():
                (OUT / f"{self.mine}.heard").touch()
                yield TriggerEvent(line)


alone = Asset("alone", watchers=[AssetWatcher(name="by a queue", trigger=Arrivals("alone"))])
left = Asset("left", watchers=[AssetWatcher(name="left", trigger=Shared("shared", "left"))])
right = Asset("right", watchers=[AssetWatcher(name="right", trigger=Shared("shared", "right"))])

with DAG("on_arrival", schedule=[alone]):

    @task
    def heard(triggering_asset_events):
        return [event.extra for event in triggering_asset_events[alone]]

    heard()

with DAG("on_both", schedule=[left, right]):

    @task
    def both(triggering_asset_events):
        return sorted(event.extra["payload"] for events in triggering_asset_events.values() for event in events)

    both()
