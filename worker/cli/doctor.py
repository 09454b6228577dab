"""`tidemill doctor`: what is missing here, what separates people and tasks, and what stands still."""

from typing import Annotated

import typer

from ..app.doctor import Check, all_checks
from ..app.security import security_checks
from ..client import Tidemill
from ..supervision.repair import Standing, all_standing, repair
from .home import Home, with_home
from .output import Json, Markup, console, make_table, print_json, run


def doctor(
    security: Annotated[
        bool, typer.Option("--security", help="Say what separates people, teams and tasks here, and what does not.")
    ] = False,
    repairs: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="List the workflows that stand still, and reset those that this brings back, after a question.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --repair: do not ask.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Check Python, Java, Spark and Temporal, and say what to do about what is missing."""
    if repairs:
        _repair(yes=yes, as_json=as_json)
        return
    checks: list[Check] = run(security_checks(with_home(home)) if security else all_checks())
    if as_json:
        print_json(checks)
    else:
        rows = [
            (
                c.name,
                _verdict(c, security=security),
                c.found,
                c.remedy,
            )
            for c in checks
        ]
        console.print(make_table(["", "", "FOUND", "REMEDY"], rows))
    if not all(check.ok or check.is_optional for check in checks):
        raise typer.Exit(1)


def _verdict(check: Check, *, security: bool) -> Markup:
    if check.ok:
        return Markup("[green]ok[/]")
    if check.is_optional:
        return Markup("[yellow]none[/]")
    return Markup(f"[bold red]{'open' if security else 'missing'}[/]")


def _repair(*, yes: bool, as_json: bool) -> None:
    found = run(_standing())
    mendable = [each for each in found if each.reset_to is not None]
    if as_json:
        print_json(found)
    elif not found:
        console.print("no workflow stands still")
    else:
        console.print(make_table(["WORKFLOW", "PROBLEM", "REPAIR"], [_row(each) for each in found]))
    if mendable and (yes or (not as_json and typer.confirm(f"Reset {len(mendable)} workflows?", abort=True))):
        run(_reset(mendable))
        if not as_json:
            console.print(f"{len(mendable)} workflows were reset, and go on")
    if len(mendable) < len(found):
        raise typer.Exit(1)


def _row(standing: Standing) -> tuple[str, str, str]:
    how = f"reset to event {standing.reset_to}" if standing.reset_to is not None else "start workers that can read it"
    return standing.workflow_id, standing.problem, how


async def _standing() -> list[Standing]:
    return await all_standing((await Tidemill.connect()).client)


async def _reset(mendable: list[Standing]) -> None:
    client = (await Tidemill.connect()).client
    for each in mendable:
        await repair(client, each)
