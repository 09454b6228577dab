"""Variables and connections: those that tasks have set, then those of the worker's backends."""

import json
from typing import Any

from ....secrets import look_up, mask, secrets_below
from . import OK, Answering, Asking, Message, missing


def _variable(asking: Asking, message: Message) -> Message:
    key = message["key"]
    kept = asking.worker.ask(store="get", of="variables", key=key)
    value = kept["value"] if kept.get("found") else look_up("variable", key)
    if value is None:
        return missing("VARIABLE_NOT_FOUND", key=key)
    return {"type": "VariableResult", "key": key, "value": value}


def _set_variable(asking: Asking, message: Message) -> Message:
    asking.worker.ask(store="set", of="variables", key=message["key"], value=message["value"])
    return OK


def _delete_variable(asking: Asking, message: Message) -> Message:
    asking.worker.ask(store="delete", of="variables", key=message["key"])
    return OK


def _variable_keys(asking: Asking, message: Message) -> Message:
    names = {*asking.worker.ask(store="keys", of="variables")["keys"], *asking.worker.ask(names="variable")["names"]}
    found = sorted(name for name in names if name.startswith(message.get("prefix") or ""))
    part = found[message["offset"] : message["offset"] + message["limit"]]
    return {"type": "VariableKeysResult", "keys": part, "total_entries": len(found)}


def _connection(_asking: Asking, message: Message) -> Message:
    text = look_up("connection", message["conn_id"])
    if text is None:
        return missing("CONNECTION_NOT_FOUND", conn_id=message["conn_id"])
    try:
        found = _read(message["conn_id"], text)
    except Exception as error:  # the error itself may quote a password
        reason = (
            f"connection {message['conn_id']!r} cannot be read ({type(error).__name__}). Write a URI or a JSON object"
        )
        return missing("GENERIC_ERROR", message=reason)
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


ANSWERS: dict[str, Answering] = {
    "GetVariable": _variable,
    "PutVariable": _set_variable,
    "DeleteVariable": _delete_variable,
    "GetVariableKeys": _variable_keys,
    "GetConnection": _connection,
}
