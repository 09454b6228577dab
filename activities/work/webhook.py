"""Posts the facts of a notice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..processes.answers import Sent

if TYPE_CHECKING:
    from .job import Job


def run(job: Job) -> Sent:
    """The same, in a child, from the network that tasks have."""
    return sent(job.request)


def sent(request: dict[str, Any]) -> Sent:
    """The `status` of the answer, or the `error` for which there is none."""
    import httpx  # most children need none

    try:
        answer = httpx.post(
            request["url"], json=request["facts"], headers=request["headers"], timeout=request["seconds"]
        )
    except Exception as error:  # of the network, or of an installation that its tasks cannot read
        return Sent(error=type(error).__name__)
    return Sent(status=answer.status_code)
