"""Holds a run's conf against params whose schemas may take for ever, in a child of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...model.spec.params import conf_problem
from ..processes.answers import ConfChecked

if TYPE_CHECKING:
    from .job import Job


def run(job: Job) -> ConfChecked:
    """Why the conf does not fit the params, as `problem`; None there if it does."""
    return ConfChecked(problem=conf_problem(job.request["params"], job.request["conf"], costly=True))
