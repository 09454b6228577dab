"""`tidemill health`: whether somebody is there who does the work."""

from __future__ import annotations

from datetime import UTC, datetime

import typer

from ...model.run.planner import listing
from ..client import Tidemill
from ..service.connection import clear_errors
from ..supervision.failing import FailingWorkflow, failing_workflows
from ..supervision.pollers import Poller, pollers_of
from .output import Json, errors, instant_text, make_table, run, show


def health(as_json: Json = False) -> None:
    """Say which workers poll the task queue; the exit code is 1 if there is none (Airflow: jobs check)."""

    async def work() -> tuple[str, list[Poller], list[FailingWorkflow]]:
        tidemill = await Tidemill.connect()
        async with clear_errors(f"task queue {tidemill.task_queue!r}", tidemill.task_queue):
            pollers = await pollers_of(tidemill.client, tidemill.task_queue)
            return tidemill.task_queue, pollers, await failing_workflows(tidemill.client)

    task_queue, pollers, stuck = run(work())
    alive = [poller for poller in pollers if poller.is_alive(datetime.now(UTC))]
    show(alive, as_json, make_table(["WORKER", "LAST SEEN"], [(p.identity, instant_text(p.last_seen)) for p in alive]))
    if stuck:
        names = listing([each.workflow_id for each in stuck])
        errors.print(f"the code of {len(stuck)} workflows fails: {names}. Look at: tidemill doctor")
    if not alive:
        errors.print(f"no worker polls task queue {task_queue}. Start one with: tidemill worker")
        raise typer.Exit(1)
