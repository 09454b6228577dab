"""All interleavings of small systems, with the engine's own states: every order of messages, every crash.

Each system says what may happen next in a state; all states that can be reached are visited, and each is checked.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from sys import intern
from typing import Generic, TypeVar

from tidemill.model.asset.gathering import Gathering
from tidemill.model.asset.state import AssetState, ReportedEvent, Tie, named_asset
from tidemill.model.dag.records import DateTakenError
from tidemill.model.dag.state import DagState
from tidemill.model.dag.ticks import Ticks, TimetableQuery, coming_runs
from tidemill.model.pool.state import LeaseRequest, PoolSettings, PoolState
from tidemill.model.run.identity import TriggerRequest, manual_run
from tidemill.model.run.messages import RunReport
from tidemill.model.spec.assets.condition import AssetAll
from tidemill.model.spec.dag import read_dag
from tidemill.model.states import RunState

START = datetime(2026, 1, 1, tzinfo=UTC)
S = TypeVar("S")
Next = Iterator[tuple[str, S]]


@dataclass
class Explored:
    """What came of a system: how many states, and the steps to one that is wrong."""

    name: str
    states: int
    seconds: float
    wrong: str | None = None
    steps: tuple[str, ...] = ()


class System(Generic[S]):
    """A system to explore. States are values; *check* and *check_end* give what is wrong in one."""

    name: str

    def first(self) -> S:
        raise NotImplementedError

    def following(self, state: S) -> Next[S]:
        raise NotImplementedError

    def check(self, state: S) -> str | None:
        raise NotImplementedError

    def check_end(self, state: S) -> str | None:
        """What is wrong with a state that nothing can follow."""
        raise NotImplementedError


def explore(system: System[S], most: int = 400_000) -> Explored:
    """Visits every state, the nearest first, up to *most*. Raises RuntimeError where there are more."""
    began = time.monotonic()
    first = system.first()
    known: dict[S, tuple[S | None, str]] = {first: (None, "")}
    todo = deque([first])
    while todo:
        state = todo.popleft()
        wrong, any_follows = system.check(state), False
        for step, following in system.following(state) if wrong is None else ():
            any_follows = True
            if following not in known:
                known[following] = (state, step)
                todo.append(following)
        if wrong is None and not any_follows:
            wrong = system.check_end(state)
        if wrong is not None:
            return Explored(system.name, len(known), time.monotonic() - began, wrong, _steps(known, state))
        if len(known) > most:
            raise RuntimeError(f"{system.name}: more than {most} states")
    return Explored(system.name, len(known), time.monotonic() - began)


def _steps(known: dict[S, tuple[S | None, str]], state: S) -> tuple[str, ...]:
    steps: list[str] = []
    here: S | None = state
    while here is not None:
        here, step = known[here]
        steps.append(step)
    return tuple(steps[-2::-1])


# A pool's slots, over continue-as-new and crashes


@dataclass(frozen=True, slots=True)
class Requester:
    """A run whose tasks want slots, one after the other: at which task it is, and how far with that."""

    stage: str = "new"
    """new, waiting, working, done."""
    task: int = 1
    lease: int = 1
    """For which task it has asked for the slots that it has, or wants: passed on, they are another's."""


@dataclass(frozen=True, slots=True)
class PoolWorld:
    """The pool as JSON, its requesters, and messages that are on their way in any order."""

    pool: str
    requesters: tuple[Requester, ...]
    messages: tuple[tuple[str, int, int], ...] = ()
    """Kind (ask, granted, give_back, passed_on), requester and the task that has asked for the slots."""
    crashes: int = 0


class PoolSystem(System[PoolWorld]):
    """Runs with *tasks* each, of *sizes*, in a pool of *slots*; a run, or the pool, goes on as new or is replayed.

    A run gives back and asks for its next task in one step: the two messages arrive in either order. Or it passes the
    slots on to that task by itself, and tells the pool; when it may is the pool's to say, and is left out here.
    """

    def __init__(self, slots: int, sizes: tuple[int, ...], crashes: int = 2, tasks: int = 1) -> None:
        self.name = f"slots of a pool: {len(sizes)} runs of {sizes} x {tasks} tasks in {slots} slots, {crashes} crashes"
        self._slots, self._sizes, self._crashes, self._tasks = slots, sizes, crashes, tasks

    def first(self) -> PoolWorld:
        for known in (_heard, _forgetful, _carried, _occupied):
            known.cache_clear()  # a test may have changed what a pool does
        state = PoolState(name="p", settings=PoolSettings(slots=self._slots))
        return PoolWorld(state.model_dump_json(), (Requester(),) * len(self._sizes))

    def following(self, state: PoolWorld) -> Next[PoolWorld]:
        for step, following in self._steps(state):
            yield step, self._without_the_past(following)

    def _without_the_past(self, state: PoolWorld) -> PoolWorld:
        """*state* without what the pool remembers of leases that nobody can ask for any more."""
        if '"returned":["' not in state.pool:
            return state
        asked = {(number, task) for kind, number, task in state.messages if kind == "ask"}
        asked |= {(number, each.lease) for number, each in enumerate(state.requesters) if each.stage != "done"}
        return replace(state, pool=_forgetful(state.pool, frozenset(_lease_id(*of) for of in asked)))

    def _steps(self, state: PoolWorld) -> Next[PoolWorld]:
        for number, requester in enumerate(state.requesters):
            task, lease = requester.task, requester.lease
            if requester.stage == "new":
                asked = _put(state, number, stage="waiting")
                yield f"run {number} asks", _send(asked, "ask", number, lease)
            if requester.stage == "working":
                yield f"task {task} of run {number} has worked", self._worked(state, number, task, lease)
            if requester.stage == "working" and task < self._tasks:
                passed_on = _send(_put(state, number, task=task + 1), "passed_on", number, lease)
                yield f"task {task} of run {number} has worked and passes its slots on", passed_on
            if requester.stage == "waiting" and state.crashes < self._crashes:
                again = replace(state, crashes=state.crashes + 1)
                yield f"run {number} goes on as new and asks again", _send(again, "ask", number, lease)
        for at, (kind, number, task) in enumerate(state.messages):
            left = replace(state, messages=state.messages[:at] + state.messages[at + 1 :])
            yield f"{kind} of task {task} of run {number} arrives", self._arrive(left, kind, number, task)
        if state.crashes < self._crashes and not any(kind == "granted" for kind, _, _ in state.messages):
            yield "the pool goes on as new", replace(state, pool=_carried(state.pool), crashes=state.crashes + 1)

    def _worked(self, state: PoolWorld, number: int, task: int, lease: int) -> PoolWorld:
        given_back = _send(state, "give_back", number, lease)
        if task == self._tasks:
            return _put(given_back, number, stage="done")
        waits = _put(given_back, number, stage="waiting", task=task + 1, lease=task + 1)
        return _send(waits, "ask", number, task + 1)

    def _arrive(self, state: PoolWorld, kind: str, number: int, lease: int) -> PoolWorld:
        if kind == "granted":
            requester = state.requesters[number]
            if requester.lease == lease and requester.stage == "waiting":
                return _put(state, number, stage="working")
            told_twice = requester.lease == lease and requester.stage == "working"
            return state if told_twice else _send(state, "give_back", number, lease)
        pool, granted = _heard(state.pool, kind, number, lease, self._sizes[number])
        state = replace(state, pool=pool)
        for run, of_task in granted:
            state = _send(state, "granted", run, of_task)
        return state

    def check(self, state: PoolWorld) -> str | None:
        working = sum(self._sizes[n] for n, r in enumerate(state.requesters) if r.stage == "working")
        if working > self._slots:
            return f"{working} slots are worked in, there are {self._slots}"
        occupied = _occupied(state.pool)
        return f"{occupied} slots are given" if occupied > self._slots else None

    def check_end(self, state: PoolWorld) -> str | None:
        if any(requester.stage != "done" for requester in state.requesters):
            return f"nothing follows, and {[requester.stage for requester in state.requesters]}"
        held = PoolState.model_validate_json(state.pool).held
        return f"{sorted(held)} is held for ever" if held else None


# What a pool does depends on the pool alone, which is in the same few thousand states in millions of worlds.


def _lease_id(number: int, task: int) -> str:
    return f"run:d:{number}#{task}"


@cache
def _heard(pool: str, kind: str, number: int, task: int, slots: int) -> tuple[str, tuple[tuple[int, int], ...]]:
    """*pool* after a message of a run's task, and of which runs and tasks it grants leases then."""
    state, lease_id = PoolState.model_validate_json(pool), _lease_id(number, task)
    if kind == "give_back":
        state.give_back([lease_id])
    else:
        holder = lease_id.partition("#")[0]
        request = LeaseRequest(lease_id=lease_id, holder=holder, key="t", slots=slots, date=START + timedelta(number))
        if kind == "passed_on":
            state.pass_on([request])
        elif not state.was_returned(request):
            state.ask(request)
    granted = [request.lease_id.removeprefix("run:d:").partition("#") for request in state.grant(START)]
    return intern(state.model_dump_json()), tuple((int(run), int(of_task)) for run, _, of_task in granted)


@cache
def _forgetful(pool: str, lease_ids: frozenset[str]) -> str:
    state = PoolState.model_validate_json(pool)
    state.returned = sorted(lease_ids.intersection(state.returned))
    return intern(state.model_dump_json())


@cache
def _carried(pool: str) -> str:
    return intern(PoolState.model_validate_json(pool).model_dump_json())


@cache
def _occupied(pool: str) -> int:
    return PoolState.model_validate_json(pool).occupied


def _put(state: PoolWorld, number: int, **changes: str | int) -> PoolWorld:
    requesters = [*state.requesters]
    requesters[number] = replace(requesters[number], **changes)  # type: ignore[arg-type]
    return replace(state, requesters=tuple(requesters))


def _send(state: PoolWorld, kind: str, number: int, task: int) -> PoolWorld:
    return replace(state, messages=tuple(sorted((*state.messages, (kind, number, task)))))


# Runs of a DAG


@dataclass(frozen=True)
class DagWorld:
    """The DAG as JSON, the time in hours, runs that were started and ended, and reports on their way."""

    dag: str
    hour: int = 0
    started: tuple[str, ...] = ()
    running: frozenset[str] = frozenset()
    reports: tuple[str, ...] = ()
    crashes: int = 0
    triggered: int = 0
    paused: int = 0


class DagSystem(System[DagWorld]):
    """Three hours of an hourly DAG with a manual trigger for one of its dates, a pause, and reports told twice."""

    def __init__(self, limit: int, *, catchup: bool) -> None:
        self.name = f"runs of a DAG: 3 hours, max_active_runs {limit}, catchup {catchup}, 2 crashes"
        self._limit = limit
        self._spec = read_dag(
            {"dag_id": "d", "schedule": "0 * * * *", "start_date": START.isoformat(), "catchup": catchup,
             "end_date": (START + timedelta(hours=2)).isoformat(), "max_active_runs": limit, "tasks": []}
        )  # fmt: skip

    def first(self) -> DagWorld:
        return self._settled(DagWorld(DagState(spec=self._spec, registered_at=START).model_dump_json()))

    def following(self, state: DagWorld) -> Next[DagWorld]:
        if state.hour < 4:
            yield "an hour goes by", self._settled(replace(state, hour=state.hour + 1))
        for key in sorted(state.running):
            ended = replace(state, running=state.running - {key}, reports=tuple(sorted((*state.reports, key))))
            yield f"{key} ends", ended
        for key in sorted({*state.reports}):
            left = [*state.reports]
            left.remove(key)
            yield f"the end of {key} is told", self._told(replace(state, reports=tuple(left)), key)
            if state.crashes < 2:
                again = replace(state, crashes=state.crashes + 1)
                yield f"the end of {key} is told, and will be once more", self._told(again, key)
        if not state.triggered:
            yield "somebody triggers the second date", self._triggered(state)
        if state.paused < 2:
            yield ("somebody pauses" if not state.paused else "somebody unpauses"), self._paused(state)
        if state.crashes < 2:
            carried = DagState.model_validate_json(state.dag).model_dump_json()
            yield "it goes on as new", self._settled(replace(state, dag=carried, crashes=state.crashes + 1))

    def _now(self, state: DagWorld) -> datetime:
        return START + timedelta(hours=state.hour, minutes=1)

    def _settled(self, state: DagWorld) -> DagWorld:
        """What the DAG's main loop does in one go."""
        dag, now = DagState.model_validate_json(state.dag), self._now(state)
        started, running = [*state.started], {*state.running}
        while (question := dag.question(now)) is not None:
            dag.take(_ticks(question), question.now)
            if not dag.can_still_create(now):
                break
        dag.create_due(now)
        for tracked in dag.startable(now):
            dag.start(tracked, now)
            started.append(tracked.run.key)
            running.add(tracked.run.key)
        return replace(state, dag=_lean(dag), started=tuple(started), running=frozenset(running))

    def _told(self, state: DagWorld, key: str) -> DagWorld:
        dag = DagState.model_validate_json(state.dag)
        dag.finish(RunReport(key=key, state=RunState.SUCCESS, ended_at=self._now(state), reason="it did"))
        return self._settled(replace(state, dag=_lean(dag)))

    def _triggered(self, state: DagWorld) -> DagWorld:
        dag, now = DagState.model_validate_json(state.dag), self._now(state)
        date = START + timedelta(hours=1)
        run = manual_run("d", self._spec.schedule, TriggerRequest(logical_date=date), now)
        try:
            dag.create(run, now, "a test")
        except DateTakenError:
            return replace(state, triggered=2)
        return self._settled(replace(state, dag=_lean(dag), triggered=1))

    def _paused(self, state: DagWorld) -> DagWorld:
        dag = DagState.model_validate_json(state.dag)
        dag.pause(not state.paused, self._now(state))
        return self._settled(replace(state, dag=_lean(dag), paused=state.paused + 1))

    def check(self, state: DagWorld) -> str | None:
        twice = {key for key in state.started if state.started.count(key) > 1}
        if twice:
            return f"{sorted(twice)} was started twice"
        if len(state.running) > self._limit:
            return f"{len(state.running)} runs at once, the limit is {self._limit}"
        early = [key for key in state.started if datetime.fromisoformat(key) > self._now(state)]
        return f"{early} has begun early" if early else None

    def check_end(self, state: DagWorld) -> str | None:
        dag = DagState.model_validate_json(state.dag)
        if dag.runs:
            return f"nothing follows, and {sorted(dag.runs)} are under way"
        wanted = {(START + timedelta(hours=n)).isoformat() for n in range(3)}
        if self._spec.catchup and wanted - {*state.started}:
            return f"{sorted(wanted - {*state.started})} never ran"
        return None


@cache
def _answer(question: str) -> str:
    return coming_runs(TimetableQuery.model_validate_json(question)).model_dump_json()


def _ticks(question: TimetableQuery) -> Ticks:
    return Ticks.model_validate_json(_answer(question.model_dump_json()))


def _lean(dag: DagState) -> str:
    """The state without what only tells of the past: it decides nothing."""
    dag.decisions = []
    for tracked in dag.runs.values():
        tracked.queued_at = START
        tracked.started_at = None
    dag.ledger = [record.model_copy(update={"ended_at": START, "queued_at": START}) for record in dag.ledger]
    return dag.model_dump_json()


# Events of an asset


@dataclass(frozen=True)
class AssetWorld:
    """The asset and two DAGs that wait for it, as JSON, and how often each event was taken by each."""

    asset: str
    gatherings: tuple[str, ...]
    told: int = 0
    taken: tuple[tuple[str, ...], ...] = ((), ())
    crashes: int = 0


class AssetSystem(System[AssetWorld]):
    """Three events of one asset for two DAGs; each may be told twice, and each delivery may be repeated."""

    name = "events of an asset: 3 events, 2 DAGs, 2 crashes"

    def __init__(self) -> None:
        self._asset = named_asset("a")
        self._condition = AssetAll(of=(self._asset,))

    def first(self) -> AssetWorld:
        asset = AssetState(asset=self._asset)
        for dag_id in ("d0", "d1"):
            asset.tie(Tie(dag_id=dag_id, consumes=True, asset=self._asset), START)
        gathering = Gathering()
        gathering.expect(self._condition, START)
        return AssetWorld(asset.model_dump_json(), (gathering.model_dump_json(),) * 2)

    def following(self, state: AssetWorld) -> Next[AssetWorld]:
        if state.told < 3:
            yield f"event {state.told}", self._tell(replace(state, told=state.told + 1), state.told)
        if state.told and state.crashes < 2:
            again = replace(state, crashes=state.crashes + 1)
            yield f"event {state.told - 1} is told again", self._tell(again, state.told - 1)
        asset = AssetState.model_validate_json(state.asset)
        for number in range(2):
            if asset.next_delivery(f"d{number}") is not None:
                yield f"DAG {number} hears", self._deliver(state, number, acknowledged=True)
                if state.crashes < 2:
                    lost = replace(state, crashes=state.crashes + 1)
                    yield f"DAG {number} hears, and will once more", self._deliver(lost, number, acknowledged=False)
            if Gathering.model_validate_json(state.gatherings[number]).is_due(self._condition):
                yield f"DAG {number} makes a run", self._take(state, number)

    def _tell(self, state: AssetWorld, number: int) -> AssetWorld:
        asset = AssetState.model_validate_json(state.asset)
        asset.add(ReportedEvent(cause=f"e{number}"), START + timedelta(hours=number + 1))
        return replace(state, asset=asset.model_dump_json())

    def _deliver(self, state: AssetWorld, number: int, *, acknowledged: bool) -> AssetWorld:
        asset = AssetState.model_validate_json(state.asset)
        gathering = Gathering.model_validate_json(state.gatherings[number])
        delivery = asset.next_delivery(f"d{number}")
        assert delivery is not None
        for event in delivery.events:
            gathering.hear(event, self._condition, paused=False, now=START + timedelta(hours=10))
        if acknowledged:
            asset.delivered(f"d{number}", len(delivery.events))
        made = _put_gathering(state, number, gathering)
        return replace(made, asset=asset.model_dump_json())

    def _take(self, state: AssetWorld, number: int) -> AssetWorld:
        gathering = Gathering.model_validate_json(state.gatherings[number])
        run = gathering.take(self._condition, catchup=False, all_of_it=True)
        made = _put_gathering(state, number, gathering)
        mine = (*state.taken[number], *(event.cause for event in run.events))
        return replace(made, taken=(mine, state.taken[1]) if number == 0 else (state.taken[0], mine))

    def check(self, state: AssetWorld) -> str | None:
        for number, taken in enumerate(state.taken):
            if len({*taken}) < len(taken):
                return f"DAG {number} took {taken}"
        return None

    def check_end(self, state: AssetWorld) -> str | None:
        for number, taken in enumerate(state.taken):
            if sorted(taken) != ["e0", "e1", "e2"]:
                return f"DAG {number} took {taken}"
        return None


def _put_gathering(state: AssetWorld, number: int, gathering: Gathering) -> AssetWorld:
    gatherings = [*state.gatherings]
    gatherings[number] = gathering.model_dump_json()
    return replace(state, gatherings=tuple(gatherings))


SYSTEMS: tuple[Callable[[], System[object]], ...] = (
    lambda: PoolSystem(2, (1, 1, 2)),  # type: ignore[return-value]
    lambda: PoolSystem(1, (1, 1, 1)),  # type: ignore[return-value]
    lambda: PoolSystem(2, (1, 1, 1), crashes=0, tasks=3),  # type: ignore[return-value]
    lambda: PoolSystem(2, (1, 1, 1), crashes=1, tasks=2),  # type: ignore[return-value]
    lambda: DagSystem(1, catchup=True),  # type: ignore[return-value]
    lambda: DagSystem(2, catchup=True),  # type: ignore[return-value]
    lambda: DagSystem(1, catchup=False),  # type: ignore[return-value]
    lambda: AssetSystem(),  # type: ignore[return-value]
)


LARGER: tuple[Callable[[], System[object]], ...] = (
    lambda: PoolSystem(2, (1, 1, 1), crashes=2, tasks=3),  # type: ignore[return-value]
)
"""With millions of states, each of which is kept in memory."""


def explore_all(*, larger: bool = False) -> bool:
    """Explores every system and prints what was found. Returns whether all is well."""
    well = True
    for make in SYSTEMS + (LARGER if larger else ()):
        found = explore(make(), most=20_000_000 if larger else 400_000)
        print(f"all states of {found.name}: {found.states:,} in {found.seconds:.1f} s", flush=True)
        if found.wrong is not None:
            well = False
            print(f"  {found.wrong}, by:", *found.steps, sep="\n    ")
    return well
