"""What a DAG has gathered of its assets, rule by rule (Airflow: the asset queue)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tidemill.model.asset import gathering as gathering_module
from tidemill.model.asset.events import AssetEvent
from tidemill.model.asset.gathering import Gathering, Heard
from tidemill.model.spec.assets.condition import AssetAll, AssetAny, Condition
from tidemill.model.spec.assets.identity import Asset, AssetAlias, AssetRef

START = datetime(2026, 1, 1, tzinfo=UTC)
A, B = (Asset.model_validate({"name": name}) for name in "ab")
BOTH, EITHER = AssetAll(of=(A, B)), AssetAny(of=(A, B))


def minute(number: int) -> datetime:
    return START + timedelta(minutes=number)


def event(number: int, name: str = "a", **fields: Any) -> AssetEvent:
    return AssetEvent(cause=str(number), name=name, uri=name, timestamp=minute(number), **fields)


def waiting_for(condition: Condition) -> Gathering:
    """A DAG that has begun to wait at START."""
    made = Gathering()
    made.expect(condition, START)
    return made


def hear(gathering: Gathering, condition: Condition | None, *events: AssetEvent, paused: bool = False) -> None:
    for one in events:
        gathering.hear(one, condition, paused=paused)


def there(gathering: Gathering) -> dict[str, datetime]:
    return {row.name: row.since for row in gathering.rows}


def causes(gathering: Gathering) -> list[str]:
    return [one.event.cause for one in gathering.heard]


# What is waited for


def test_a_new_condition_forgets_what_it_does_not_name_and_keeps_since_when_the_rest_was_waited_for() -> None:
    gathering = waiting_for(BOTH)
    hear(gathering, BOTH, event(1, "a"), event(2, "b"))
    c = Asset.model_validate({"name": "c"})
    gathering.expect(AssetAll(of=(B, c)), minute(3))
    assert there(gathering) == {"b": minute(2)}
    assert [(one.name, one.uri, one.since) for one in gathering.references] == [
        ("b", "b", START),
        ("c", "c", minute(3)),
    ]


def test_no_condition_at_all_forgets_everything() -> None:
    gathering = waiting_for(A)
    hear(gathering, A, event(1))
    gathering.expect(None, minute(2))
    assert (gathering.rows, gathering.references) == ([], [])
    assert not gathering.is_due(None)


def test_a_dag_in_no_file_keeps_what_it_has_and_begins_to_wait_anew() -> None:
    gathering = waiting_for(A)
    hear(gathering, A, event(1))
    gathering.forget_references()
    assert there(gathering) == {"a": minute(1)}
    gathering.expect(A, minute(5))
    assert [one.since for one in gathering.references] == [minute(5)]
    assert there(gathering) == {"a": minute(1)}


# Events


def test_an_asset_is_there_from_its_first_event_on() -> None:
    gathering = waiting_for(BOTH)
    hear(gathering, BOTH, event(1), event(2))
    assert there(gathering) == {"a": minute(1)}
    assert causes(gathering) == ["1", "2"]


def test_nothing_is_heard_without_a_condition() -> None:
    gathering = Gathering()
    hear(gathering, None, event(1))
    assert (gathering.rows, gathering.heard) == ([], [])


@pytest.mark.parametrize("taken", [False, True])
def test_an_event_that_is_told_twice_is_one(taken: bool) -> None:
    gathering = waiting_for(A)
    hear(gathering, A, event(1))
    if taken:
        gathering.take(A, catchup=True)
    hear(gathering, A, event(1))
    assert causes(gathering) == ([] if taken else ["1"])
    assert bool(gathering.rows) is not taken


def test_what_comes_while_the_dag_is_paused_is_listed_and_does_not_count() -> None:
    gathering = waiting_for(A)
    hear(gathering, A, event(1), paused=True)
    assert (there(gathering), causes(gathering)) == ({}, ["1"])
    hear(gathering, A, event(2))
    assert [one.cause for one in gathering.take(A, catchup=True).events] == ["1", "2"]


@pytest.mark.parametrize("paused", [False, True])
def test_an_event_of_a_partition_does_not_count_for_a_dag_without_partitions(paused: bool) -> None:
    gathering = waiting_for(A)
    hear(gathering, A, event(1, partition_key="k"), paused=paused)
    assert there(gathering) == {}


def test_an_asset_that_is_not_waited_for_is_not_there() -> None:
    gathering = waiting_for(A)
    hear(gathering, A, event(1, "z"))
    assert (there(gathering), causes(gathering)) == ({}, [])


def test_it_counts_from_when_it_is_heard_of_and_after_what_is_done_with() -> None:
    gathering = waiting_for(A)
    gathering.hear(event(1), A, paused=False, now=minute(4))
    assert there(gathering) == {"a": minute(4)}
    early = waiting_for(A)
    early.hear(event(1), A, paused=False, now=START - timedelta(days=1))
    assert there(early) == {"a": START + timedelta(microseconds=1)}


def test_what_happened_before_it_was_waited_for_is_listed_first_and_does_not_count() -> None:
    gathering = waiting_for(A)
    hear(gathering, A, event(5))
    gathering.take(A, catchup=True)
    hear(gathering, A, event(6))
    gathering.learn([event(1), event(2), event(5), event(6)])
    assert causes(gathering) == ["1", "2", "6"]
    assert [one.at for one in gathering.heard] == [minute(1), minute(2), minute(6)]
    assert there(gathering) == {"a": minute(6)}
    assert all(isinstance(one, Heard) for one in gathering.heard)


def test_how_many_were_too_many_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering_module, "MAX_EVENTS", 3)
    gathering = waiting_for(A)
    hear(gathering, A, *map(event, range(1, 8)))
    assert (causes(gathering), gathering.dropped) == (["5", "6", "7"], 4)
    gathering.take(A, catchup=True, all_of_it=True)
    hear(gathering, A, *map(event, range(8, 13)))
    assert (causes(gathering), gathering.dropped) == (["10", "11", "12"], 6)
    taken = gathering.take(A, catchup=True, all_of_it=True)
    assert [one.cause for one in taken.events] == ["10", "11", "12"]
    assert gathering.taken == ["10", "11", "12"], "the newest are remembered"


# Aliases and references


def test_an_alias_is_there_with_an_asset_that_came_in_by_it_and_remembers_which() -> None:
    alias = AssetAlias(name="x")
    gathering = waiting_for(alias)
    assert not gathering.is_there(alias)
    assert not gathering.is_due(alias)
    hear(gathering, alias, event(1, "found", aliases=("x",)), event(2, "found", aliases=("x", "y")))
    assert gathering.links == {"x": [("found", "found")], "y": [("found", "found")]}
    assert gathering.is_due(alias)
    assert not gathering.is_there(AssetAlias(name="other"))
    carried = Gathering.model_validate_json(gathering.model_dump_json())
    assert carried.is_there(alias)
    carried.take(alias, catchup=True)
    assert not carried.is_there(alias)
    assert carried.links["x"] == [("found", "found")]


def test_a_reference_means_an_active_asset() -> None:
    by_name, by_uri = AssetRef(name="a"), AssetRef(uri="a")
    gathering = waiting_for(AssetAny(of=(by_name, by_uri)))
    assert not gathering.is_there(by_name)
    hear(gathering, AssetAny(of=(by_name, by_uri)), event(1))
    for ref in (by_name, by_uri):
        assert gathering.is_there(ref)
        assert gathering.is_due(ref)
        assert not gathering.is_there(ref, [("a", "a")])
        assert not gathering.is_due(ref, [("a", "a")])
        assert gathering.is_due(ref, [("b", "b")])
    assert not gathering.is_there(AssetRef(name="b"))
    assert gathering.is_due(A, [("a", "a")]), "an asset that is named itself is active by that"


# Runs


def test_a_run_is_due_when_the_condition_holds() -> None:
    gathering = waiting_for(BOTH)
    assert not gathering.is_due(BOTH)
    hear(gathering, BOTH, event(1, "a"))
    assert not gathering.is_due(BOTH)
    assert gathering.is_due(EITHER)
    hear(gathering, BOTH, event(2, "b"))
    assert gathering.is_due(BOTH)
    assert not gathering.is_due(None)
    assert not Gathering().is_due(AssetAll()), "with nothing there, not even for an empty condition"


def test_a_run_takes_what_came_up_to_the_first_event_of_its_last_asset() -> None:
    gathering = waiting_for(BOTH)
    hear(gathering, BOTH, event(1, "a"), event(2, "b"), event(3, "b"))
    taken = gathering.take(BOTH, catchup=True)
    assert (taken.run_after, [one.cause for one in taken.events]) == (minute(2), ["1", "2"])
    assert (gathering.rows, gathering.floor) == ([], minute(2))
    assert causes(gathering) == ["3"]
    assert gathering.taken == ["1", "2"]
    hear(gathering, BOTH, event(4, "a"), event(5, "b"))
    assert [one.cause for one in gathering.take(BOTH, catchup=True).events] == ["3", "4", "5"]


def test_all_of_it_is_taken_where_the_dag_wants_it() -> None:
    gathering = waiting_for(BOTH)
    hear(gathering, BOTH, event(1, "a"), event(2, "b"), event(3, "b"))
    taken = gathering.take(BOTH, catchup=True, all_of_it=True)
    assert (taken.run_after, [one.cause for one in taken.events]) == (minute(3), ["1", "2", "3"])
    assert gathering.heard == []


def test_events_are_listed_oldest_first_and_only_those_of_the_condition() -> None:
    gathering = waiting_for(EITHER)
    for number, now in ((3, 9), (2, 8), (1, 7)):
        gathering.hear(event(number), EITHER, paused=False, now=minute(now))
    hear(gathering, B, event(4, "b"))
    assert [one.cause for one in gathering.listed(A, minute(8), catchup=True)] == ["1", "2"]
    assert [one.cause for one in gathering.listed(A, minute(99), catchup=True)] == ["1", "2", "3"]
    assert [one.cause for one in gathering.listed(B, minute(99), catchup=True)] == ["4"]


def test_without_catchup_nothing_counts_from_before_the_dag_waited() -> None:
    gathering = waiting_for(BOTH)
    gathering.expect(AssetAll(of=(A, B, Asset.model_validate({"name": "c"}))), minute(5))
    before = START - timedelta(minutes=1)
    gathering.heard = [Heard(event=event(number), at=at) for number, at in ((1, before), (2, START), (3, minute(1)))]
    assert gathering.since(catchup=False) == START, "the oldest of what it waits for"
    assert gathering.since(catchup=True) is None
    assert [one.cause for one in gathering.listed(A, minute(9), catchup=False)] == ["3"]
    assert [one.cause for one in gathering.listed(A, minute(9), catchup=True)] == ["1", "2", "3"]
    gathering.floor, gathering.taken = minute(1), ["3"]
    assert gathering.since(catchup=False) == gathering.since(catchup=True) == minute(1)
    assert gathering.listed(A, minute(9), catchup=True) == []
    assert Gathering().since(catchup=False) is None


@pytest.mark.parametrize("catchup", [True, False])
def test_a_run_lists_by_its_catchup(catchup: bool) -> None:
    gathering = waiting_for(A)
    gathering.learn([AssetEvent(cause="old", name="a", uri="a", timestamp=START - timedelta(days=1))])
    hear(gathering, A, event(1))
    taken = gathering.take(A, catchup=catchup)
    assert [one.cause for one in taken.events] == (["old", "1"] if catchup else ["1"])


# By hand


@pytest.mark.parametrize(("before", "left"), [(None, {"b"}), (1, {"a", "b"}), (2, {"b"})])
def test_an_asset_that_is_taken_out_of_the_queue_is_not_there_and_its_events_are_listed(
    before: int | None, left: set[str]
) -> None:
    gathering = waiting_for(BOTH)
    hear(gathering, BOTH, event(1, "a"), event(2, "b"))
    gathering.unqueue(("a", "a"), None if before is None else minute(before))
    assert set(there(gathering)) == left
    assert causes(gathering) == ["1", "2"]
