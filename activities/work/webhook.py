"""Posts the facts of a notice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .job import Job


def run(job: Job) -> dict[str, Any]:
    """The same, in a child, from the network that tasks have."""
    return sent(job.request)


def sent(request: dict[str, Any]) -> dict[str, Any]:
    """The `status` of the answer, or the `error` for which there is none."""
    import httpx  # most children need none

    try:
        answer = httpx.post(
            request["url"], json=request["facts"], headers=request["headers"], timeout=request["seconds"]
        )
    except Exception as error:  # of the network, or of an installation that its tasks cannot read
        return {"error": type(error).__name__}
    return {"status": answer.status_code}
