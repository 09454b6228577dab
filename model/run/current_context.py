"""The context of the task that is running in this thread of control."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_context: ContextVar[dict[str, Any] | None] = ContextVar("tidemill_context", default=None)


def get_current_context() -> dict[str, Any]:
    """The context of the task that is running. Raises RuntimeError outside of one (as in Airflow)."""
    current = _context.get()
    if current is None:
        raise RuntimeError("get_current_context() is only for the inside of a running task. Call it there")
    return current


@contextmanager
def running(values: dict[str, Any]) -> Iterator[None]:
    """Makes *values* what `get_current_context` answers."""
    token = _context.set(values)
    try:
        yield
    finally:
        _context.reset(token)
