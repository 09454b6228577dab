"""Callbacks as they are written in a DAG file, and as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..spec.notifiers import CommandNotifier, EmailNotifier, FunctionNotifier, WebhookNotifier

Callback = Callable[..., Any] | CommandNotifier | WebhookNotifier | EmailNotifier | Sequence[Any] | None
"""Who is told: a function that takes the context, a notifier, or several of them."""


def notifiers_of(callbacks: Mapping[str, Callback]) -> dict[str, list[Any]]:
    """*callbacks* as data: a function is named by its place among those of its event."""
    found: dict[str, list[Any]] = {}
    for event, given in callbacks.items():
        functions = 0
        for one in _listed(given):
            if callable(one):
                found.setdefault(event, []).append(FunctionNotifier(number=functions))
                functions += 1
            else:
                found.setdefault(event, []).append(one)
    return found


def functions_of(given: Callback) -> list[Callable[..., Any]]:
    return [one for one in _listed(given) if callable(one)]


def _listed(given: Callback) -> list[Any]:
    if given is None:
        return []
    return [*given] if isinstance(given, list | tuple) else [given]
