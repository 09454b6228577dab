"""`tidemill dags`, as far as it is about files: registering them, checking them, and how those of bundles are."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ...activities.dag_files import each_dag_file
from ...model.bundle.data import BundleView, FileView
from ...model.dag.previews import Preview
from ...model.dag.views import Change, Registration
from ...model.spec.dag import DagSpec
from ...model.spec.timetables import DagRunInfo
from ..client import Tidemill
from ..local.validation import check_path
from ..settings.reading import read_settings
from .output import Json, Markup, console, errors, fail, instant_text, make_table, print_json, run, show


def register(
    path: Annotated[Path, typer.Argument(help="A DAG file, a folder of them, or a DAG as .json.", exists=True)],
    as_json: Json = False,
) -> None:
    """Register the DAGs of a file or folder, or put their new versions in place."""
    specs, problems = read_path(path)
    for problem in problems:
        errors.print(Markup(f"[bold red]error:[/] {escape(problem)}"), soft_wrap=True)
    if not specs and not problems:
        fail(f"{path} defines no DAG. Write `with DAG(...)` at its top level, or call a function made with @dag")

    async def work() -> list[Registration]:
        tidemill = await Tidemill.connect()
        return [await tidemill.dags.register(spec) for spec in specs]

    done = run(work()) if specs else []
    paused = {spec.dag_id for spec in specs if spec.is_paused_upon_creation}
    rows = [(r.dag_id, r.version, how_registered(r, paused=r.dag_id in paused)) for r in done]
    show(done, as_json, make_table(["DAG", "VERSION", ""], rows))
    if problems:
        raise typer.Exit(1)


def how_registered(done: Registration, *, paused: bool) -> str:
    """What registering it came to; of a new DAG, whether it goes by itself."""
    if done.change is not Change.CREATED:
        return str(done.change)
    return f"created, paused: tidemill dags unpause {done.dag_id}" if paused else "created, runs by its schedule"


def read_path(path: Path) -> tuple[list[DagSpec], list[str]]:
    """The DAGs at *path*, and what is wrong with files that could not be read."""
    settings = read_settings()
    parsed = list(
        each_dag_file(
            path,
            paused_at_creation=settings.dags_are_paused_at_creation,
            airflow_python=settings.airflow_python,
        )
    )
    specs = [spec for file in parsed for spec in file.dags]
    return specs, [f"{file.path}: {file.error}" for file in parsed if file.error is not None]


def validate(
    path: Annotated[Path, typer.Argument(help="A DAG file, a folder of them, or a DAG as .json.", exists=True)],
    as_json: Json = False,
) -> None:
    """Check DAG files without a server: exit code 0 if every one can be registered.

    Of a file that imports `airflow` where there is none, says which names have a counterpart here, and which have none.
    """
    settings = read_settings()
    found = check_path(path, settings.airflow_python, settings.task_environment)
    if as_json:
        print_json(found)
    else:
        for problem in found.errors:
            errors.print(Markup(f"[bold red]error:[/] {escape(f'{problem.path}: {problem.error}')}"), soft_wrap=True)
        for port in found.ports:
            errors.print(Markup(f"[yellow]airflow:[/] {escape(f'{port.path}: {port.port.advice}')}"), soft_wrap=True)
        for notice in found.notices:
            errors.print(Markup(f"[yellow]notice:[/] {escape(f'{notice.path}: {notice.notice}')}"), soft_wrap=True)
        console.print(make_table(["DAG", "VERSION", "FILE"], [(d.dag_id, d.version, d.path) for d in found.dags]))
    if found.errors:
        raise typer.Exit(1)


def diff(
    path: Annotated[Path, typer.Argument(help="A DAG file, or a DAG as .json.", exists=True)], as_json: Json = False
) -> None:
    """Show what registering a file would do to the schedules of its DAGs, without doing it."""
    specs, problems = read_path(path)
    if problems:
        fail(problems[0])

    async def work() -> dict[str, Preview]:
        tidemill = await Tidemill.connect()
        return {spec.dag_id: await tidemill.dags.preview(spec) for spec in specs}

    previews = run(work())
    if as_json:
        print_json(previews)
        return
    for dag_id, found in previews.items():
        console.print(Markup(f"[bold]{dag_id}[/]: {escape(found.transition)}"), soft_wrap=True)
        rows = [
            (*(_interval_text(infos[n]) if n < len(infos) else "" for infos in (found.current, found.proposed)),)
            for n in range(max(len(found.current), len(found.proposed)))
        ]
        console.print(make_table(["NEXT RUNS NOW", "NEXT RUNS THEN"], rows))


def _interval_text(info: DagRunInfo) -> str:
    interval = info.data_interval
    return f"{instant_text(interval.start)} to {instant_text(interval.end)}, run after {instant_text(info.run_after)}"


def list_files(as_json: Json = False) -> None:
    """List the DAG files of every bundle: when they were parsed last, how long that took, their DAGs."""
    files = run(all_files())
    rows = [
        (
            file.bundle,
            file.path,
            len(file.dags),
            instant_text(file.parsed_at),
            "" if file.seconds is None else f"{file.seconds:.2f} s",
            file.parses,
            Markup("[bold red]error[/]") if file.error else "",
        )
        for file in files
    ]
    show(files, as_json, make_table(["BUNDLE", "FILE", "DAGS", "PARSED", "TOOK", "PARSES", ""], rows))


def list_errors(as_json: Json = False) -> None:
    """List what is wrong with DAG files, and with bundles as a whole. Exit code 1 if anything is."""
    views = run(all_bundles())
    broken = [file for file in run(all_files()) if file.error is not None]
    broken += [_folder_of(view) for view in views if view.problem is not None]
    show(broken, as_json, make_table(["BUNDLE", "FILE", "ERROR"], [(f.bundle, f.path, f.error) for f in broken]))
    if broken:
        raise typer.Exit(1)


def _folder_of(view: BundleView) -> FileView:
    """The folder of a bundle that could not be listed, or is not believed, as a line among its files."""
    return FileView(
        bundle=view.settings.name,
        path=view.settings.path,
        dags=(),
        parsed_at=view.listed_at,
        seconds=None,
        parses=0,
        error=view.problem,
    )


async def all_bundles() -> list[BundleView]:
    return await (await Tidemill.connect()).bundles.list()


async def all_files() -> list[FileView]:
    tidemill = await Tidemill.connect()
    return [file for view in await tidemill.bundles.list() for file in await tidemill.bundles.files(view.settings.name)]
