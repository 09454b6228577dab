"""A simulation as a picture: the runs of each DAG over time, and how much goes on at a time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ...model.errors import InvalidInputError
from ...model.simulation.load import over_time, runs_that_wait, tasks_that_run
from ...model.simulation.simulation import Simulation
from ...model.simulation.spans import RunSpan
from ...model.simulation.summary import summaries
from .gantt import COLOURS, plots

MAX_DAGS = 40
PARTS = 600
WAITS = "#d9d9d9"
MAX_EDGES = 100
"""More bars in a row would show little but their edges; without any, bars of less than a pixel would be left out."""


def draw_simulations(worlds: Mapping[str, Simulation], path: Path) -> None:
    """Writes the picture of *worlds*, side by side, to *path*, as the kind of its suffix says (.png, .svg, .pdf).

    Of many DAGs those are shown whose runs are latest. Raises InvalidInputError where matplotlib is not installed,
    for a suffix that it does not know, and where the file cannot be written.
    """
    plt = plots()
    shown = _latest(worlds)
    height = 1.5 + 0.3 * len(shown) + 2.5
    shape = {"nrows": 2, "ncols": len(worlds), "figsize": (9 * len(worlds), height), "squeeze": False, "sharex": "col"}
    figure, axes = plt.subplots(**shape, gridspec_kw={"height_ratios": [0.3 * len(shown) + 0.5, 2.5]}, sharey="row")
    for n, (name, simulation) in enumerate(worlds.items()):
        _runs(axes[0][n], simulation, shown)
        axes[0][n].set_title(name, loc="left")
        _load(axes[1][n], simulation)
    figure.autofmt_xdate()
    figure.tight_layout()
    try:
        figure.savefig(path)
    except (ValueError, OSError) as error:
        raise InvalidInputError(f"--picture {path}: {error}") from None
    finally:
        plt.close(figure)


def _latest(worlds: Mapping[str, Simulation]) -> list[str]:
    """The DAGs that are shown, by name."""
    delays: dict[str, float] = {}
    for simulation in worlds.values():
        for one in summaries(simulation):
            delays[one.dag_id] = max(one.longest_delay, delays.get(one.dag_id, 0.0))
    return sorted(sorted(delays, key=lambda dag_id: -delays[dag_id])[:MAX_DAGS])


def _runs(axes: Any, simulation: Simulation, shown: list[str]) -> None:
    """A row for each DAG: light where a run waits, in the colour of its state while it is under way."""
    rows = {dag_id: n for n, dag_id in enumerate(shown)}
    bars: dict[tuple[int, float, str], list[tuple[datetime, timedelta]]] = {}
    for run in simulation.runs_of(rows):
        row, start, end = rows[run.dag_id], run.started_at or simulation.end, run.ended_at or simulation.end
        bars.setdefault((row, 0.3, WAITS), []).append((run.run_after, start - run.run_after))
        bars.setdefault((row, 0.7, _colour(run, simulation)), []).append((start, max(end - start, timedelta())))
    for (row, height, colour), spans in bars.items():
        edge = "white" if colour != WAITS and len(spans) <= MAX_EDGES else colour
        axes.broken_barh(spans, (row - height / 2, height), facecolor=colour, edgecolor=edge, linewidth=0.8)
    axes.set_yticks(range(len(shown)), shown)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _colour(run: RunSpan, simulation: Simulation) -> str:
    """A run that misses its deadline is told from others."""
    return COLOURS["up_for_retry"] if run.missed(simulation.end) else COLOURS.get(str(run.state), "#888888")


def _load(axes: Any, simulation: Simulation) -> None:
    step = (simulation.end - simulation.start) / PARTS
    times = [simulation.start + n * step for n in range(PARTS)]
    running = over_time(tasks_that_run(simulation), simulation.start, simulation.end, PARTS)
    waiting = over_time(runs_that_wait(simulation), simulation.start, simulation.end, PARTS)
    axes.fill_between(times, running, step="post", color=COLOURS["running"], alpha=0.7, label="tasks that run")
    axes.step(times, waiting, where="post", color=COLOURS["failed"], label="runs that wait")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
