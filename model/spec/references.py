"""How an argument in JSON says "the result of that task", and what can be done with such words."""

from collections.abc import Callable, Iterator
from typing import Any

XCOM_REFERENCE = "$xcom"
RETURN_VALUE = "return_value"
LENGTH = "length"
"""In a reference: that not the values are meant, but how many there are."""
MAPPED = "$map"
"""In a task of a mapped group: the argument of that name of the group."""
ZIP = "$zip"
FILL = "fillvalue"
CONCAT = "$concat"
STORED = "$stored"


def xcom_reference(task_id: str, key: str = RETURN_VALUE) -> dict[str, str]:
    """The result *key* of *task_id*."""
    return {XCOM_REFERENCE: task_id, "key": key}


def is_xcom_reference(value: Any) -> bool:
    return isinstance(value, dict) and XCOM_REFERENCE in value


def stored_reference(url: str, size: int, length: int | None) -> dict[str, Any]:
    """A result of *size* bytes that is kept at *url*; *length* is how many values it has, if it is a list or dict."""
    return {STORED: url, "size": size, "length": length}


def is_stored(value: Any) -> bool:
    return isinstance(value, dict) and STORED in value


def referenced_tasks(value: Any) -> Iterator[str]:
    """The tasks whose results *value* names."""
    if is_xcom_reference(value):
        yield value[XCOM_REFERENCE]
    for part in parts(value):
        yield from referenced_tasks(part)


def texts(value: Any) -> Iterator[str]:
    """Every text in *value*."""
    if isinstance(value, str):
        yield value
    for part in parts(value):
        yield from texts(part)


def parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value


def replace(value: Any, wanted: Callable[[Any], bool], found: Callable[[Any], Any]) -> Any:
    """*value* with every part that is *wanted* replaced by what is *found* for it."""
    if wanted(value):
        return found(value)
    if isinstance(value, dict):
        return {key: replace(part, wanted, found) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [replace(part, wanted, found) for part in value]
    return value
