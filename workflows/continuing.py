"""Whether a workflow has to continue as new, found alike by each replay."""

from typing import Any

from temporalio import workflow

RECORDS_SUGGESTION = "records_suggestion"
"""In the memo of an execution that a release has started which records the server's suggestion."""


def successor_memo(**marks: Any) -> dict[str, Any]:
    """The memo of the execution that continues this one; *marks*: what else it has to know."""
    return {**workflow.memo(), RECORDS_SUGGESTION: True, **marks}


class ContinueSuggestion:
    """The server's suggestion to continue as new.

    The SDK says of a workflow task that it was suggested, and may say it of another one on replay, where it takes
    several tasks as one. A workflow that believed it then continued as new where its history does something else, and
    would stand still for ever. So the first time is a marker in history, and counts from there on.
    """

    def __init__(self) -> None:
        self._records = RECORDS_SUGGESTION in workflow.info().raw_memo
        self._is_recorded = False

    def is_made(self) -> bool:
        """Whether the server has suggested it to this execution."""
        info = workflow.info()
        if self._is_recorded or not info.is_continue_as_new_suggested():
            return self._is_recorded
        if not self._records:  # histories of before have no marker
            return True
        # The number makes it a marker of this task alone: an answer of False is kept for the whole execution.
        self._is_recorded = workflow.patched(f"continue-as-new-suggested-{info.get_current_history_length()}")
        return self._is_recorded
