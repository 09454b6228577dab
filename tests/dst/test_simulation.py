"""The simulation: seeds without a violation, the same trace for the same seed, and that it finds what is wrong."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from properties.checking import PROPERTIES
from tidemill.model.dag.state import DagState
from tidemill.model.pool.state import PoolState
from tidemill.model.spec.trigger_rule import TriggerRule

from dst.drawing import draw
from dst.drawn_tasks import RULES
from dst.exhaustive import SYSTEMS, PoolSystem, explore
from dst.hunts import every_hunt
from dst.installation import Plan
from dst.main import KEPT, seed_of_commit
from dst.shrink import shrink
from dst.simulation import simulate
from dst.situations import NEVER, every_situation, why_never

ROOT = Path(__file__).parents[2]
SEEDS = range(1, 31)
FEW = 1_500
"""Workflow tasks of a seed here; `make dst` lets them have more."""
A_MINUTE = 60


@pytest.fixture(scope="module")
def reached() -> Counter[str]:
    return Counter()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_property_is_violated(seed: int, reached: Counter[str]) -> None:
    result = simulate(draw(seed), most_steps=FEW)
    assert not result.violations, "\n".join(map(str, result.violations))
    reached += result.reached


def test_the_seeds_reach_what_goes_wrong(reached: Counter[str]) -> None:
    """Silence means nothing while nothing has happened."""
    if sum(reached.values()) == 0:
        pytest.skip("the seeds were not run in this process")
    assert sum(reached[name] > 0 for name in every_situation()) >= len(every_situation()) / 4


def test_fresh_seeds_violate_no_property() -> None:
    """Others for each commit, for a minute. What is found stays: see `tests/dst/plans`."""
    first, deadline, number = seed_of_commit(), time.monotonic() + A_MINUTE, 0
    while number < 3 or (time.monotonic() < deadline and number < 60):
        result = simulate(draw(first + number), most_steps=FEW)
        assert not result.violations, f"seed {first + number}: {result.violations[0]}"
        number += 1


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_what_was_found_stays_mended(path: Path) -> None:
    result = simulate(Plan.from_json(json.loads(path.read_text())))
    assert not result.violations, "\n".join(map(str, result.violations))


def test_situations_are_told_apart_and_those_that_cannot_be_say_why() -> None:
    names = every_situation()
    assert len(names) == len({*names}) > 400
    assert all(len(reason.split()) > 2 for reason in NEVER.values())
    assert why_never("assign comes to a Dag paused") is not None
    assert why_never("a clear finds a task that is success") is None


def test_every_hunt_can_be_carried_out() -> None:
    """Each is one of a kind of workflow, and each seed has others."""
    assert len(every_hunt()) == len({*every_hunt()}) > 500
    first, second = draw(2).hunts, draw(3).hunts
    assert first != second


def test_a_seed_gives_the_same_trace_each_time() -> None:
    first, second = simulate(draw(8), trace=True), simulate(draw(8), trace=True)
    assert first.trace == second.trace
    assert len(first.trace) > 100


def test_a_plan_can_be_written_and_read() -> None:
    plan = draw(5)
    again = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert simulate(again, trace=True).trace == simulate(plan, trace=True).trace


def test_a_limit_that_is_off_by_one_is_found_and_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is planted is found, by its name, and the plan that is left still shows it."""
    real = PoolState._free
    monkeypatch.setattr(PoolState, "_free", lambda self: None if (free := real(self)) is None else free + 1)
    found = next((seed for seed in SEEDS if simulate(draw(seed), most_steps=FEW).violations), None)
    assert found is not None
    name = simulate(draw(found)).violations[0].name
    small = shrink(draw(found), name, seconds=10)
    assert small.size <= draw(found).size
    assert simulate(small).violations[0].name == name


def test_a_backfill_that_takes_the_room_of_the_schedule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stop the schedule for as long as it lasts, and no run would be wrong."""
    monkeypatch.setattr(DagState, "_takes_room", lambda self, tracked, now: True)
    found = (violation.name for seed in range(1, 200) for violation in simulate(draw(seed), most_steps=FEW).violations)
    assert "no-run-of-the-schedule-is-late" in found


@pytest.mark.parametrize("number", [0, 1, 2, pytest.param(5, marks=pytest.mark.thorough)])
def test_no_interleaving_of_a_small_system_is_wrong(number: int) -> None:
    explored = explore(SYSTEMS[number]())
    assert explored.wrong is None, explored.steps
    assert explored.states > 1_000


def test_an_interleaving_that_is_wrong_is_found_with_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that takes a repeated request for a new one gives one slot to two."""

    def forgets(self: PoolState, request: object, **_: object) -> None:
        self.held.pop(request.lease_id, None)  # type: ignore[attr-defined]
        self.waiting[request.lease_id] = request  # type: ignore[attr-defined, assignment]

    monkeypatch.setattr(PoolState, "ask", forgets)
    explored = explore(PoolSystem(1, (1, 1), crashes=1))
    assert explored.wrong is not None
    assert "asks again" in " ".join(explored.steps)


def test_every_trigger_rule_is_drawn() -> None:
    assert {*RULES} == {*TriggerRule} - {TriggerRule.ALL_DONE_SETUP_SUCCESS}, "that one is a teardown's"


def test_properties_have_names_and_texts() -> None:
    names = [known.name for known in PROPERTIES]
    assert len(names) == len({*names}) >= 220
    assert all(known.text.endswith(".") for known in PROPERTIES)


def test_the_page_of_properties_is_that_of_the_code() -> None:
    """Written by `make docs`."""
    sys.path.append(str(ROOT / "scripts"))
    from write_properties import PAGE, page  # type: ignore[import-not-found]

    assert PAGE.read_text() == page(), "run `make docs`"
