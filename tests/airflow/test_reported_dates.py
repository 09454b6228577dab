"""Dates, weekdays and branches as public reports have them: by the engine, with and without a logical date."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from airflow_stack import DAGS, needs_airflow, stack_with
from support import Stack
from tidemill.model.run.identity import TriggerRequest

pytestmark = [needs_airflow, pytest.mark.asyncio(loop_scope="module")]
WEDNESDAY = datetime(2026, 2, 4, 10, 30, tzinfo=UTC)
GOES = {
    "only_upper": "yes",
    "only_lower": "yes",
    "below_lower": "no",
    "bounds_count": "yes",
    "over_midnight": "no",
    "swapped": "no",
    "date_and_time": "yes",
    "aware": "yes",
    "other_day": "no",
    "one_day": "yes",
    "any_case": "yes",
    "enum_in_dict": "yes",
    "mixed": "yes",
    "another_day": "no",
    "no_day": "no",
}
SENSORS = ("its_day", "past", "past_elsewhere", "after_a_while")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def airflow(server: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    async with stack_with(server, tmp_path_factory.mktemp("dates"), DAGS / "dated.py") as made:
        yield made


async def states(made: Stack, dag_id: str, **trigger: Any) -> dict[str, str]:
    run = await made.tidemill.runs.trigger(dag_id, TriggerRequest(**trigger))
    return {task.key: str(task.state) for task in (await made.finished(dag_id, run.run_id)).tasks}


@pytest.mark.parametrize("given", [{"logical_date": WEDNESDAY}, {"run_after": WEDNESDAY}], ids=["dated", "undated"])
async def test_branches_and_sensors_go_by_the_runs_date_and_without_one_by_run_after(
    given: dict[str, Any], airflow: Stack
) -> None:
    found = await states(airflow, "by_date", **given)
    wanted = {
        f"{name}.{way}": "success" if way == goes else "skipped" for name, goes in GOES.items() for way in ("yes", "no")
    }
    assert found == {**wanted, **dict.fromkeys([*GOES, *SENSORS], "success")}
    assert await states(airflow, "native_date", **given) == {"past": "success"}


async def test_branches_and_short_circuits_skip_what_airflow_skips(airflow: Stack) -> None:
    found = await states(airflow, "branching")
    assert found == {
        "none": "success", "none.a": "skipped", "none.b": "skipped",
        "unknown": "failed", "unknown.a": "upstream_failed",
        "to_sensor": "success", "to_sensor.sensor": "skipped", "to_sensor.other": "success",
        "direct": "success", "direct.b": "success", "direct.c": "success",
        "gentle": "success", "gentle.next": "skipped", "gentle.last": "success",
        "short": "success", "short.next": "skipped", "short.last": "skipped",
        **{f"short.mapped[{index}]": "skipped" for index in range(3)},
        "latest": "success", "latest.next": "success",
        "scope_begins": "success", "within": "success", "within.next": "skipped", "scope_ends": "success",
        "joined": "success", "joined.a": "success", "joined.b": "skipped", "joined.usual": "skipped",
        "joined.some": "success",
    }  # fmt: skip


async def test_in_a_mapped_group_each_index_goes_its_own_way(airflow: Stack) -> None:
    found = await states(airflow, "branching_by_index")
    ways = {f"each.{name}[{index}]": "success" if name == goes else "skipped"
            for index, goes in enumerate(["left", "right"]) for name in ("left", "right")}  # fmt: skip
    after = {f"some.after[{index}]": "success" if index % 2 else "skipped" for index in range(4)}
    decided = {**{f"each.way[{n}]": "success" for n in range(2)}, **{f"some.odd[{n}]": "success" for n in range(4)}}
    assert found == {**ways, **after, **decided}
