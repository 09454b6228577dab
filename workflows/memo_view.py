"""What lists show of a workflow, kept in its memo: written where a workflow task happens anyway."""

from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow

from ..model.base import Model

AT_ONCE = 20
"""How often the memo is written without a pause; then once in each `PAUSE`."""
PAUSE = timedelta(seconds=1)

SHOWS_VIEW = "shows_view"
"""In the memo of an execution from its start on: a workflow of a release that keeps a view there has started it."""
FIRST_TASK = 3
"""The event that starts the first workflow task, where nothing else came before it."""


def memo_with_view() -> dict[str, Any]:
    """The memo of the execution that goes on from this one."""
    return {**workflow.memo(), SHOWS_VIEW: True}


class MemoView:
    """The memo `view` of this workflow."""

    def __init__(self) -> None:
        # Release 0.2 writes no view where a client has started the workflow together with a message.
        info = workflow.info()
        self._enabled = SHOWS_VIEW in info.raw_memo or info.get_current_history_length() <= FIRST_TASK
        self._shown: Model | None = None
        self._shown_as_before: Model | None = None
        self._free_at: list[datetime] = []
        self.held_back_until: datetime | None = None
        """When what was held back can be written; None: the memo says what is."""

    def show(
        self, row: Model, *, at_once: bool = False, known_by: Model | None = None, as_before: Model | None = None
    ) -> None:
        """Writes *row*, if it is news, and not too much has been written just now; *at_once*: whatever was.

        *known_by*: the row without what is no news by itself; None: all of it is. *as_before*: the row without the
        fields that release 0.2 did not write: it wrote no others when they changed.
        """
        self.held_back_until = None
        known_by = known_by or row
        if not self._enabled or known_by == self._shown:
            return
        is_new = as_before is None or as_before != self._shown_as_before
        if not is_new:
            workflow.deprecate_patch("memo-newest-run")
        now = workflow.now()
        self._free_at = [at for at in self._free_at if at > now]
        if len(self._free_at) >= AT_ONCE and not at_once:
            self.held_back_until = self._free_at[0]
            return
        self._free_at.append(max([now, *self._free_at[-1:]]) + PAUSE)
        self._shown, self._shown_as_before = known_by, as_before
        workflow.upsert_memo({"view": row.model_dump(mode="json", exclude_defaults=True)})
