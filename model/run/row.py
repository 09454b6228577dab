"""One line of a list of runs: small enough for the memo of the run's workflow."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict

from ..base import Instant, Model
from ..states import RunState

REASON = 200
"""The longest reason that a line keeps."""


def short_reason(reason: str) -> str:
    """The first line of *reason*, as a list shows it."""
    return reason.split("\n")[0][:REASON]


class RunRow(Model):
    """What a list shows of a run. Fields that it does not know are passed over."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    dag_id: str
    run_id: str
    run_type: str = ""
    state: RunState = RunState.RUNNING
    logical_date: Instant | None = None
    run_after: Instant | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    triggered_by: str = ""
    triggering_user_name: str | None = None
    partition_key: str | None = None
    reason: str | None = None
    """Why it has ended as it has, in its first line."""
    counts: dict[str, int] = {}
    """How many task instances are in each state; states without any are left out."""
    workflow_id: str = ""
    problem: str | None = None
    """Why its workflow cannot go on, where its workflow tasks fail. Known to lists alone."""
