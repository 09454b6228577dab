"""The typed way in: registers DAGs, triggers and reads runs, as a program of yours or the CLI does it."""

from __future__ import annotations

from typing import Any

from temporalio.client import Client

from ..service.connection import connect
from ..settings.reading import Settings, read_settings
from .assets import Assets
from .backfills import Backfills
from .bundles import Bundles
from .caller import Caller
from .dags import Dags
from .pools import Pools
from .runs import Runs
from .tasks import Tasks


class Tidemill:
    """Tidemill on a Temporal service: what it has, by noun."""

    def __init__(self, client: Client, task_queue: str = "tidemill", calls: type[Caller] = Caller) -> None:
        self.client = client
        self.task_queue = task_queue
        caller = calls(client, task_queue)
        self.dags = Dags(caller)
        self.runs = Runs(caller)
        self.tasks = Tasks(caller, self.runs)
        self.assets = Assets(caller, self.runs)
        self.backfills = Backfills(caller)
        self.bundles = Bundles(caller)
        self.pools = Pools(caller)

    @classmethod
    async def connect(cls, settings: Settings | None = None, **overrides: Any) -> Tidemill:
        """Connects as Temporal's environment configuration says; *overrides* go to `Client.connect`."""
        settings = settings or read_settings()
        return cls(await connect(**overrides), settings.task_queue)
