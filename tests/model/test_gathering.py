"""What a DAG makes of events of assets, whatever comes between them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tidemill.model.asset.events import AssetEvent
from tidemill.model.asset.gathering import Gathering
from tidemill.model.asset.outlets import OutletEvent, emissions
from tidemill.model.asset.partitioning import Partitioning
from tidemill.model.asset.state import AssetState, ReportedEvent, Tie
from tidemill.model.spec.assets.condition import AssetAll, AssetAny, Condition, holds
from tidemill.model.spec.assets.identity import Asset, AssetAlias, AssetRef
from tidemill.model.spec.assets.mappers import RollupMapper, StartOfDayMapper
from tidemill.model.spec.assets.partitioned import Partitioned
from tidemill.model.spec.assets.windows import DayWindow
from tidemill.model.spec.tasks import EmptyTask

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = "abc"
LEAVES: st.SearchStrategy[Any] = st.sampled_from(NAMES).map(lambda name: Asset.model_validate({"name": name}))
CONDITIONS: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda kind, parts: kind(of=tuple(parts)),
        st.sampled_from([AssetAll, AssetAny]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=5,
)
STEPS = st.lists(st.one_of(st.sampled_from(NAMES), st.sampled_from(["pause", "unpause", "look", "carry"])), max_size=40)


def event(number: int, name: str) -> AssetEvent:
    return AssetEvent(cause=str(number), name=name, uri=name, timestamp=START + timedelta(minutes=number))


class World:
    """One DAG, as its workflow has it."""

    def __init__(self, condition: Condition, backlog: str) -> None:
        self.condition, self.consume = condition, backlog == "consume"
        self.gathering = Gathering()
        self.gathering.expect(condition, START)
        self.paused = False
        self.now = START
        self.heard: list[AssetEvent] = []
        self.runs: list[list[str]] = []

    def step(self, number: int, what: str) -> None:
        self.now = START + timedelta(minutes=number)
        if what in NAMES:
            self.heard.append(event(number, what))
            for _ in range(2):  # told twice
                paused = self.paused and not self.consume
                self.gathering.hear(self.heard[-1], self.condition, paused=paused, now=self.now)
        elif what == "look":
            self.look()
        elif what == "carry":  # through continue-as-new
            self.gathering = Gathering.model_validate_json(self.gathering.model_dump_json())
        else:
            self.paused = what == "pause"

    def look(self) -> None:
        while not self.paused and self.gathering.is_due(self.condition):
            taken = self.gathering.take(self.condition, catchup=False, all_of_it=self.consume)
            names = {one.name for one in taken.events}
            assert holds(self.condition, lambda leaf, names=names: leaf.name in names), "a run was made too early"
            self.runs.append([one.cause for one in taken.events])


@given(condition=CONDITIONS, steps=STEPS, backlog=st.sampled_from(["consume", "airflow"]))
def test_no_event_is_taken_twice_and_none_too_early(condition: Any, steps: list[str], backlog: str) -> None:
    world = World(condition, backlog)
    for number, what in enumerate(steps, 1):
        world.step(number, what)
    taken = [cause for run in world.runs for cause in run]
    assert len(taken) == len(set(taken))
    assert taken == sorted(taken, key=int), "the oldest first"


@given(condition=CONDITIONS, steps=STEPS)
def test_with_the_default_backlog_every_event_is_taken_once_by_whoever_waited(condition: Any, steps: list[str]) -> None:
    world = World(condition, "consume")
    for number, what in enumerate(steps, 1):
        world.step(number, what)
    world.paused = False
    for number, name in enumerate(NAMES, 100):  # in the end, all of it is there
        world.step(number, name)
    world.look()
    named = {leaf.name for leaf in _leaves(condition)}
    wanted = [one.cause for one in world.heard if one.name in named]
    assert [cause for run in world.runs for cause in run] == wanted


def _leaves(condition: Any) -> list[Any]:
    return [leaf for part in getattr(condition, "of", ()) for leaf in _leaves(part)] or (
        [] if hasattr(condition, "of") else [condition]
    )


def test_an_event_that_comes_late_is_not_lost() -> None:
    """Assets are told of in no common order: what happened before a run was made may be heard of after it."""
    condition = AssetAny(of=(Asset.model_validate({"name": "a"}), Asset.model_validate({"name": "b"})))
    world = World(condition, "airflow")
    world.step(5, "a")
    world.look()
    late = event(1, "b")
    world.gathering.hear(late, condition, paused=False, now=START + timedelta(minutes=6))
    world.look()
    assert world.runs == [["5"], ["1"]]


def test_a_clock_that_is_set_back_loses_no_event() -> None:
    condition = Asset.model_validate({"name": "a"})
    world = World(condition, "consume")
    world.step(5, "a")
    world.look()
    for number, now in ((6, 5), (7, 3)):  # the moment of the run, and one before it
        told = event(number, "a")
        world.gathering.hear(told, condition, paused=False, now=START + timedelta(minutes=now))
        world.look()
    assert world.runs == [["5"], ["6"], ["7"]]


def test_an_asset_numbers_its_events_by_their_cause_and_tells_newcomers_of_those_before() -> None:
    state = AssetState(asset=Asset.model_validate({"name": "a"}))
    told = ReportedEvent(cause="x", extra={"n": 1})
    assert state.add(told, START) is not None
    assert state.add(told, START) is None
    assert state.numbered == 1
    before, after = START - timedelta(days=1), START + timedelta(days=1)
    state.tie(Tie(dag_id="d", consumes=True), START)
    state.tie(Tie(dag_id="e", consumes=True, since=before, waits_since=after), START)
    state.tie(Tie(dag_id="f", consumes=True, since=before, waits_since=before), START)
    assert state.next_delivery("d") is None
    told_e, told_f = state.next_delivery("e"), state.next_delivery("f")
    assert told_e is not None and told_e.history  # noqa: PT018
    assert told_f is not None and not told_f.history  # noqa: PT018 - it has waited for the asset since before
    state.tie(Tie(dag_id="e"), START)
    state.delivered("f", 1)
    assert (state.consumers, state.outbox, state.unsent) == (["d", "f"], {}, {})


def test_who_waits_for_an_asset_by_its_name_hears_of_it_whatever_uri_others_give_it() -> None:
    bare, whole = (Asset.model_validate({"name": "orders", **more}) for more in ({}, {"uri": "file:///lake/orders"}))
    state = AssetState(asset=bare)
    state.tie(Tie(dag_id="reads", consumes=True, asset=bare), START)
    state.tie(Tie(dag_id="also", consumes=True, asset=whole), START)
    state.tie(Tie(dag_id="writes", produced_by=("t",), asset=whole), START)  # registered last: its uri is shown
    state.add(ReportedEvent(cause="x"), START)
    for dag_id, asset in (("reads", bare), ("also", whole)):
        delivery = state.next_delivery(dag_id)
        assert delivery is not None
        gathering = Gathering()
        gathering.hear(delivery.events[0], asset, paused=False, now=START)
        assert gathering.is_due(asset), dag_id
        assert gathering.take(asset, catchup=False).events[0].uri == asset.uri


def test_assets_are_keys_of_a_dict() -> None:
    """As what `dict(triggering_asset_events)` gives."""
    assert {Asset.model_validate({"name": "a", "extra": {"x": 1}}): 1}[
        Asset.model_validate({"name": "a", "extra": {"x": 1}})
    ]


def test_what_waits_to_be_told_has_bounds_and_keeps_its_order() -> None:
    state = AssetState(asset=Asset.model_validate({"name": "a"}))
    state.tie(Tie(dag_id="d", consumes=True), START)
    for number in range(30):
        state.add(ReportedEvent(cause=str(number), extra={"x": "y" * 20_000}), START + timedelta(minutes=number))
    state = AssetState.model_validate_json(state.model_dump_json())
    told: list[str] = []
    while (delivery := state.next_delivery("d")) is not None:
        assert len(delivery.events) <= 4
        told += [event.cause for event in delivery.events]
        state.delivered("d", len(delivery.events))
    assert told == [str(number) for number in range(30)]
    assert len(state.events) < 30


def test_a_key_that_no_mapper_can_read_is_passed_over_with_a_reason() -> None:
    days = StartOfDayMapper(timezone="Europe/Berlin")
    schedule = Partitioned(assets=Asset.model_validate({"name": "a"}), default_mapper=days)
    told = event(1, "a").model_copy(update={"partition_key": "0001-01-01T00:00:00"})
    assert "0001-01-01" in str(Partitioning().hear(told, schedule, paused=False))


def test_the_events_of_a_task() -> None:
    a, alias = Asset.model_validate({"name": "a"}), AssetAlias(name="x")
    task = EmptyTask(task_id="t", outlets=(a, alias))
    found = Asset.model_validate({"name": "found"})
    said = (
        OutletEvent(asset=a, extra={"n": 1}, partition_keys=("k", "own")),
        OutletEvent(asset=found, alias="x"),
        OutletEvent(asset=found, alias="x"),
        OutletEvent(asset=found, alias="not an outlet"),
    )
    own = {"partition_key": "own", "partition_date": START}
    made = emissions(task, said, {"source_dag_id": "d"}, "try", own)
    assert [(one.asset.name, one.event.partition_key, one.event.partition_date, one.event.aliases) for one in made] == [
        ("a", "k", None, ()), ("a", "own", START, ()), ("found", "own", START, ("x",)),
    ]  # fmt: skip
    assert len({one.event.cause for one in made}) == 3
    assert made[2].workflow_ids == ["asset:found", "asset-alias:x"]


def test_a_task_may_say_several_events_of_an_asset_and_write_one_by_reference() -> None:
    a, ref = Asset.model_validate({"name": "a"}), AssetRef(name="b")
    b = Asset.model_validate({"name": "b", "uri": "s3://b"})
    said = (OutletEvent(asset=a, extra={"n": 1}), OutletEvent(asset=b, extra={"n": 2}), OutletEvent(asset=a))
    task = EmptyTask(task_id="t", outlets=(a, ref, AssetRef(uri="s3://c")))
    made = emissions(task, said, {}, "try", {})
    assert [(one.asset.key, one.event.extra) for one in made] == [
        (("a", "a"), {"n": 1}), (("a", "a"), {}), (("b", "s3://b/"), {"n": 2}), (("s3://c", "s3://c"), {}),
    ]  # fmt: skip
    assert len({one.event.cause for one in made}) == 4
    assert [one.asset.name for one in emissions(task, said, {}, "try", {}, every=False)] == ["a"], "as up to 0.2.0"


def test_an_event_of_the_instant_of_a_run_belongs_to_the_next() -> None:
    condition = Asset.model_validate({"name": "a"})
    gathering = Gathering()
    gathering.expect(condition, START)
    for number in range(3):
        told = event(1, "a").model_copy(update={"cause": f"e{number}"})
        gathering.hear(told, condition, paused=False)
        assert [one.cause for one in gathering.take(condition, catchup=False).events] == [f"e{number}"]


def test_a_partition_is_complete_when_all_of_it_is_there() -> None:
    hours = RollupMapper(upstream_mapper=StartOfDayMapper(input_format="%Y-%m-%dT%H"), window=DayWindow())
    schedule = Partitioned(assets=Asset.model_validate({"name": "a"}), default_mapper=hours)
    partitions = Partitioning()
    for hour in range(24):
        assert [*partitions.take(schedule)] == []
        told = event(hour, "a").model_copy(update={"partition_key": f"2026-01-05T{hour:02}"})
        assert partitions.hear(told, schedule, paused=False) is None
        partitions = Partitioning.model_validate_json(partitions.model_dump_json())
    [taken] = partitions.take(schedule)
    assert (taken.partition_key, len(taken.events)) == ("2026-01-05", 24)
    assert "has no partition_key" in str(partitions.hear(event(1, "a"), schedule, paused=False))
