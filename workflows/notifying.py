"""Sends a notice, as runs and assets do."""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

from ..activities.notifying import NotifyActivities
from ..model.run.notices import Notice
from .calls import INFRASTRUCTURE

TIMEOUT = timedelta(minutes=2)


async def send_notice(notice: Notice, summary: str) -> dict[str, Any]:
    """Tells whoever is to be told of *notice*, and returns what it has pushed. A failure is logged.

    *summary*: what Temporal's UI shows.
    """
    pushed: dict[str, Any] | None = None
    try:
        pushed = await workflow.execute_activity_method(
            NotifyActivities.notify,
            notice,
            start_to_close_timeout=TIMEOUT,
            retry_policy=INFRASTRUCTURE,
            summary=summary,
        )
    except ActivityError as error:
        workflow.logger.warning("%s could not be told: %s", notice.key, error.cause)
    return pushed or {}
