"""Small values that outlive a try: by task instance, and by asset."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from . import OK, Answering, Asking, Message, missing

Scope = Callable[[Asking, Message], dict[str, str]]


def _of_task(asking: Asking, _message: Message) -> dict[str, str]:
    """By task instance, over its tries."""
    return {"of": "task", "task": asking.attempt.path.rpartition("/")[0]}


def _of_asset(_asking: Asking, message: Message) -> dict[str, str]:
    kind = "name" if message.get("name") is not None else "uri"
    return {"of": f"asset_{kind}", "asset": message[kind]}


def _get(scope: Scope, answer: str, error: str) -> Answering:
    def get(asking: Asking, message: Message) -> Message:
        kept = asking.ask(store="get", **scope(asking, message), key=message["key"])
        if not kept.get("found"):
            return missing(error, key=message["key"])
        return {"type": answer, "value": kept["value"]}

    return get


def _set(scope: Scope) -> Answering:
    def put(asking: Asking, message: Message) -> Message:
        expires: Any = message.get("expires_at")
        until = expires.astimezone(UTC).isoformat() if isinstance(expires, datetime) else expires
        values = {"key": message["key"], "value": message["value"], "expires_at": until}
        asking.ask(store="set", **scope(asking, message), **values)
        return OK

    return put


def _delete(scope: Scope) -> Answering:
    def delete(asking: Asking, message: Message) -> Message:
        asking.ask(store="delete", **scope(asking, message), key=message["key"])
        return OK

    return delete


def _clear(scope: Scope) -> Answering:
    def clear(asking: Asking, message: Message) -> Message:
        asking.ask(store="clear", **scope(asking, message))
        return OK

    return clear


def _all(store: str, suffix: str, scope: Scope, error: str) -> dict[str, Answering]:
    return {
        f"Get{store}{suffix}": _get(scope, f"{store}Result", error),
        f"Set{store}{suffix}": _set(scope),
        f"Delete{store}{suffix}": _delete(scope),
        f"Clear{store}{suffix}": _clear(scope),
    }


ANSWERS: dict[str, Answering] = {
    **_all("TaskStateStore", "", _of_task, "TASK_STORE_NOT_FOUND"),
    **_all("AssetStateStore", "ByName", _of_asset, "ASSET_STORE_NOT_FOUND"),
    **_all("AssetStateStore", "ByUri", _of_asset, "ASSET_STORE_NOT_FOUND"),
}
