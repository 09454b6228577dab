"""A request about several runs: what has been changed is not answered as refused, else it is made again."""

from typing import Any

import pytest
from tidemill.api.routes.task_instances import in_each
from tidemill.model.errors import InvalidInputError

RUNS = ["one", "two", "three"]


class Changes:
    """Changes runs, but for those that are *refused*."""

    def __init__(self, *refused: str) -> None:
        self.made: list[str] = []
        self._refused = refused

    async def __call__(self, run_id: str) -> list[Any]:
        if run_id in self._refused:
            raise InvalidInputError(f"{run_id}: its history is no longer kept by Temporal")
        self.made.append(run_id)
        return [f"{run_id}/a", f"{run_id}/b"]


async def test_another_run_that_is_refused_is_left_out() -> None:
    found = await in_each(RUNS, RUNS[1], Changes("one"))
    assert found == ["two/a", "two/b", "three/a", "three/b"]


async def test_nothing_is_changed_where_the_named_run_is_refused() -> None:
    change = Changes("two")
    with pytest.raises(InvalidInputError, match="two"):
        await in_each(RUNS, RUNS[1], change)
    assert change.made == []


async def test_where_all_are_refused_that_is_said() -> None:
    with pytest.raises(InvalidInputError, match="one"):
        await in_each(RUNS, None, Changes(*RUNS))
