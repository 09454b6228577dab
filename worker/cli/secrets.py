"""`tidemill variables` and `tidemill connections`: what tasks would find on this host, with secrets hidden."""

from collections.abc import Callable
from typing import Annotated, Any

import httpx
import typer

from ...activities.secrets import Connection, Variable, mask_names, names_of
from ...model.errors import InvalidInputError
from ..settings import read_settings
from ..shown_secrets import fields_of
from .output import Json, console, fail, make_table, print_json

variables = typer.Typer(no_args_is_help=True, add_completion=False)
connections = typer.Typer(no_args_is_help=True, add_completion=False)

Shown = Annotated[bool, typer.Option("--show", help="Print what is hidden otherwise.")]
TEST_WITHIN = 10.0


@variables.command("list")
def list_variables(as_json: Json = False) -> None:
    """List the variables of this host's environment and secrets file, by name. A backend's are not known."""
    told(names_of("variable"), as_json, "VARIABLE")


@variables.command("get")
def get_variable(key: Annotated[str, typer.Argument(help="The variable's name.")]) -> None:
    """Print a variable as a task would get it."""
    typer.echo(found(lambda: Variable.get(key)))


@variables.command("test")
def test_variable(key: Annotated[str, typer.Argument(help="The variable's name.")]) -> None:
    """Say whether a task would find the variable. Exit code 1 if not."""
    found(lambda: Variable.get(key))
    console.print(f"variable {key} is there")


@connections.command("list")
def list_connections(as_json: Json = False) -> None:
    """List the connections of this host's environment and secrets file, by name. A backend's are not known."""
    told(names_of("connection"), as_json, "CONNECTION")


@connections.command("get")
def get_connection(
    conn_id: Annotated[str, typer.Argument(help="The connection's id.")], shown: Shown = False, as_json: Json = False
) -> None:
    """Print a connection as a task would get it; its password and secret fields are hidden."""
    mask_names(read_settings().masked_names)
    fields = fields_of(found(lambda: Connection.get(conn_id)), shown=shown)
    if as_json:
        return print_json(fields)
    return console.print(make_table(["FIELD", "VALUE"], [(name, value) for name, value in fields.items()]))


@connections.command("test")
def test_connection(conn_id: Annotated[str, typer.Argument(help="The connection's id.")]) -> None:
    """Say whether a task would find the connection; an HTTP one is asked whether it answers. Exit code 1 if not."""
    connection = found(lambda: Connection.get(conn_id))
    if connection.conn_type not in ("http", "https"):
        console.print(f"connection {conn_id} is there; only HTTP connections can be asked whether they answer")
        return
    try:
        answer = httpx.get(connection.url, headers=connection.headers, timeout=TEST_WITHIN)
    except httpx.HTTPError as error:
        fail(
            f"connection {conn_id!r}: {connection.url} does not answer: {error}. Correct it, or start what it leads to"
        )
    console.print(f"connection {conn_id}: {connection.url} answers with {answer.status_code}")


def found(look: Callable[[], Any]) -> Any:
    """What *look* finds; one clear line where there is nothing."""
    try:
        return look()
    except InvalidInputError as error:
        fail(str(error))


def told(names: dict[str, str], as_json: bool, column: str) -> None:
    if as_json:
        return print_json(names)
    return console.print(make_table([column, "FROM"], sorted(names.items())))
