"""A pool's rules, one by one: who is let in, who keeps what, and what is shown of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support import dag, empty
from tidemill.model.errors import InvalidInputError
from tidemill.model.names import check_pool_name
from tidemill.model.pool.state import (
    PARALLELISM,
    PASS_ON,
    PLENTY,
    RETURNED_KEPT,
    UNLIMITED,
    LeaseRequest,
    PoolSettings,
    PoolState,
    RunLeases,
    dag_of_limit,
    limit_workflow_id,
    pool_workflow_id,
    pools_of,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pool(slots: int, **settings: Any) -> PoolState:
    return PoolState(name="p", settings=PoolSettings(slots=slots, **settings))


def request(lease_id: str, slots: int = 1, **fields: Any) -> LeaseRequest:
    given = {"holder": f"run:{lease_id}", "key": lease_id, "date": NOW, **fields}
    return LeaseRequest(lease_id=lease_id, slots=slots, **given)


def ask(state: PoolState, *requests: LeaseRequest) -> None:
    for one in requests:
        state.ask(one)


def let_in(state: PoolState) -> list[str]:
    return [one.lease_id for one in state.grant(NOW)]


def test_the_heaviest_goes_first_then_the_oldest_run_then_by_map_index_then_by_lease() -> None:
    state = pool(10)
    ask(
        state,
        request("e", map_index=1),
        request("d2", map_index=0),
        request("d1", map_index=0),
        request("c", date=NOW - timedelta(days=1), map_index=5),
        request("b", priority_weight=2, date=NOW + timedelta(days=1), map_index=7),
        request("a", priority_weight=3, date=NOW + timedelta(days=2)),
    )
    assert let_in(state) == ["a", "b", "c", "d1", "d2", "e"]


def test_one_that_is_too_big_is_passed_over() -> None:
    state = pool(3)
    ask(state, request("big", 4, priority_weight=9), request("two", 2, priority_weight=5), request("one", 1))
    assert let_in(state) == ["two", "one"]
    assert sorted(state.waiting) == ["big"]
    assert state.occupied == 3
    ask(state, request("more"))
    assert let_in(state) == []


def test_an_exact_fit_is_let_in() -> None:
    state = pool(2)
    ask(state, request("two", 2))
    assert let_in(state) == ["two"]
    assert let_in(state) == []
    assert state.held["two"].since == NOW


def test_a_pool_without_a_limit_lets_all_in() -> None:
    state = pool(UNLIMITED)
    ask(state, *(request(str(n), 100) for n in range(9)))
    assert len(let_in(state)) == 9
    assert state.view().open_slots is None


def test_what_is_given_back_goes_to_the_next() -> None:
    state = pool(1)
    ask(state, request("a"), request("b"), request("c"))
    assert let_in(state) == ["a"]
    state.give_back(["c"])
    assert sorted(state.waiting) == ["b"]
    assert state.returned == [], "both were known"
    state.give_back(["a"])
    assert let_in(state) == ["b"]


def test_a_return_that_overtakes_its_request_is_remembered_for_a_while() -> None:
    state = pool(1)
    state.give_back(["early"])
    assert state.was_returned(request("early"))
    assert not state.was_returned(request("other"))
    state.give_back([str(n) for n in range(RETURNED_KEPT)])
    assert len(state.returned) == RETURNED_KEPT
    assert not state.was_returned(request("early"))
    assert state.was_returned(request(str(RETURNED_KEPT - 1)))


def test_who_asks_again_keeps_its_slots_and_is_answered_again() -> None:
    state = pool(1)
    ask(state, request("a"), request("b"))
    assert let_in(state) == ["a"]
    ask(state, request("a"))
    assert (sorted(state.held), sorted(state.waiting)) == (["a"], ["b"])
    assert let_in(state) == ["a"]
    assert let_in(state) == [], "once"
    ask(state, request("a"))
    state.give_back(["a"])
    assert let_in(state) == ["b"], "and not if it has gone meanwhile"


def test_who_waits_outside_of_a_worker_frees_its_slots_and_asks_for_them_anew() -> None:
    state = pool(1)
    ask(state, request("a"))
    let_in(state)
    assert state.holds(request("a"))
    state.park(["a", "unknown"])
    assert (state.occupied, state.holds(request("a"))) == (0, False)
    ask(state, request("b"))
    assert let_in(state) == ["b"]
    ask(state, request("a"))
    assert (sorted(state.held), sorted(state.waiting)) == (["b"], ["a"])


def test_a_pool_may_count_who_waits_outside_of_a_worker() -> None:
    state = pool(2, include_deferred=True)
    ask(state, request("a", 2))
    let_in(state)
    state.park(["a"])
    assert state.occupied == 2
    assert not state.holds(request("a"))


def test_a_run_that_has_ended_holds_nothing() -> None:
    state = pool(2)
    gone = {"holder": "run:gone"}
    ask(state, request("a", **gone), request("b"), request("c", **gone))
    assert let_in(state) == ["a", "b"]
    assert state.holders == ["run:b", "run:gone"]
    state.forget("run:gone")
    assert (sorted(state.held), sorted(state.waiting)) == (["b"], [])
    assert state.holders == ["run:b"]


def test_a_pool_that_begins_anew_learns_who_holds_its_slots_and_who_has_asked() -> None:
    state = pool(1)
    ask(state, request("a"))
    leases = RunLeases(
        held=(request("a"), request("given")), waiting=(request("b"), request("also given"), request("a"))
    )
    state.recover(leases, NOW, {"given", "also given"})
    state.recover(leases, NOW + timedelta(hours=1), {"given", "also given"})
    assert (sorted(state.held), sorted(state.waiting), state.held["a"].since) == (["a"], ["b"], NOW)
    assert state.held["a"].request == request("a")
    assert let_in(state) == [], "nobody is answered again"
    state.give_back(["a"])
    assert let_in(state) == ["b"]


@pytest.mark.parametrize(
    ("slots", "taken", "passable"),
    [
        (UNLIMITED, 500, True),
        (2 * PLENTY, PLENTY, True),
        (2 * PLENTY, PLENTY + 1, False),
        (PLENTY, 1, False),
        (4 * PLENTY, 2 * PLENTY, True),
        (4 * PLENTY, 2 * PLENTY + 1, False),
    ],
)
def test_slots_may_be_passed_on_where_plenty_are_free(slots: int, taken: int, passable: bool) -> None:
    state = pool(slots)
    ask(state, *(request(f"l{n}") for n in range(taken)))
    state.grant(NOW)
    assert state.passable_until(NOW) == (NOW + PASS_ON if passable else None)


def test_slots_are_not_passed_on_while_somebody_waits() -> None:
    state = pool(4 * PLENTY)
    ask(state, request("a"), request("huge", 5 * PLENTY))
    assert let_in(state) == ["a"]
    assert state.passable_until(NOW) is None


def test_slots_that_were_passed_on_are_shown_with_the_task_that_has_them() -> None:
    state = pool(UNLIMITED)
    ask(state, request("a", key="first"), request("b", key="other"))
    state.grant(NOW)
    state.give_back(["b"])
    state.pass_on([request("a", key="second"), request("b", key="late")])
    assert [holder.split()[1] for holder in state.view().holders] == ["second"], "what was given back stays so"


def test_a_pool_that_was_made_smaller_takes_nothing_away() -> None:
    state = pool(3)
    ask(state, *(request(name) for name in "abc"))
    let_in(state)
    state.settings = PoolSettings(slots=1)
    ask(state, request("d"))
    assert (let_in(state), state.view().open_slots) == ([], 0)
    state.give_back(["a", "b"])
    assert let_in(state) == []
    state.give_back(["c"])
    assert let_in(state) == ["d"]


def test_a_limit_follows_the_newest_that_is_said() -> None:
    state = pool(1)
    state.ask(request("a", limit=3))
    assert (state.settings.slots, state.limit_as_of) == (3, None)
    state.ask(request("b", limit=5, limit_as_of=NOW))
    assert (state.settings.slots, state.limit_as_of) == (5, NOW)
    state.ask(request("c", limit=2, limit_as_of=NOW - timedelta(seconds=1)))
    assert (state.settings.slots, state.limit_as_of) == (5, NOW), "an older one"
    state.ask(request("d", limit=4, limit_as_of=NOW))
    assert state.settings.slots == 4, "of the same moment"
    state.ask(request("e"))
    assert state.settings.slots == 4, "none is said"


def test_what_is_shown_of_a_pool() -> None:
    state = pool(3)
    ask(state, request("a", 2, holder="run:one"), request("c", 3), request("b", 2, priority_weight=7))
    state.grant(NOW)
    view = state.view()
    assert (view.name, view.settings, view.occupied_slots, view.open_slots) == ("p", state.settings, 2, 1)
    assert view.holders == ("run:b b (2, since 2026-01-01T00:00:00+00:00)",)
    assert view.queued == ("run:one a (2, priority 1)", "run:c c (3, priority 1)")


@pytest.mark.parametrize(
    "name", ["db", "a.b-c_d", "etl pool", "pool:1", "my pool/x", "größe 名前", '"it\'s" 50%', "x" * 250]
)
def test_a_good_name(name: str) -> None:
    check_pool_name(name)
    assert pool_workflow_id(name) == f"pool:{name}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("limit:d:t", "'limit:d:t' is a limit and no pool. Set max_active_tis_per_dag"),
        ("a\nb", "pool name 'a\\nb': a name is one line"),
        (" ", "pool name ' ': a name is one line"),
        ("", "pool name ''"),
        ("y" * 257, f"pool name '{'y' * 80}': a name is one line of at most 256"),
    ],
)
def test_a_name_that_no_pool_may_have(name: str, said: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        check_pool_name(name)
    assert str(refused.value).startswith(said)
    with pytest.raises(ValueError, match="pool"):
        dag("d", [empty("t", pool=name)])


def test_a_long_name_has_an_id_that_a_service_on_postgresql_has_room_for() -> None:
    one, other = pool_workflow_id("y" * 255 + "a"), pool_workflow_id("y" * 255 + "b")
    assert one != other
    assert len(one) == len(other) == 255


def test_whose_limit_it_is() -> None:
    limit = limit_workflow_id("d", "group.t")
    assert (limit, pool_workflow_id(limit)) == ("limit:d:group.t", limit)
    assert dag_of_limit(limit) == "d"
    assert dag_of_limit(PARALLELISM) is None
    assert dag_of_limit("pool:d:t") is None


def test_the_pools_of_a_task_come_in_one_order() -> None:
    tasks = [
        {"kind": "bash", "task_id": "all", "command": "x", "pool": "p", "max_active_tis_per_dag": 2},
        {"kind": "bash", "task_id": "none", "command": "x"},
        empty("empty"),
    ]
    found = dag("d", tasks).by_id
    assert pools_of("d", found["all"], 5) == ["limit:d:all", "pool:p", PARALLELISM]
    assert pools_of("d", found["all"]) == ["limit:d:all", "pool:p"]
    assert pools_of("d", found["none"]) == []
    assert pools_of("d", found["none"], 5) == [PARALLELISM]
    assert pools_of("d", found["empty"], 5) == [], "it takes no worker"
