"""`tidemill dags preview`: the runs to come."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ...activities.dag_files import own_worker_context
from ...activities.timetables import TimetableActivities
from ...model.dag.local_times import LocalRun, by_the_clock
from ...model.dag.ticks import Ticks, TimetableQuery
from ...model.spec.dag import DagSpec
from ...model.spec.timetables.describe import in_words
from ..client import Tidemill
from ..settings.reading import read_settings
from .dag_files import read_path
from .output import Json, Markup, console, fail, instant_text, make_table, print_json, run


def preview(
    target: Annotated[str, typer.Argument(help="A registered DAG's id, or a DAG file.")],
    n: Annotated[int, typer.Option("-n", min=1, max=1000, help="How many runs.")] = 10,
    as_json: Json = False,
) -> None:
    """Show the next runs: logical date, data interval, and when each is due, in UTC and by the local clock."""
    if Path(target).is_file():
        specs, problems = read_path(Path(target))
        if problems:
            fail(problems[0])
        schedules = {spec.dag_id: spec.schedule.model_dump(mode="json") for spec in specs}
        answers = {spec.dag_id: next_runs(spec, n) for spec in specs}
    else:

        async def work() -> tuple[dict[str, Any], Ticks]:
            tidemill = await Tidemill.connect()
            return (await tidemill.dags.describe(target)).schedule, await tidemill.dags.ticks(target, n)

        schedule, ticks = run(work())
        schedules, answers = {target: schedule}, {target: ticks}
    runs = {dag_id: by_the_clock(ticks.infos, schedules[dag_id]) for dag_id, ticks in answers.items()}
    if as_json:
        print_json({dag_id: [_as_json(coming) for coming in coming_runs] for dag_id, coming_runs in runs.items()})
        return
    for dag_id, ticks in answers.items():
        print_coming(dag_id, runs[dag_id], in_words(schedules[dag_id]))
        if ticks.ended:
            console.print(
                f"no run after {len(ticks.infos)}: the schedule ends there" if ticks.infos else "no scheduled run"
            )
        elif len(ticks.infos) < n:
            console.print("the runs after these are not known yet")


def _as_json(coming: LocalRun) -> dict[str, Any]:
    info = coming.info
    local = {"run_after_local": coming.local, "clock_change": coming.clock_change}
    return {"logical_date": info.logical_date, **info.model_dump(), **local}


def print_coming(dag_id: str, runs: Sequence[LocalRun], words: str | None) -> None:
    if words is not None:
        console.print(Markup(f"[bold]{escape(dag_id)}[/]: {escape(words)}"), soft_wrap=True)
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


def next_runs(spec: DagSpec, n: int) -> Ticks:
    """The first *n* runs of a DAG that is not registered. Its own kind of timetable is asked in its own process."""
    question = TimetableQuery(
        timetable=spec.schedule,
        restriction=spec.restriction,
        last=None,
        now=datetime.now(UTC),
        limit=1 if spec.schedule.answers_by_moment else n,
        folder=spec.folder,
        bundle=spec.bundle,
    )
    with own_worker_context(airflow_python=read_settings().airflow_python) as worker_context:
        answer = TimetableActivities(worker_context).ask_timetable(question)
    if answer.error is not None:
        fail(f"DAG {spec.dag_id!r}: timetable: {answer.error}")
    return answer
