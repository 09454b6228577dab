"""Whose a DAG is, where a person decides it."""

from ..base import Request

BY_HAND = ""
"""Instead of a bundle's name: the DAG is registered by hand."""


class Assignment(Request):
    """Which bundle alone may register a DAG."""

    bundle: str | None = None
    """The bundle's name; None: no bundle may, the DAG is registered by hand."""
