"""Connections, variables and extras as they may be shown: without what is secret in them."""

import json
from typing import Any

from ...activities.masking import Masker
from ...activities.secrets import Connection, is_sensitive

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


def without_secrets(value: Any, name: str = "") -> Any:
    """Return *value*, which is called *name*, without what has the name of a secret, however deep (Airflow: redact)."""
    return _of_secret_name(value, hides=is_sensitive(name))


def _of_secret_name(value: Any, *, hides: bool) -> Any:
    if isinstance(value, dict):
        parts = value.items()
        return {name: _of_secret_name(part, hides=hides or is_sensitive(str(name))) for name, part in parts}
    if isinstance(value, list | tuple):
        return [_of_secret_name(part, hides=hides) for part in value]
    return HIDDEN if hides and value is not None else value


def text_without_secrets(text: str, name: str) -> str:
    """Return the text of a variable as it is shown: as it is, or as JSON without what is secret in it."""
    if is_sensitive(name):
        return HIDDEN
    try:
        value = json.loads(text)
    except ValueError:
        return text
    shown = without_secrets(value)
    return text if shown == value else json.dumps(shown, indent=2)


def with_what_was_hidden(new: Any, shown: Any, known: Any) -> Any:
    """Return *new*, where what comes back as it was *shown* is what is *known*, however deep."""
    if isinstance(new, dict) and isinstance(shown, dict) and isinstance(known, dict):
        return {name: with_what_was_hidden(part, shown.get(name), known.get(name)) for name, part in new.items()}
    if isinstance(new, list) and isinstance(shown, list) and isinstance(known, list) and len(new) == len(known):
        return [with_what_was_hidden(*parts) for parts in zip(new, shown, known, strict=True)]
    if new == HIDDEN and known is None:
        return None  # nothing was hidden there
    return known if new == shown and known is not None else new
