"""Variables and connections, as the worker finds and keeps them."""

import json
import logging
from typing import Any

from .....model.errors import InvalidInputError
from ....secrets import mask, secrets_below
from . import OK, Answering, Asking, Message, missing

log = logging.getLogger(__name__)


def _variable(asking: Asking, message: Message) -> Message:
    value = asking.ask(look_up="variable", name=message["key"])["text"]
    if value is None:
        return missing("VARIABLE_NOT_FOUND", key=message["key"])
    return {"type": "VariableResult", "key": message["key"], "value": value}


def _set_variable(asking: Asking, message: Message) -> Message:
    """Keeps a variable; says so in the task's log where something goes before it that nobody would think of."""
    names = ("key", "value", "description")
    answer = asking.ask(store="set", of="variables", **{name: message.get(name) for name in names})
    if (place := answer.get("hidden_by")) is not None:
        log.warning(
            "variable %r is set in %s, which goes before what is kept: that is what is read", message["key"], place
        )
    return OK


def _delete_variable(asking: Asking, message: Message) -> Message:
    asking.ask(store="delete", of="variables", key=message["key"])
    return OK


def _variable_keys(asking: Asking, message: Message) -> Message:
    names = asking.ask(names="variable")["names"]
    found = sorted(name for name in names if name.startswith(message.get("prefix") or ""))
    part = found[message["offset"] : message["offset"] + message["limit"]]
    return {"type": "VariableKeysResult", "keys": part, "total_entries": len(found)}


def _connection(asking: Asking, message: Message) -> Message:
    text = asking.ask(look_up="connection", name=message["conn_id"])["text"]
    if text is None:
        return missing("CONNECTION_NOT_FOUND", conn_id=message["conn_id"])
    try:
        found = _read(message["conn_id"], text)
    except Exception as error:  # the error itself may quote a password
        raise InvalidInputError(
            f"connection {message['conn_id']!r} cannot be read ({type(error).__name__}). Write a URI or a JSON object"
        ) from None
    names = ("conn_id", "conn_type", "host", "schema", "login", "password", "port", "extra")
    return {"type": "ConnectionResult", **{name: getattr(found, name) for name in names}}


def _read(conn_id: str, text: str) -> Any:
    """The connection as Airflow itself reads it. Whatever it raises passes through."""
    from airflow.sdk import Connection

    is_json = text.lstrip().startswith("{")
    found = Connection.from_json(text, conn_id) if is_json else Connection.from_uri(text, conn_id)
    found.conn_type = found.conn_type or "generic"
    extra = json.loads(found.extra) if found.extra else {}  # its own `extra_dejson` asks whom this answers
    for secret in (found.password, *secrets_below(extra)):
        mask(secret)
    return found


def _denied_where_refused(reading: Answering) -> Answering:
    """*reading*, whose refusals are told as denials: of all other errors Airflow's SDK says that nothing is there."""

    def read(asking: Asking, message: Message) -> Message | None:
        try:
            return reading(asking, message)
        except InvalidInputError as error:
            return missing("PERMISSION_DENIED", message=str(error))

    return read


ANSWERS: dict[str, Answering] = {
    "GetVariable": _denied_where_refused(_variable),
    "PutVariable": _set_variable,
    "DeleteVariable": _delete_variable,
    "GetVariableKeys": _variable_keys,
    "GetConnection": _denied_where_refused(_connection),
}
