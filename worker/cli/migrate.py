"""`tidemill migrate`: from an Airflow to tidemill."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ..client import Tidemill
from ..migration.bringing import BroughtDag, bring_dags, bring_pools, write_secrets
from ..migration.database import read_database
from ..migration.facts import AirflowFacts
from ..migration.files import CheckedFile, Verdict, causes, check_files
from ..migration.rest import read_api
from ..settings.reading import read_settings
from .output import Json, Markup, console, errors, fail, instant_text, make_table, print_json, run

app = typer.Typer(no_args_is_help=True, add_completion=False)
STYLES = {Verdict.RUNS: "green", Verdict.NEEDS: "yellow", Verdict.CANNOT: "bold red"}


@app.command("check")
def check(
    folder: Annotated[Path, typer.Argument(help="Airflow's folder of DAG files, or one file.", exists=True)],
    as_json: Json = False,
) -> None:
    """Say of each DAG file whether it runs here as it is, what it needs, or why not; exit code 1 if one does not."""
    settings = read_settings()
    found = []
    for file in check_files(folder, settings.airflow_python, settings.task_environment):
        found.append(file)
        if not as_json and file.verdict is not Verdict.NOT_READ:
            errors.print(f"{len(found)}: {file.path}: {file.verdict}", soft_wrap=True)
    if as_json:
        print_json(found)
    else:
        console.print(make_table(["FILE", "", "DAGS", "FOR"], [_row(file) for file in found]))
        for file in found:
            for notice in file.notices:
                errors.print(Markup(f"[yellow]{escape(file.path)}:[/] {escape(notice)}"), soft_wrap=True)
        needed = causes(found)
        for need, count in needed:
            console.print(f"{count} {'file' if count == 1 else 'files'}: {need}", soft_wrap=True)
        if any("Airflow 3" in need for need, _ in needed):
            console.print(f"Most of what Airflow 3 has moved: ruff check --select AIR3 --fix {folder}")
        counts = {verdict: sum(file.verdict is verdict for file in found) for verdict in Verdict}
        console.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    if any(file.verdict in (Verdict.NEEDS, Verdict.CANNOT) for file in found):
        raise typer.Exit(1)


def _row(file: CheckedFile) -> tuple[object, ...]:
    style = STYLES.get(file.verdict)
    verdict = Markup(f"[{style}]{file.verdict}[/]") if style else file.verdict
    return file.path, verdict, ", ".join(file.dags), file.written_for or ""


@app.command("import")
def bring(
    airflow_db: Annotated[
        str | None, typer.Option(envvar="AIRFLOW_DB", help="The URL of Airflow's metadata database.")
    ] = None,
    airflow_api: Annotated[str | None, typer.Option(help="The URL of Airflow's API server.")] = None,
    token: Annotated[
        str | None, typer.Option(envvar="AIRFLOW_API_TOKEN", help="A token for it, of a user who may read everything.")
    ] = None,
    secrets_file: Annotated[
        Path | None, typer.Option(help="The secrets file that variables and connections are added to.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be brought over.")] = False,
    as_json: Json = False,
) -> None:
    """Bring over where schedules stand, pause states, pools, variables, connections of an Airflow that has stopped."""
    facts = _facts(airflow_db, airflow_api, token)

    async def work() -> tuple[list[BroughtDag], list[str]]:
        tidemill = await Tidemill.connect()
        dags = await bring_dags(tidemill, facts, dry_run=dry_run)
        return dags, [] if dry_run else await bring_pools(tidemill, facts)

    dags, pools = run(work())
    new = write_secrets(secrets_file, facts) if secrets_file is not None and not dry_run else 0
    if as_json:
        return print_json({"dags": dags, "pools": pools, "secrets": new, "hidden": list(facts.hidden)})
    rows = [
        (d.dag_id, "paused" if d.is_paused else "", instant_text(d.last_logical_date), instant_text(d.next_run_after))
        for d in dags
        if d.problem is None
    ]
    console.print(make_table(["DAG", "", "LAST RUN OF AIRFLOW", "NEXT RUN AFTER"], rows))
    console.print(f"pools: {', '.join(pools) or 'none'}")
    _tell_of_secrets(facts, secrets_file, new)
    for dag in dags:
        if dag.problem is not None:
            errors.print(Markup(f"[yellow]{escape(dag.dag_id)}:[/] {escape(dag.problem)}"), soft_wrap=True)
    if any(dag.problem is not None for dag in dags):
        raise typer.Exit(1)
    return None


def _facts(database: str | None, api: str | None, token: str | None) -> AirflowFacts:
    if (database is None) == (api is None):
        fail("where is Airflow? Give either --airflow-db URL or --airflow-api URL")
    return read_database(database) if database is not None else read_api(str(api), token)


def _tell_of_secrets(facts: AirflowFacts, path: Path | None, new: int) -> None:
    there = len(facts.variables) + len(facts.connections)
    if path is not None:
        console.print(f"{new} of {there} variables and connections were added to {path}: name it TIDEMILL_SECRETS_FILE")
    elif there:
        console.print(f"{there} variables and connections stay where they are: --secrets-file PATH brings them over")
    if facts.hidden:
        errors.print(
            Markup(f"[yellow]hidden by Airflow's API, to be set by hand:[/] {escape(', '.join(facts.hidden))}"),
            soft_wrap=True,
        )
