"""`tidemill variables` and `tidemill connections`: what tasks would find on this host, and what is in the store."""

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import httpx
import typer

from ...activities.secrets import STORED, Connection, Variable, look_up, mask_names, names_of, place_of, store
from ...model.errors import InvalidInputError, SecretStoreError
from ..service.shown_secrets import fields_of
from ..settings.dev_store import use_dev_store
from ..settings.reading import read_settings
from .output import Json, console, fail, make_table, print_json

if TYPE_CHECKING:
    from ...activities.attempts.key_values import KeyValues
    from ...activities.kept import Kind
    from ...activities.store import Store

variables = typer.Typer(no_args_is_help=True, add_completion=False)
connections = typer.Typer(no_args_is_help=True, add_completion=False)

Shown = Annotated[bool, typer.Option("--show", help="Print what is hidden otherwise.")]
TEST_TIMEOUT = 10.0


@variables.command("list")
def list_variables(as_json: Json = False) -> None:
    """List the variables of the environment, the secrets file and the store, by name. A backend's are not known."""
    show_names(found(lambda: names_of("variable", values())), as_json, "VARIABLE")


@variables.command("get")
def get_variable(key: Annotated[str, typer.Argument(help="The variable's name.")]) -> None:
    """Print a variable as a task would get it."""
    typer.echo(variable_of(key))


@variables.command("test")
def test_variable(key: Annotated[str, typer.Argument(help="The variable's name.")]) -> None:
    """Say whether a task would find the variable. Exit code 1 if not."""
    variable_of(key)
    console.print(f"variable {key} is there")


@variables.command("set")
def set_variable(
    key: Annotated[str, typer.Argument(help="The variable's name.")],
    value: Annotated[str, typer.Argument(help="Its value; - reads it from standard input.")],
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
) -> None:
    """Keep a variable in the store, encrypted, or change it there (TIDEMILL_FERNET_KEY)."""
    keep("variable", key, sys.stdin.read() if value == "-" else value, description)


@variables.command("new-key")
def new_key() -> None:
    """Print a new key for the store, to be set as TIDEMILL_FERNET_KEY for the web and for workers."""
    try:
        from cryptography.fernet import Fernet
    except ImportError as error:
        fail(f"{error.name} is not installed: pip install 'tidemill[store]'")
    typer.echo(Fernet.generate_key().decode())


@variables.command("delete")
def delete_variable(key: Annotated[str, typer.Argument(help="The variable's name.")]) -> None:
    """Remove a variable from the store."""
    remove("variable", key)


@connections.command("add")
def add_connection(
    conn_id: Annotated[str, typer.Argument(help="The connection's id.")],
    text: Annotated[str, typer.Argument(help="It, as a URI or a JSON object; - reads it from standard input.")],
    description: Annotated[str | None, typer.Option(help="What it leads to.")] = None,
) -> None:
    """Keep a connection in the store, encrypted, or change it there (TIDEMILL_FERNET_KEY)."""
    text = sys.stdin.read().strip() if text == "-" else text
    read = found(lambda: Connection.read(conn_id, text))
    fields = {**fields_of(read, shown=True), "conn_id": None}
    kept = {name: value for name, value in fields.items() if value not in (None, "", {})}
    keep("connection", conn_id, json.dumps(kept), description)


@connections.command("delete")
def delete_connection(conn_id: Annotated[str, typer.Argument(help="The connection's id.")]) -> None:
    """Remove a connection from the store."""
    remove("connection", conn_id)


def values() -> "KeyValues":
    """Return where tasks keep variables if there is no key."""
    from ...activities.attempts.key_values import KeyValues

    settings = read_settings()
    use_dev_store(settings.home)
    return KeyValues.beside(settings.results_url)


def variable_of(key: str) -> str:
    """Return a variable as a task would get it; one clear line where there is none."""
    text: str | None = found(lambda: look_up("variable", key, values()))
    return found(lambda: Variable.get(key)) if text is None else text


def keep(kind: "Kind", name: str, text: str, description: str | None) -> None:
    """Keep or change what is called *name*."""
    from ...activities.kept import Kept

    there, kept = the_store(), Kept(name, text, description)
    before = place_of(kind, name, values()) or STORED
    if before != STORED:
        fail(f"{kind} {name!r} is in {before}, which goes before the store. Change it there")
    if not found(lambda: there.change(kind, kept)):
        found(lambda: there.add(kind, kept))
    console.print(f"{kind} {name} is kept")


def remove(kind: "Kind", name: str) -> None:
    """Remove what is called *name*."""
    there = the_store()
    if not found(lambda: there.remove(kind, name)):
        fail(f"the store has no {kind} {name!r}. `tidemill {kind}s list` says where each is")
    console.print(f"{kind} {name} is removed")


def the_store() -> "Store":
    """Return the store; without a key it has what tasks have set, and takes nothing new."""
    from ...activities.store import Store

    there: Store | None = found(lambda: store(values()))
    assert there is not None  # noqa: S101
    return there


@connections.command("list")
def list_connections(as_json: Json = False) -> None:
    """List the connections of the environment, the secrets file and the store, by name. A backend's are not known."""
    show_names(found(lambda: names_of("connection")), as_json, "CONNECTION")


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
        answer = httpx.get(connection.url, headers=connection.headers, timeout=TEST_TIMEOUT)
    except httpx.HTTPError as error:
        fail(
            f"connection {conn_id!r}: {connection.url} does not answer: {error}. Correct it, or start what it leads to"
        )
    console.print(f"connection {conn_id}: {connection.url} answers with {answer.status_code}")


def found(look: Callable[[], Any]) -> Any:
    """What *look* finds; one clear line where there is nothing."""
    try:
        return look()
    except (InvalidInputError, SecretStoreError) as error:
        fail(str(error))


def show_names(names: dict[str, str], as_json: bool, column: str) -> None:
    if as_json:
        return print_json(names)
    return console.print(make_table([column, "FROM"], sorted(names.items())))
