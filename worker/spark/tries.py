"""What the Spark applications of a task's tries came to, beside the last good run's."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...model.run.attempts import attempt_path
from ...model.run.spark_figures import SparkFigures, history_page, rows_of
from ...model.run.views import RunDetails, RunView, TaskView
from ...model.states import RunState, TaskState
from ..service.task_logs import TaskLog
from ..settings.reading import Settings

Read = Callable[[Callable[[], SparkFigures | None]], Awaitable[SparkFigures | None]]

RUNS_LOOKED_AT = 5
"""How many of the runs before it are asked for a good one; of older ones much has changed."""
TRIES_SHOWN = 20
READ_TIMEOUT = 10.0


@dataclass(frozen=True)
class SparkTry:
    """One try's application."""

    try_number: int
    figures: SparkFigures
    page: str | None = None
    """Where the History Server has it."""
    good_run: str | None = None
    """The run that it is compared with."""
    good: SparkFigures | None = None

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """Name, value and comparison of each figure, in words."""
        return [*rows_of(self.figures, self.good)]


async def spark_tries(
    settings: Settings,
    dag_id: str,
    run: RunView,
    view: TaskView,
    runs: Callable[[], Awaitable[Sequence[RunView]]],
    details_of: Callable[[RunView], Awaitable[RunDetails | None]],
    read: Read | None = None,
) -> list[SparkTry]:
    """Return the tries of the instance *view* of *run* whose applications are known, the newest first.

    They are compared with the newest of the DAG's *runs* before in which the task went well (of a few that are asked).
    *read* calls what reads logs' folders or stores, by default in a thread that is not waited for when it takes too
    long. Raises what *details_of* and a store's client raise, and OSError for a store that does not answer.
    """
    read = read or in_a_thread
    numbers = range(view.try_number, max(0, view.try_number - TRIES_SHOWN), -1)
    kept = await asyncio.gather(*(_figures(settings, read, dag_id, run.run_id, view, number) for number in numbers))
    known = [(number, figures) for number, figures in zip(numbers, kept, strict=True) if figures is not None]
    if not known:
        return []
    good = await _last_good(settings, read, dag_id, view, _before(run, await runs()), details_of)
    return [_try(settings, number, figures, good) for number, figures in known]


def _try(settings: Settings, number: int, figures: SparkFigures, good: tuple[str, SparkFigures] | None) -> SparkTry:
    base, application = settings.spark_history_url, figures.application_id
    page = history_page(base, application) if base is not None and application is not None else None
    run_id, before = good if good is not None else (None, None)
    return SparkTry(number, figures, page, run_id, before)


def _before(run: RunView, runs: Iterable[RunView]) -> list[RunView]:
    """Return the runs before *run* that have ended well or whose tasks may have, the newest first."""
    ended = [one for one in runs if one.run_after < run.run_after and one.state in (RunState.SUCCESS, RunState.FAILED)]
    return sorted(ended, key=lambda one: one.run_after, reverse=True)[:RUNS_LOOKED_AT]


async def _last_good(
    settings: Settings,
    read: Read,
    dag_id: str,
    view: TaskView,
    runs: Iterable[RunView],
    details_of: Callable[[RunView], Awaitable[RunDetails | None]],
) -> tuple[str, SparkFigures] | None:
    for run in runs:
        details = await details_of(run)
        for one in details.tasks if details is not None else ():
            if one.key == view.key and one.state is TaskState.SUCCESS:
                found = await _figures(settings, read, dag_id, run.run_id, one, one.try_number)
                if found is not None and found.is_final:
                    return run.run_id, found
    return None


async def _figures(
    settings: Settings, read: Read, dag_id: str, run_id: str, view: TaskView, number: int
) -> SparkFigures | None:
    name = f"{attempt_path(dag_id, run_id, view.task_id, number, view.map_index)}.log"
    return await read(lambda: TaskLog(settings, name).spark)


async def in_a_thread(work: Callable[[], SparkFigures | None]) -> SparkFigures | None:
    """Return what *work* does in a thread of its own, which keeps no process from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[SparkFigures | None] = loop.create_future()

    def settle(result: SparkFigures | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def run() -> None:
        try:
            outcome: tuple[SparkFigures | None, BaseException | None] = (work(), None)
        except Exception as error:
            outcome = (None, error)
        with suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, daemon=True).start()
    try:
        return await asyncio.wait_for(done, READ_TIMEOUT)
    except TimeoutError:
        raise OSError(f"the store of logs has not answered within {READ_TIMEOUT:g} s") from None
