"""Runs that ask pools for some leases at a time: every task is let in, the heaviest first, whatever the sizes are."""

from datetime import UTC, datetime
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support import dag, empty
from tidemill.model.pool.state import LeaseRequest, PoolSettings, PoolState
from tidemill.model.run.planner import RunPlan
from tidemill.model.states import TaskState

NOW = datetime(2024, 1, 1, tzinfo=UTC)
QUEUED = TaskState.QUEUED


class Sharing:
    """Some runs that share a pool, played step by step; messages arrive in any order."""

    def __init__(self, specs: list[Any], slots: int, ahead: int) -> None:
        self.specs = specs
        self.plans = [RunPlan(spec, dict.fromkeys(spec.by_id, TaskState.NONE)) for spec in specs]
        for plan in self.plans:
            plan.ask_ahead(ahead)
        self.ahead = ahead
        self.pool = PoolState(name="p", settings=PoolSettings(slots=slots))
        self.busy: list[tuple[int, str]] = []
        self.started: list[tuple[int, str]] = []

    def decide(self) -> None:
        for number, plan in enumerate(self.plans):
            while decisions := plan.decide():
                started = [(number, d.key) for d in decisions if d.state is QUEUED]
                self.busy += started
                self.started += started
            for key in _drained(plan.returned_leases):
                self.pool.give_back([f"{number}#{key}"])
            for key in _drained(plan.wanted_leases):
                self.pool.ask(self.request(number, key))
            waiting = [r for r in self.pool.waiting.values() if r.holder == str(number)]
            kinds = {(r.slots, r.priority_weight) for r in waiting}
            assert len(waiting) <= self.ahead * max(1, len(kinds))

    def request(self, number: int, key: str) -> LeaseRequest:
        task = self.specs[number].by_id[key]
        return LeaseRequest(
            lease_id=f"{number}#{key}",
            holder=str(number),
            key=key,
            slots=task.pool_slots,
            priority_weight=self.plans[number].weights[key],
            date=NOW,
        )

    def grant(self) -> None:
        for request in self.pool.grant(NOW):
            if not self.plans[int(request.holder)].grant(request.key):
                self.pool.give_back([request.lease_id])

    def finish(self, which: tuple[int, str]) -> None:
        self.busy.remove(which)
        number, key = which
        self.pool.give_back([f"{number}#{key}"])
        self.plans[number].record(key, TaskState.RUNNING)
        self.plans[number].record(key, TaskState.SUCCESS)

    @property
    def ended(self) -> bool:
        return all(plan.end() is not None for plan in self.plans)


def _drained(keys: list[str]) -> list[str]:
    taken = [*keys]
    keys.clear()
    return taken


tasks = st.lists(
    st.fixed_dictionaries({"pool_slots": st.integers(1, 3), "priority_weight": st.integers(1, 3)}),
    min_size=1,
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(tasks, min_size=1, max_size=3), st.integers(3, 6), st.integers(1, 4), st.integers(1, 4), st.randoms())
def test_every_task_is_let_in(runs: list[Any], slots: int, ahead: int, most: int, order: Random) -> None:
    specs = [
        dag(f"run_{n}", [empty(f"t{i}", pool="p", **task) for i, task in enumerate(made)], max_active_tasks=most)
        for n, made in enumerate(runs)
    ]
    sharing = Sharing(specs, slots, ahead)
    steps = 0
    while not sharing.ended:
        steps += 1
        assert steps < 2000, "nothing goes on"
        sharing.decide()
        sharing.grant()
        sharing.decide()
        assert sharing.pool.occupied <= slots
        if sharing.busy and order.random() < 0.7:
            sharing.finish(order.choice(sharing.busy))
    assert sorted(sharing.started) == sorted((n, key) for n, spec in enumerate(specs) for key in spec.by_id)
    sharing.decide()
    assert not sharing.pool.held
    assert not sharing.pool.waiting


def test_a_heavier_task_does_not_wait_behind_lighter_ones_that_have_asked() -> None:
    light = [empty(f"light_{i}", pool="p") for i in range(10)]
    spec = dag("weights", [*light, empty("first"), empty("heavy", "first", pool="p", priority_weight=9)])
    sharing = Sharing([spec], slots=1, ahead=2)
    sharing.decide()
    assert sorted(sharing.pool.waiting) == ["0#light_0", "0#light_1"]
    sharing.finish((0, "first"))
    sharing.decide()
    assert [request.key for request in sharing.pool.grant(NOW)] == ["heavy"]


def test_one_that_is_too_large_for_its_pool_holds_up_no_other() -> None:
    large = [empty(f"large_{i}", pool="p", pool_slots=5) for i in range(5)]
    sharing = Sharing([dag("sizes", [*large, empty("small", pool="p")])], slots=2, ahead=2)
    sharing.decide()
    sharing.grant()
    sharing.decide()
    assert sharing.started == [(0, "small")]


def test_those_that_have_not_asked_yet_say_what_they_wait_for() -> None:
    spec = dag("told", [empty(f"t{i}", pool="p") for i in range(3)])
    sharing = Sharing([spec], slots=1, ahead=1)
    sharing.decide()
    assert {sharing.plans[0].why(f"t{i}") for i in range(3)} == {"waits for 1 of the slots of pool 'p'"}


@given(st.lists(st.integers(1, 3), min_size=2, max_size=8), st.integers(3, 5), st.randoms(use_true_random=True))
def test_one_that_asks_again_keeps_its_slots(sizes: list[int], slots: int, order: Random) -> None:
    """A run that goes on as new asks again for what it has no answer to: the answer may be on its way."""
    pool = PoolState(name="p", settings=PoolSettings(slots=slots))
    requests = {
        str(n): LeaseRequest(lease_id=str(n), holder="r", key="k", slots=s, date=NOW) for n, s in enumerate(sizes)
    }
    to_ask, unanswered, running = [*requests], set[str](), set[str]()
    on_their_way: list[str] = []
    steps = 0
    while to_ask or unanswered or running:
        steps += 1
        assert steps < 10_000, "nothing goes on"
        match order.choice(["ask", "ask again", "grant", "answer", "finish"]):
            case "ask" if to_ask:
                pool.ask(requests[to_ask[0]])
                unanswered.add(to_ask.pop(0))
            case "ask again" if unanswered:
                pool.ask(requests[order.choice(sorted(unanswered))])
            case "grant":
                on_their_way += [request.lease_id for request in pool.grant(NOW)]
            case "answer" if on_their_way:
                lease_id = on_their_way.pop(0)
                if lease_id in unanswered:  # else it is the answer to having asked again
                    unanswered.remove(lease_id)
                    running.add(lease_id)
            case "finish" if running:
                lease_id = order.choice(sorted(running))
                running.remove(lease_id)
                pool.give_back([lease_id])
            case _:
                pass
        assert sum(requests[lease_id].slots for lease_id in running) <= slots
    assert not pool.held
