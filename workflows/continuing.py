"""Whether a workflow has to continue as new, found alike by each replay."""

from temporalio import workflow


class ContinueSuggestion:
    """The server's suggestion to continue as new.

    The SDK says of a workflow task that it was suggested, and may say it of another one on replay, where it takes
    several tasks as one. A workflow that believed it then continued as new where its history does something else, and
    would stand still for ever. So the first time is a marker in history, and counts from there on.
    """

    def __init__(self) -> None:
        self._is_recorded = False

    def is_made(self) -> bool:
        """Return whether the server has suggested it to this execution."""
        info = workflow.info()
        if self._is_recorded or not info.is_continue_as_new_suggested():
            return self._is_recorded
        # The number makes it a marker of this task alone: an answer of False is kept for the whole execution.
        number = info.get_current_history_length()
        self._is_recorded = workflow.patched(f"continue-as-new-suggested-{number}")
        return self._is_recorded
