"""The simulation: seeds without a violation, the same trace for the same seed, and that it finds what is wrong."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from properties.checking import PROPERTIES
from tidemill.model.pool.state import PoolState
from tidemill.model.spec.trigger_rule import TriggerRule

from dst.exhaustive import SYSTEMS, PoolSystem, explore
from dst.drawing import draw
from dst.drawn_tasks import RULES
from dst.installation import Plan
from dst.main import OPERATIONS
from dst.shrink import shrink
from dst.simulation import simulate

ROOT = Path(__file__).parents[2]
SEEDS = range(1, 31)
FEW = 1_500
"""Workflow tasks of a seed here; `make dst` lets them have more."""


@pytest.fixture(scope="module")
def reached() -> Counter[str]:
    return Counter()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_property_is_violated(seed: int, reached: Counter[str]) -> None:
    result = simulate(draw(seed), most_steps=FEW)
    assert not result.violations, "\n".join(map(str, result.violations))
    reached += result.counts


def test_the_seeds_reach_what_goes_wrong(reached: Counter[str]) -> None:
    """Silence means nothing while nothing has happened."""
    if sum(reached.values()) == 0:
        pytest.skip("the seeds were not run in this process")
    missing = [name for name in OPERATIONS if not any(known.startswith(name) for known in reached)]
    assert len(missing) <= 4, missing


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
    assert len(names) == len({*names}) >= 100
    assert all(known.text.endswith(".") for known in PROPERTIES)


def test_the_page_of_properties_is_that_of_the_code() -> None:
    """Written by `make docs`."""
    sys.path.append(str(ROOT / "scripts"))
    from write_properties import PAGE, page  # type: ignore[import-not-found]

    assert PAGE.read_text() == page(), "run `make docs`"
