"""The demo: a week of real flights, caught up before your eyes, and what came of it."""

import asyncio
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from ...examples import flights
from ...model.run.views import RunDetails, RunView
from ...model.spec.dag import DagSpec
from ...model.states import RunState
from ..app.dev import DevServer
from ..client import Tidemill
from ..service.connection import NotFoundError, NoWorkerError
from .output import Markup, instant_text, make_table, state_text
from .runs import progress_text

DAG_ID = "flights"
REFRESH_SECONDS = 0.5


class Demo:
    """One showing of the demo: follows the runs of the example DAG, then shows the result."""

    def __init__(self, tidemill: Tidemill, server: DevServer, home: Path, console: Console, days: int) -> None:
        self._tidemill = tidemill
        self._server = server
        self._console = console
        self._finished: dict[str, RunDetails] = {}
        self._printed: set[tuple[str, str, str]] = set()
        self.lake = home / "lake"
        os.environ["FLIGHTS_LAKE"] = str(self.lake)
        os.environ["FLIGHTS_DAYS"] = str(days)
        self.dag_file = Path(flights.__file__).with_name("flights.py")

    async def run(self) -> bool:
        """Follows the runs to the last; True if all succeeded."""
        spec = await self._tidemill.dags.spec(DAG_ID)
        expected = expected_runs(spec)
        self._console.print(f"Temporal UI  {self._server.ui}\nTables       {self.lake}\n")
        if self._console.is_terminal:
            with Live(console=self._console, refresh_per_second=4) as live:
                runs = await self._follow(expected, lambda shown: live.update(Group(*shown)))
        else:
            runs = await self._follow(expected, lambda _: None)
        return self._summary(runs)

    async def _follow(self, expected: int, update: Any) -> list[RunView]:
        while True:
            runs = sorted(await self._tidemill.runs.list(DAG_ID), key=lambda run: run.run_after)
            details = [await self._details(run) for run in runs if run.state is not RunState.QUEUED]
            update([run_line(found) for found in details if found is not None])
            if not self._console.is_terminal:
                self._tell_changes([found for found in details if found is not None])
            if len(runs) >= expected and all(run.state.finished for run in runs):
                return runs
            await asyncio.sleep(REFRESH_SECONDS)

    async def _details(self, run: RunView) -> RunDetails | None:
        if run.run_id in self._finished:
            return self._finished[run.run_id]
        try:
            details = await self._tidemill.runs.describe_workflow(run.workflow_id)
        except (NotFoundError, NoWorkerError):
            return None  # about to start, or just behind
        if details.state.finished:
            self._finished[run.run_id] = details
        return details

    def _tell_changes(self, details: list[RunDetails]) -> None:
        """Without a terminal: a line for each change."""
        for found in details:
            for task in found.tasks:
                change = (found.run.run_id, task.task_id, task.state)
                if task.state in ("running", "success", "failed", "up_for_retry") and change not in self._printed:
                    self._printed.add(change)
                    self._console.print(
                        f"{found.run.run_id}  {task.task_id:<10} {task.state}  {task.error or ''}".rstrip()
                    )

    def _summary(self, runs: list[RunView]) -> bool:
        failed = [run for run in runs if run.state is RunState.FAILED]
        for run in failed:
            self._console.print(Markup(f"[bold red]{run.run_id} failed[/]: {escape(str(run.reason))}"))
        reports = [json.loads(path.read_text()) for path in sorted((self.lake / "reports").glob("*.json"))]
        rows = [
            (report["day"], report["flights"], report["cancelled"], f"{report['mean_delay']:.1f} min", worst(report))
            for report in reports
        ]
        self._console.print(make_table(["DAY", "FLIGHTS", "CANCELLED", "MEAN DELAY", "WORST CARRIER"], rows))
        if reports:
            chart = draw_week(reports, self.lake.parent / "week.png")
            self._console.print(
                f"Chart        {chart}\nTables       {self.lake}\nTemporal UI  {self._server.ui}", soft_wrap=True
            )
        return not failed and bool(reports)


def expected_runs(spec: DagSpec) -> int:
    """How many days the demo is about."""
    assert spec.start_date is not None  # noqa: S101 - the example has both
    assert spec.end_date is not None  # noqa: S101
    return (spec.end_date - spec.start_date) // timedelta(days=1) + 1


def run_line(details: RunDetails) -> Text:
    tasks = "   ".join(
        f"{task.task_id} {state_text(task.state)} {progress_text(task)}".strip() for task in details.tasks
    )
    return Text.from_markup(f"[bold]{instant_text(details.run.logical_date)[:10]}[/]  {tasks}")


def worst(report: dict[str, Any]) -> str:
    """The carrier with the highest mean delay of the day."""
    totals: dict[str, tuple[float, int]] = {}
    for group in report["groups"]:
        minutes, flown = totals.get(group["carrier"], (0.0, 0))
        totals[group["carrier"]] = (minutes + group["delay_minutes"], flown + group["flown"])
    means = {carrier: minutes / flown for carrier, (minutes, flown) in totals.items() if flown}
    if not means:
        return ""
    carrier = max(means, key=lambda name: means[name])
    return f"{carrier} ({means[carrier]:.0f} min)"


def draw_week(reports: list[dict[str, Any]], path: Path) -> Path:
    """The week as a picture: flights flown and cancelled, and the mean delay."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    days = [report["day"] for report in reports]
    flown = [report["flights"] - report["cancelled"] for report in reports]
    figure, flights_axis = plt.subplots(figsize=(9, 4.5), layout="constrained")
    flights_axis.bar(days, flown, color="#4c8eb5", label="flown")
    flights_axis.bar(
        days, [report["cancelled"] for report in reports], bottom=flown, color="#d7d7d7", label="cancelled"
    )
    flights_axis.set_ylabel("flights")
    delay_axis = flights_axis.twinx()
    delay_axis.plot(days, [report["mean_delay"] for report in reports], color="#c0392b", marker="o", label="mean delay")
    delay_axis.set_ylabel("mean departure delay, minutes")
    delay_axis.set_ylim(bottom=0)
    flights_axis.set_title("Departures from New York, by day")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
