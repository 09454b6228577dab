"""Saying how a run or a task has ended moves no time of theirs (as in Airflow); what runs again has times anew."""

from typing import Any

from support import Stack, bash, dag, eventually
from tidemill.model.run.revisions import MarkRequest, RunMark
from tidemill.model.run.views import RunView
from tidemill.model.states import RunState, TaskState


async def times(here: Stack, dag_id: str) -> tuple[Any, ...]:
    view = await here.tidemill.runs.find(dag_id, "r")
    return view.queued_at, view.started_at, view.ended_at


async def marked(here: Stack, dag_id: str, state: RunState) -> RunView:
    await here.finished(dag_id, "r")
    view = await here.tidemill.runs.find(dag_id, "r")
    assert view.state is state
    return view


async def test_a_mark_of_the_run_moves_no_time(here: Stack) -> None:
    details = await here.run_once(dag("run_is_marked", [bash("a", "exit 1")]), run_id="r")
    before = await times(here, "run_is_marked")
    assert None not in before
    assert details.started_at == before[1], "a run has begun when its DAG says"
    for state in (RunState.SUCCESS, RunState.FAILED):
        await here.tidemill.runs.mark("run_is_marked", "r", RunMark(state=state))
        await marked(here, "run_is_marked", state)
        assert await times(here, "run_is_marked") == before


async def test_a_mark_of_a_task_with_nothing_to_resume_moves_no_time(here: Stack) -> None:
    details = await here.run_once(dag("task_is_marked", [bash("a", "exit 1")]), run_id="r")
    before = await times(here, "task_is_marked")
    request = MarkRequest(tasks=("a",), state=TaskState.SUCCESS)
    await here.tidemill.tasks.mark("task_is_marked", "r", request)
    await marked(here, "task_is_marked", RunState.SUCCESS)
    assert await times(here, "task_is_marked") == before
    [old], [new] = details.tasks, (await here.tidemill.runs.describe("task_is_marked", "r")).tasks
    assert (new.started_at, new.ended_at) == (old.started_at, old.ended_at)


async def test_a_mark_that_resumes_what_is_below_has_the_run_begin_anew(here: Stack) -> None:
    await here.run_once(dag("resumed_below", [bash("a", "exit 1"), bash("b", "true", "a")]), run_id="r")
    before = await times(here, "resumed_below")
    await here.tidemill.tasks.mark("resumed_below", "r", MarkRequest(tasks=("a",), state=TaskState.SUCCESS))
    await marked(here, "resumed_below", RunState.SUCCESS)
    assert all(new > old for new, old in zip(await times(here, "resumed_below"), before, strict=True))


async def test_a_run_that_a_person_has_marked_stays_so_when_tasks_are_marked(here: Stack) -> None:
    """In Airflow a mark of a task changes a run's state only where something goes on for it."""
    await here.run_once(dag("stays", [bash("a", "true"), bash("b", "true", "a")]), run_id="r")
    await here.tidemill.runs.mark("stays", "r", RunMark(state=RunState.FAILED))
    await marked(here, "stays", RunState.FAILED)
    before = await times(here, "stays")
    await here.tidemill.tasks.mark("stays", "r", MarkRequest(tasks=("b",), state=TaskState.SKIPPED))

    async def tasks() -> list[str]:
        return [str(task.state) for task in (await here.tidemill.runs.describe("stays", "r")).tasks]

    await eventually(tasks, lambda found: found == ["success", "skipped"])
    assert (await marked(here, "stays", RunState.FAILED)).reason == "marked failed"
    assert await times(here, "stays") == before
