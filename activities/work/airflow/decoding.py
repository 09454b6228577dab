"""What reads the answers that a task is given: made once, before the first fork."""

from typing import Any

_decoder: list[Any] = []


def keep(made: Any) -> None:
    """Has `decoder` return *made*, a TypeAdapter of all that a task may be answered."""
    _decoder[:] = [made]


def decoder() -> Any:
    """Return what reads the answers. Raises IndexError in a process that has not warmed up."""
    return _decoder[0]
