"""`tidemill dags preview`: the runs to come."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ...activities.dag_files import own_workplace
from ...activities.timetables import TimetableActivities
from ...model.dag.local_times import LocalRun, by_the_clock
from ...model.dag.ticks import TicksQuestion
from ...model.spec.dag import DagSpec
from ...model.spec.timetables import DagRunInfo
from ...model.spec.timetables.words import in_words
from ..client import Tidemill
from .dag_files import read_path
from .output import Json, console, fail, instant_text, make_table, print_json, run


def preview(
    target: Annotated[str, typer.Argument(help="A registered DAG's id, or a DAG file.")],
    n: Annotated[int, typer.Option("-n", min=1, max=1000, help="How many runs.")] = 10,
    as_json: Json = False,
) -> None:
    """Show the next runs: logical date, data interval, and when each is created, in UTC and by the local clock."""
    if Path(target).is_file():
        specs, problems = read_path(Path(target))
        if problems:
            fail(problems[0])
        schedules = {spec.dag_id: spec.schedule.model_dump(mode="json") for spec in specs}
        answers = {spec.dag_id: by_the_clock(next_runs(spec, n), schedules[spec.dag_id]) for spec in specs}
    else:

        async def work() -> tuple[dict[str, Any], list[DagRunInfo]]:
            tidemill = await Tidemill.connect()
            return (await tidemill.describe(target)).schedule, await tidemill.upcoming(target, n)

        schedule, infos = run(work())
        schedules, answers = {target: schedule}, {target: by_the_clock(infos, schedule)}
    if as_json:
        print_json({dag_id: [_as_json(coming) for coming in runs] for dag_id, runs in answers.items()})
        return
    for dag_id, runs in answers.items():
        print_coming(dag_id, runs, in_words(schedules[dag_id]), wanted=n)


def _as_json(coming: LocalRun) -> dict[str, Any]:
    info = coming.info
    local = {"run_after_local": coming.local, "clock_change": coming.clock_change}
    return {"logical_date": info.logical_date, **info.model_dump(), **local}


def print_coming(dag_id: str, runs: Sequence[LocalRun], words: str | None, *, wanted: int) -> None:
    if words is not None:
        console.print(f"[bold]{escape(dag_id)}[/]: {escape(words)}", soft_wrap=True)
    rows = [
        (
            *map(instant_text, (i.logical_date, i.data_interval.start, i.data_interval.end, i.run_after)),
            coming.local + (f"  {coming.clock_change}" if coming.clock_change else ""),
        )
        for coming in runs
        for i in [coming.info]
    ]
    headers = ["LOGICAL DATE", "INTERVAL START", "INTERVAL END", "RUN AFTER", "RUN AFTER, LOCAL"]
    console.print(make_table(headers, rows, title=dag_id))
    if len(runs) < wanted:
        console.print(f"no run after {len(runs)}: the schedule ends there" if runs else "no scheduled run")


def next_runs(spec: DagSpec, n: int) -> list[DagRunInfo]:
    """The first *n* runs of a DAG that is not registered. Its own kind of timetable is asked in its own process."""
    question = TicksQuestion(
        timetable=spec.schedule,
        restriction=spec.restriction,
        last=None,
        now=datetime.now(UTC),
        most=n,
        folder=spec.folder,
        bundle=spec.bundle,
    )
    with own_workplace() as workplace:
        answer = TimetableActivities(workplace).ask_timetable(question)
    if answer.error is not None:
        fail(f"DAG {spec.dag_id!r}: timetable: {answer.error}")
    return list(answer.infos)
