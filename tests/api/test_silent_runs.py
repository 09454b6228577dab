"""An answer that goes on for a while outlives a run, or a DAG, that is silent for a moment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tidemill.api.routes.grid import get_summaries
from tidemill.api.routes.runs import wait_for_run
from tidemill.model.states import RunState
from tidemill.worker.service.connection import NoWorkerError

BEGUN, ENDED = (SimpleNamespace(run_id="one", state=state) for state in (RunState.RUNNING, RunState.SUCCESS))


class Answers:
    """What the web asks: of *runs* in turn, of which those named in *silent* do not tell their tasks."""

    def __init__(self, *runs: Any, silent: tuple[str, ...] = ()) -> None:
        self._runs, self._silent = list(runs), silent

    async def view(self, _: str) -> None:
        """There is the DAG."""

    async def run(self, _: str, __: str) -> Any:
        found = self._runs.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def details(self, _: str, run: Any) -> None:
        if run.run_id in self._silent:
            raise NoWorkerError("nobody answers")

    run_spec = details

    async def tasks_with_note(self, _: str, __: str) -> set[str]:
        return set()


async def text_of(response: Any) -> list[str]:
    return [str(part) async for part in response.body_iterator]


async def test_the_grid_has_the_runs_that_answer() -> None:
    source = Answers(*(SimpleNamespace(run_id=name) for name in ("a", "b", "c")), silent=("b",))
    lines = await text_of(await get_summaries(cast(Any, source), "d", ["a", "b", "c"]))
    assert [line.split('"')[3] for line in lines] == ["a", "c"]


async def test_who_waits_for_a_run_waits_on_while_nobody_answers() -> None:
    source = Answers(BEGUN, BEGUN, NoWorkerError("a worker is replaced"), ENDED)
    lines = await text_of(await wait_for_run(cast(Any, source), "d", "one", 0.2))
    assert lines == ['{"state": "running"}\n'] * 3 + ['{"state": "success"}\n']
