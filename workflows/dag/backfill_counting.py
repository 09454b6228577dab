"""Counts the runs of large backfills, a part at a time and beside everything else that their DAG does."""

import asyncio
from collections.abc import Callable

from temporalio import workflow
from temporalio.exceptions import ActivityError

from ...activities.timetables import TimetableActivities
from ...model.dag.backfill_walk import BackfillBatch, BackfillQuestion
from ...model.dag.state import DagState
from ..alarm import Alarm
from ..calls import ask, cause_of


class BackfillCounting:
    """What is still to be counted of a DAG's backfills. Between two parts it may stop: the state says where."""

    def __init__(self, state: DagState, alarm: Alarm, may_go_on: Callable[[], bool]) -> None:
        self._state = state
        self._alarm = alarm
        self._may_go_on = may_go_on
        self._task: asyncio.Task[None] | None = None

    @property
    def under_way(self) -> bool:
        return self._task is not None and not self._task.done()

    def go_on(self) -> None:
        """Counts on, unless there is nothing to count or that is being done."""
        if not self.under_way and self._state.counting_question() is not None:
            self._task = asyncio.create_task(self._count())

    async def _count(self) -> None:
        while self._may_go_on() and (pending := self._state.counting_question()) is not None:
            backfill_id, question = pending
            self._state.count_backfill(backfill_id, await _answer(question), workflow.now())
            self._alarm.fire()


async def _answer(question: BackfillQuestion) -> BackfillBatch:
    try:
        return await ask(TimetableActivities.ask_backfill_part, question)
    except ActivityError as error:
        return BackfillBatch(total=0, error=cause_of(error))
