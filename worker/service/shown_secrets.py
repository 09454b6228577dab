"""Connections as they may be shown: without what is secret in them."""

from typing import Any

from ...activities.masking import Masker
from ...activities.secrets import Connection

HIDDEN = "***"


def fields_of(connection: Connection, *, shown: bool = False) -> dict[str, Any]:
    """The connection's fields, secrets hidden unless *shown*."""
    secrets = set() if shown else {str(secret) for secret in connection.secrets() if secret is not None}
    fields = {name: getattr(connection, name) for name in ("conn_id", "conn_type", "host", "port", "schema", "login")}
    password = connection.password if shown or connection.password is None else HIDDEN
    extra = _hidden(connection.extra_dejson, secrets, Masker(secrets))
    return {**fields, "schema": _hidden(connection.schema, secrets, Masker()), "password": password, "extra": extra}


def _hidden(value: Any, secrets: set[str], masker: Masker) -> Any:
    """*value* without *secrets*, however deep they are; *masker* finds them within texts, such as JSON in a field."""
    if isinstance(value, dict):
        return {name: _hidden(part, secrets, masker) for name, part in value.items()}
    if isinstance(value, list):
        return [_hidden(part, secrets, masker) for part in value]
    if value is not None and str(value) in secrets:
        return HIDDEN
    return masker.masked(value) if isinstance(value, str) else value
