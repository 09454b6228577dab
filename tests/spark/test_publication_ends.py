"""What the run makes of the publication of a table: done, refused, left to a worker with room, or lost on the way."""

import asyncio
from pathlib import Path
from typing import Any

from support import Stack, dag, eventually, stack
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker
from tidemill.activities.names import INFRASTRUCTURE, TASK_FAILED
from tidemill.model.run.attempts import TableAttempt, TaskAttempt
from tidemill.model.run.revisions import ClearRequest, MarkRequest
from tidemill.model.run.task_instances import Failure, Outcome, StagedTable
from tidemill.model.run.views import RunDetails
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import RunState, TaskState
from tidemill.worker.service.converter import ModelsPlugin

LOST = ApplicationError("the worker is lost", type=INFRASTRUCTURE, non_retryable=True)
REFUSAL = Failure(error_type="TableChangedError", message="others have written", retryable=False)
REFUSED = ApplicationError(REFUSAL.message, REFUSAL.model_dump(mode="json"), type=TASK_FAILED, non_retryable=True)
DONE, WITHOUT_ROOM = Outcome(), Outcome(needs_driver=True)
CASES: dict[str, tuple[list[tuple[str, bool, Any]], str | None]] = {
    "publication_done": ([("-spark", False, DONE)], None),
    "publication_by_a_release_before": ([("-spark", False, None)], None),
    "publication_left_to_another": ([("-spark", False, WITHOUT_ROOM), ("-drivers", False, DONE)], None),
    "publication_refused": ([("-spark", False, REFUSED)], "TableChangedError: others have written"),
    "publication_lost_and_published": ([("-spark", False, LOST), ("-spark", True, DONE)], None),
    "publication_lost_and_withdrawn": (
        [("-spark", False, LOST), ("-spark", True, REFUSED)],
        "TableChangedError: others have written",
    ),
    "publication_lost_for_good": (
        [("-spark", False, LOST), ("-spark", True, LOST)],
        "Infrastructure: the worker is lost",
    ),
    "publication_lost_with_its_driver": (
        [
            ("-spark", False, WITHOUT_ROOM),
            ("-drivers", False, LOST),
            ("-spark", True, WITHOUT_ROOM),
            ("-drivers", True, DONE),
        ],
        None,
    ),
}
"""By the case the publications that the run asks for, each by its queue, whether it withdraws, and what comes of it;
and what the try fails with.
"""


STOPPED, DONE_AT_ONCE = "publication_stopped", "publication_done"


class Publications:
    """Workers of Spark tasks that find them done, and of each publication what the case says, by its dag_id."""

    def __init__(self) -> None:
        self.questions: dict[str, list[tuple[str, bool]]] = {case: [] for case in [*CASES, STOPPED]}
        self.tries_cleared: list[int] = []
        """Of the attempts of the first case."""

    @activity.defn(name="tidemill.spark")
    async def run(self, attempt: TaskAttempt) -> Outcome:
        assert attempt.hands_over
        return Outcome(staged_table=StagedTable(table="lake.db.t", branch="b_1_1", family="b_"))

    @activity.defn(name="tidemill.publish_table")
    async def publish(self, question: TableAttempt) -> Outcome | None:
        questions = self.questions[question.attempt.run.dag_id]
        questions.append(("-" + activity.info().task_queue.rpartition("-")[2], question.withdraws))
        if question.attempt.run.dag_id == STOPPED:
            return await self._when_stopped()
        if question.attempt.run.dag_id == DONE_AT_ONCE:
            self.tries_cleared.append(question.attempt.tries_cleared)
            return DONE
        answer: Outcome | ApplicationError | None = CASES[question.attempt.run.dag_id][0][len(questions) - 1][2]
        if isinstance(answer, ApplicationError):
            raise answer
        return answer

    async def _when_stopped(self) -> Outcome:
        """Gives the publication back, as if it had not heard of its stop."""
        try:
            while True:
                activity.heartbeat()
                await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            return WITHOUT_ROOM

    async def workers(self, here: Stack) -> list[Worker]:
        plain = await Client.connect(here.address, plugins=[ModelsPlugin()])
        work: list[Any] = [self.run, self.publish]
        queues = [here.task_queue + suffix for suffix in ("-spark", "-drivers")]
        return [Worker(plain, task_queue=queue, activities=work) for queue in queues]


async def test_what_a_publication_comes_to(server: str, tmp_path: Path) -> None:
    publications = Publications()
    task = {"kind": "spark_sql", "task_id": "load", "sql": "SELECT 1", "table": "lake.db.t"}
    async with stack(server, tmp_path, no_remote_activities=True) as here:
        first, second = await publications.workers(here)
        async with first, second:
            ends = await asyncio.gather(*(here.run_once(dag(case, [task])) for case in CASES))
            await cleared(here, DONE_AT_ONCE, ends[0].run.run_id)
            stopped = await marked(here, dag(STOPPED, [task]), publications)
            history = await here.tidemill.client.get_workflow_handle(ends[0].run.workflow_id).fetch_history()
    # A release before would take what is given back for a success: it stops at the marker before the question.
    events = [str(event) for event in history.events]
    [marker, *_] = [n for n, event in enumerate(events) if "drivers-have-a-queue" in event]
    [question, *_] = [n for n, event in enumerate(events) if '"tidemill.spark"' in event]
    assert marker < question
    assert publications.tries_cleared == [0, 1], "what a cleared task has published before is not the same work"
    publications.questions[DONE_AT_ONCE].pop()
    assert (stopped.state, publications.questions[STOPPED]) == (RunState.FAILED, [("-spark", False)])
    for (case, (answers, failure)), details in zip(CASES.items(), ends, strict=True):
        assert publications.questions[case] == [(queue, withdraws) for queue, withdraws, _ in answers], case
        assert details.tasks[0].error == failure, case
        assert details.state is (RunState.SUCCESS if failure is None else RunState.FAILED), case


async def cleared(here: Stack, dag_id: str, run_id: str) -> None:
    """The run, whose task is cleared, has ended again."""
    await here.tidemill.runs.clear(dag_id, run_id, ClearRequest(tasks=("load",)))
    await eventually(
        lambda: here.tidemill.runs.describe(dag_id, run_id),
        lambda found: found.state.finished and found.tasks[0].try_number == 2,
    )


async def marked(here: Stack, spec: DagSpec, publications: Publications) -> RunDetails:
    """How a run ends whose task is marked while a worker has its publication."""
    await here.tidemill.dags.register(spec)
    run = await here.tidemill.runs.trigger(spec.dag_id)
    await eventually(lambda: asyncio.sleep(0, publications.questions[spec.dag_id]), bool)
    mark = MarkRequest(tasks=("load",), state=TaskState.FAILED)
    await here.tidemill.tasks.mark(spec.dag_id, run.run_id, mark)
    return await here.finished(spec.dag_id, run.run_id)
