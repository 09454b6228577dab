"""`tidemill bundles`: folders and repositories of DAG files that are looked after."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.table import Table

from ...model.bundle.data import BundleSettings, BundleView
from ...model.errors import explain
from ...model.spec.owned import owned_names
from ..client import Tidemill
from .output import Json, Markup, console, fail, instant_text, make_table, run, show

app = typer.Typer(no_args_is_help=True, add_completion=False)
Name = Annotated[str, typer.Argument(help="The bundle's name.")]


@app.command("set")
def set_bundle(
    name: Name,
    path: Annotated[Path, typer.Argument(help="The folder or repository, at the same path on every worker.")],
    git: Annotated[bool, typer.Option("--git", help="It is a Git repository.")] = False,
    ref: Annotated[str | None, typer.Option(help="Of a repository: branch, tag or commit.")] = None,
    subdir: Annotated[str, typer.Option(help="Of a repository: the folder within it.")] = "",
    interval: Annotated[float, typer.Option(help="dag_dir_list_interval, in seconds.")] = 30,
    min_interval: Annotated[float, typer.Option(help="min_file_process_interval, in seconds.")] = 30,
    parsing_processes: Annotated[int, typer.Option(help="How many files are parsed at a time.")] = 2,
    keep_running: Annotated[
        bool, typer.Option("--keep-running", help="DAGs of a broken file go on (on_import_error=keep_running).")
    ] = False,
    regexp: Annotated[bool, typer.Option("--regexp", help=".airflowignore has regular expressions.")] = False,
    all_files: Annotated[
        bool, typer.Option("--all-files", help="Also files without 'dag' and 'airflow' or 'tidemill' in them.")
    ] = False,
    owns: Annotated[
        list[str] | None,
        typer.Option(help="KIND=PREFIX: what names of dag_id, pool, asset, variable or connection begin with; repeat."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a bundle for a folder or repository, or change its settings."""
    try:
        owned = owned_names(owns) if owns else None
    except ValueError as error:
        fail(f"--owns: {error}")
    fields = {
        "name": name,
        "owns": owned,
        "kind": "git" if git else "folder",
        "path": str(path.absolute()),
        "ref": ref,
        "subdir": subdir,
        "dag_dir_list_interval": timedelta(seconds=interval),
        "min_file_process_interval": timedelta(seconds=min_interval),
        "parsing_processes": parsing_processes,
        "on_import_error": "keep_running" if keep_running else "stop",
        "dag_ignore_file_syntax": "regexp" if regexp else "glob",
        "dag_discovery_safe_mode": not all_files,
    }
    try:
        settings = BundleSettings.model_validate(fields)
    except ValidationError as error:
        fail(str(explain(error, f"bundle {name!r}", BundleSettings)))

    async def work() -> BundleView:
        return await (await Tidemill.connect()).bundles.configure(settings)

    view = run(work())
    show([view], as_json, bundles_table([view]))


@app.command("list")
def list_bundles(as_json: Json = False) -> None:
    """List the bundles: how many files and DAGs, what is broken, when they were listed last."""

    async def work() -> list[BundleView]:
        return await (await Tidemill.connect()).bundles.list()

    views = run(work())
    show(views, as_json, bundles_table(views))


@app.command()
def refresh(
    name: Name,
    paths: Annotated[list[str] | None, typer.Argument(help="Files, from the root; all if none are given.")] = None,
    all_removed: Annotated[
        bool, typer.Option("--all-removed", help="Most of the files are gone, and are meant to be.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List and parse now, changed or not. Returns when the DAGs are registered."""

    async def work() -> BundleView:
        return await (await Tidemill.connect()).bundles.refresh(name, paths or [], all_removed=all_removed)

    view = run(work())
    show([view], as_json, bundles_table([view]))


@app.command()
def delete(name: Name) -> None:
    """Stop managing the bundle's files. Their DAGs stay as they are."""

    async def work() -> None:
        await (await Tidemill.connect()).bundles.delete(name)

    run(work())
    console.print(f"bundle {name} is deleted")


def bundles_table(views: list[BundleView]) -> Table:
    rows = [
        (
            view.settings.name,
            view.settings.path + (f"@{view.revision[:10]}" if view.revision else ""),
            view.files,
            view.dags,
            view.stale or "",
            Markup(f"[bold red]{view.errors}[/]") if view.errors else "",
            instant_text(view.listed_at),
            view.problem or "; ".join(view.warnings),
        )
        for view in views
    ]
    return make_table(["BUNDLE", "PATH", "FILES", "DAGS", "STALE", "ERRORS", "LISTED", ""], rows)
