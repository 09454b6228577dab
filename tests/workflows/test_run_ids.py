"""What scheduled runs of interval timetables are called, and that another name makes no run twice and loses none."""

from pathlib import Path

from support import Stack, dag, empty, eventually, sharing, stack
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.states import RunState

DAILY = {"schedule": "@daily", "start_date": "2024-01-01T00:00:00Z", "catchup": True}


def ids(begin: int, end: int) -> list[str]:
    return [f"scheduled__2024-01-{day:02}T00:00:00+00:00" for day in range(begin, end + 1)]


async def made(here: Stack, until: int) -> list[str]:
    """The run_ids of January up to *until*, by date, once those runs have ended."""
    await here.tidemill.dags.register(dag("named", [empty("a")], end_date=f"2024-01-{until:02}T00:00:00Z", **DAILY))
    runs = await eventually(
        lambda: here.tidemill.runs.list("named"),
        lambda found: len(found) >= until and all(run.state is RunState.SUCCESS for run in found),
    )
    dates = [run.logical_date for run in runs]
    assert len(dates) == len({*dates}) == until
    return [run.run_id for run in sorted(runs, key=lambda run: run.run_after)]


async def test_the_name_is_of_the_start_or_of_run_after(server: str, tmp_path: Path) -> None:
    place = sharing(WorkerContext(home=tmp_path))
    async with stack(server, tmp_path, place=place) as here:
        assert await made(here, 2) == ids(1, 2)
        object.__setattr__(place, "names_runs_by_run_after", True)  # as of a worker that is started anew
        assert await made(here, 4) == [*ids(1, 2), *ids(4, 5)]
        object.__setattr__(place, "names_runs_by_run_after", False)  # as of a worker that is started anew
        assert await made(here, 5) == [*ids(1, 2), *ids(4, 5), f"{ids(5, 5)[0]}_2"]
