"""`tidemill simulate`: what DAGs will do over a time, without a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ...model.base import iso
from ...model.errors import InvalidInputError
from ...model.simulation.assumptions import Assumptions
from ...model.simulation.load import peak, pools_used, tasks_that_run, tasks_that_wait
from ...model.simulation.simulate import simulate
from ...model.simulation.simulation import Simulation
from ...model.simulation.summary import DagSummary, summaries
from ..pictures.simulation import draw_simulations
from ..pictures.simulation_input import SimulationInput, simulation_input
from .dag_files import read_path
from .output import Json, Markup, console, errors, fail, instant_text, make_table, print_json, read_instant, run
from .what_if import HOW, Assumed, with_changes

NAMED = "DAG.TASK=VALUE; without a name it is for all others."
Texts = list[str] | None


def simulate_command(
    path: Annotated[
        Path | None,
        typer.Argument(help="A DAG file, a folder of them, or a DAG as .json; none: what is registered.", exists=True),
    ] = None,
    start: Annotated[str | None, typer.Option("--from", help="When it begins; now by default.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="When it ends; a day later by default.")] = None,
    dag: Annotated[Texts, typer.Option(help="Only this DAG; may be given several times.")] = None,
    duration: Annotated[Texts, typer.Option(help=f"Seconds that a try takes: {NAMED} 60 by default.")] = None,
    fails: Annotated[Texts, typer.Option(help="How many tries of a task fail in each run: DAG.TASK=VALUE.")] = None,
    mapped: Annotated[Texts, typer.Option(help="How many instances a mapped task has: DAG.TASK=VALUE.")] = None,
    pool: Annotated[Texts, typer.Option(help="How many slots a pool has: NAME=SLOTS.")] = None,
    slots: Annotated[int | None, typer.Option(min=1, help="Tasks that all workers together run at a time.")] = None,
    downtime: Annotated[Texts, typer.Option(help="When no worker runs: FROM/TO.")] = None,
    what_if: Annotated[Texts, typer.Option(help=f"A change to compare with; several make one world. {HOW}.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw it, as a file that ends in .png, .svg or .pdf: runs, and the load.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what DAGs will do over a time: runs, delays, queues. Nothing is run."""
    problems: list[str] = []
    known = SimulationInput()
    if path is not None:
        specs, problems = read_path(path)
    else:
        known = run(simulation_input(set(dag or ())))
        specs = known.specs
        for dag_id, reason in known.left_out.items():
            errors.print(Markup(f"[yellow]note:[/] {dag_id} is left out: {escape(reason)}"), soft_wrap=True)
    for problem in problems:
        errors.print(Markup(f"[bold red]error:[/] {escape(problem)}"), soft_wrap=True)
    chosen = [spec for spec in specs if not dag or spec.dag_id in dag]
    there = {spec.dag_id for spec in specs} | {*known.dag_ids}
    if unknown := sorted({*(dag or ())} - there):
        fail(f"--dag {unknown[0]!r}: there is no such DAG. There are: {', '.join(sorted(there)) or 'none'}")
    if not chosen:
        fail("there is no DAG to simulate")
    begin = read_instant(start, "--from") if start is not None else datetime.now(UTC).replace(microsecond=0)
    until = read_instant(end, "--to") if end is not None else begin + timedelta(days=1)
    try:
        assumed = Assumed(
            duration=tuple(duration or ()),
            fails=tuple(fails or ()),
            mapped=tuple(mapped or ()),
            pool=tuple(pool or ()),
            slots=None if slots is None else str(slots),
            downtime=tuple(downtime or ()),
        )
        worlds = {"as it is": (chosen, assumed)}
        if what_if:
            worlds[", ".join(what_if)] = with_changes(chosen, assumed, what_if)
        for members, each in worlds.values():
            each.check_names(members)
        taken = {name: (members, each.assumptions(known)) for name, (members, each) in worlds.items()}
        found = {name: simulate(members, begin, until, each) for name, (members, each) in taken.items()}
        if as_json:
            print_json([{"world": name, **_as_json(found[name], each)} for name, (_, each) in taken.items()])
        else:
            _show(found, {name: each for name, (_, each) in taken.items()})
        if picture is not None:
            draw_simulations(found, picture)
    except InvalidInputError as error:
        fail(str(error))
    except OverflowError:
        fail("--from, --to: so far from now there are no dates. Choose a nearer time")
    if problems:
        raise typer.Exit(1)


def _as_json(simulation: Simulation, taken: Assumptions) -> dict[str, Any]:
    return {
        "start": iso(simulation.start),
        "end": iso(simulation.end),
        "dag_ids": simulation.dag_ids,
        "runs": [run.model_dump(mode="json") for run in simulation.runs],
        "tries": [one.model_dump(mode="json") for one in simulation.tries],
        "notes": simulation.notes,
        "dags": [s.model_dump(mode="json") for s in summaries(simulation)],
        "pools": [p.model_dump(mode="json") for p in pools_used(simulation, dict(taken.pools))],
        "workers": {
            "slots": taken.worker_slots,
            "most_tasks": peak(tasks_that_run(simulation)),
            "most_waiting": peak(tasks_that_wait(simulation)),
        },
    }


def _show(found: dict[str, Simulation], taken: dict[str, Assumptions]) -> None:
    counts = ["RUNS", "FAILED", "UNFINISHED", "MISSED DEADLINE"]
    columns = ["DAG", *counts, "LONGEST DELAY", "MEAN DELAY", "MOST QUEUED", "MOST TASKS", "END"]
    for name, simulation in found.items():
        rows = [_row(summary) for summary in summaries(simulation)]
        title = f"{name}: {instant_text(simulation.start)} to {instant_text(simulation.end)}"
        console.print(make_table(columns, rows, title=escape(title)))
        limits: list[tuple[object, ...]] = [
            (f"pool {p.pool}", p.slots or "unlimited", p.max_tasks, p.max_waiting)
            for p in pools_used(simulation, dict(taken[name].pools))
        ]
        if (slots := taken[name].worker_slots) is not None:
            limits.append(
                ("workers", slots, peak(tasks_that_run(simulation)), peak(tasks_that_wait(simulation))),
            )
        if limits:
            console.print(make_table(["LIMIT", "SLOTS", "MOST TASKS", "MOST WAITING"], limits))
        for note in simulation.notes:
            errors.print(Markup(f"[yellow]note:[/] {escape(note)}"), soft_wrap=True)


def _row(one: DagSummary) -> tuple[object, ...]:
    longest, mean = (str(timedelta(seconds=round(seconds))) for seconds in (one.longest_delay, one.mean_delay))
    counts = (one.runs, one.failed, one.unfinished, one.missed_deadlines)
    return (one.dag_id, *counts, longest, mean, one.max_queued, one.max_tasks, instant_text(one.last_end))
