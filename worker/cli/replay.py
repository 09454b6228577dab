"""`tidemill replay`: the decisions of a run or a DAG, from Temporal's history."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from ...model.replay.steps import Step
from ...model.run.identity import dag_workflow_id
from ...model.run.planner import listing
from ..client import Tidemill
from ..pictures.replay import replayed
from .completion import DagId
from .output import Json, Markup, console, instant_text, print_json, run
from .runs import resolve

MAX_NAMED = 10
"""Of those that wait for the same, as many are named; `--json` has all of them, and `--about` one."""


def replay_command(
    dag_id: DagId,
    run_id: Annotated[str | None, typer.Argument(help="The run, or `latest`; none: the DAG's own decisions.")] = None,
    about: Annotated[str | None, typer.Option(help="Only steps that have to do with this task or run.")] = None,
    as_json: Json = False,
) -> None:
    """Tell the decisions of a run or a DAG step by step: what was known, what was decided, why nothing else."""

    async def work() -> list[Step]:
        tidemill = await Tidemill.connect()
        if run_id is None:
            return await replayed(tidemill.client, dag_workflow_id(dag_id))
        view = await resolve(tidemill, dag_id, run_id)
        return await replayed(tidemill.client, view.workflow_id)

    steps = [step for step in run(work()) if about is None or step.concerns(about)]
    if as_json:
        print_json(steps)
        return
    for step in steps:
        print_step(step, about)


def print_step(step: Step, about: str | None = None) -> None:
    learned = ", ".join(step.learned) or "woken"
    place = f"execution {step.execution}, event {step.event_id}"
    console.print(Markup(f"[bold]{instant_text(step.at)}[/]  {escape(learned)}  [dim]{place}[/]"), soft_wrap=True)
    for change in step.decided:
        before = f"{change.before} to " if change.before is not None else ""
        reason = f": {change.reason}" if change.reason else ""
        console.print(
            Markup(f"  [green]{escape(change.about)}[/] {escape(before + change.after + reason)}"), soft_wrap=True
        )
    for order in step.ordered:
        console.print(Markup(f"  [cyan]asks for[/] {escape(order)}"), soft_wrap=True)
    for why, waiting in step.waiting_by_reason().items():
        named = about if about in waiting else listing(waiting, MAX_NAMED)
        console.print(Markup(f"  [yellow]{escape(named)}[/] waits: {escape(why)}"), soft_wrap=True)
