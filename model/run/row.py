"""One line of a list of runs: small enough for the memo of the run's workflow."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict

from ..base import Instant, OmitNewDefaults
from ..states import RunState
from .identity import ListedRun

REASON = 200
"""The longest reason that a line keeps."""


def short_reason(reason: str) -> str:
    """The first line of *reason*, as a list shows it."""
    return reason.split("\n")[0][:REASON]


class RunRow(OmitNewDefaults, ListedRun):
    """What a list shows of a run, its reason in one line. Fields that it does not know are passed over."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    later_fields: ClassVar[tuple[str, ...]] = ("queued_at", "backfill_id")

    dag_id: str
    # What could not be read of a run has none of these.
    # Also one that only the next release has.
    run_type: str = ""  # type: ignore[assignment]
    run_after: Instant | None = None  # type: ignore[assignment]
    state: RunState = RunState.RUNNING
    triggered_by: str | None = ""
    counts: dict[str, int] = {}
    """How many task instances are in each state; states without any are left out."""
    workflow_id: str = ""
    problem: str | None = None
    """Why its workflow cannot go on, where its workflow tasks fail. Known to lists alone."""
