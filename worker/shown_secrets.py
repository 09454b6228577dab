"""Connections as they may be shown: without what is secret in them."""

from typing import Any

from ..activities.secrets import Connection

HIDDEN = "***"


def fields_of(connection: Connection, *, shown: bool = False) -> dict[str, Any]:
    """The connection's fields, secrets hidden unless *shown*."""
    secrets = set() if shown else set(connection.secrets())
    fields = {name: getattr(connection, name) for name in ("conn_id", "conn_type", "host", "port", "schema", "login")}
    extra = {name: HIDDEN if str(value) in secrets else value for name, value in connection.extra_dejson.items()}
    password = connection.password if shown or connection.password is None else HIDDEN
    return {**fields, "password": password, "extra": extra}
