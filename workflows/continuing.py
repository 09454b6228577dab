"""Whether a workflow has to continue as new, found alike by each replay."""

from temporalio import workflow

from .memo_view import MemoView


class ContinueSuggestion:
    """The server's suggestion to continue as new.

    The SDK says of a workflow task that it was suggested, and may say it of another one on replay, where it takes
    several tasks as one. A workflow that believed it then continued as new where its history does something else, and
    would stand still for ever. So the first time is a marker in history, and counts from there on.
    """

    def __init__(self, acted_on: str, memo: MemoView) -> None:
        """*acted_on*: the marker that workers of release 0.2 write when they act on the suggestion."""
        self._acted_on = acted_on
        self._memo = memo
        self.is_recorded = False
        """Whether a marker says that it was made: then workers of 0.2 and later do the same about it."""

    def is_made(self) -> bool:
        """Return whether the server has suggested it to this execution."""
        info = workflow.info()
        if self.is_recorded or not info.is_continue_as_new_suggested():
            return self.is_recorded
        # The number makes it a marker of this task alone: an answer of False is kept for the whole execution.
        number = info.get_current_history_length()
        self.is_recorded = workflow.patched(f"continue-as-new-suggested-{number}") or workflow.patched(self._acted_on)
        # Of release 0.1, which kept no view, there is neither. Who asked for another marker here would ask too early.
        return self.is_recorded or not self._memo.is_kept
