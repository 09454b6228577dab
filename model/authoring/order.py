"""Words that put many tasks in order at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..errors import InvalidInputError
from .links import lasts


def chain(*steps: Any) -> None:
    """Puts *steps* in order: each a task or a list; lists of one length are linked pairwise (as Airflow's chain)."""
    for first, second in pairwise(steps):
        if isinstance(first, Sequence) and isinstance(second, Sequence):
            if len(first) != len(second):
                raise InvalidInputError(
                    f"chain: a list of {len(first)} tasks is followed by one of {len(second)}. "
                    "Use lists of one length, or put a single task between them"
                )
            for above, below in zip(first, second, strict=True):
                link(above, below)
        else:
            link(first, second)


def chain_linear(*steps: Any) -> None:
    """Puts *steps* in order, each a task or a list: every task of a step follows every one of the step before."""
    for first, second in pairwise(steps):
        link(first, second)


def cross_downstream(from_tasks: Sequence[Any], to_tasks: Sequence[Any]) -> None:
    """Makes every one of *to_tasks* downstream of every one of *from_tasks*."""
    link(from_tasks, to_tasks)


def link(above: Any, below: Any) -> None:
    for node in lasts(above):
        node.set_downstream(below)
