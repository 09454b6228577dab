"""What is simulated once and told again, and apart, is what comes of simulating all of it in one world."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import bash, dag, empty
from tidemill.model.pool.state import PoolSettings
from tidemill.model.simulation import simulate, world
from tidemill.model.simulation.assumptions import Assumptions, Downtime
from tidemill.model.simulation.load import over_time, pools_used, runs_that_wait, tasks_that_run
from tidemill.model.simulation.simulation import Simulation
from tidemill.model.simulation.summary import summaries
from tidemill.model.spec.dag import DagSpec, read_dag

BEGIN = datetime(2026, 3, 27, tzinfo=UTC)
"""Two days before the clocks of Berlin are moved."""
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
CRONS = ["@hourly", "20 * * * *", "0 */3 * * *", "@daily", "0 0 1 * *", "30 6 * * 1-5", "0 1,13 * * *"]


@st.composite
def schedules(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(["cron", "zone", "trigger", "delta", "many", "none"]))
    expression = draw(st.sampled_from(CRONS))
    return {
        "cron": expression,
        "zone": {"kind": "cron_interval", "expression": expression, "timezone": "Europe/Berlin"},
        "trigger": {"kind": "cron_trigger", "expression": expression, "timezone": "Europe/Berlin"},
        "delta": {"kind": "delta_interval", "delta": draw(st.sampled_from(["PT45M", "PT2H", "P1D"]))},
        "many": {"kind": "multi_cron_trigger", "expressions": ["0 4 * * *", "30 */6 * * *"]},
        "none": None,
    }[kind]


@st.composite
def specs(draw: st.DrawFn, dag_id: str) -> DagSpec:
    tasks = []
    for n in range(draw(st.integers(1, 3))):
        upstream = draw(st.lists(st.sampled_from([f"t{i}" for i in range(n)]), max_size=2, unique=True)) if n else []
        more: dict[str, Any] = {"retries": 1, "retry_delay": 60, "retry_exponential_backoff": 2}
        if draw(st.booleans()):
            more["pool"] = draw(st.sampled_from(["few", "more", "unknown"]))
            more["pool_slots"] = draw(st.integers(1, 2))
        if draw(st.integers(0, 4)) == 0:
            more["max_active_tis_per_dag"] = 1
        if draw(st.integers(0, 4)) == 0:
            more["depends_on_past"] = True
        kind = draw(st.sampled_from(["bash", "bash", "empty", "wait"]))
        task = empty(f"t{n}", *upstream) if kind == "empty" else bash(f"t{n}", "x", *upstream, **more)
        if kind == "wait":
            task = {"kind": "wait_until", "task_id": f"t{n}", "delta": 60 * draw(st.integers(1, 90))}
            task |= {"upstream": upstream, **more}
        tasks.append(task)
    more = {"deadline": 3600} if draw(st.booleans()) else {}
    if draw(st.integers(0, 3)) == 0:
        more["end_date"] = (BEGIN + draw(st.integers(6, 100)) * HOUR).isoformat()
    if draw(st.integers(0, 5)) == 0:
        more["dagrun_timeout"] = 60 * draw(st.integers(5, 100))
    return dag(
        dag_id,
        tasks,
        schedule=draw(schedules()),
        start_date=(BEGIN - draw(st.integers(-5, 5)) * HOUR).isoformat(),
        catchup=draw(st.booleans()),
        max_active_runs=draw(st.integers(1, 3)),
        **more,
    )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[DagSpec], Assumptions]:
    found = [draw(specs(f"team.d{n}")) for n in range(draw(st.integers(1, 4)))]
    assumed: dict[str, Any] = {"duration": MINUTE * draw(st.sampled_from([1, 7, 30, 50]))}
    for spec in found:
        for task in spec.tasks:
            if draw(st.integers(0, 4)) == 0:
                minutes = draw(st.integers(1, 150))
                assumed.setdefault("durations", {})[f"{spec.dag_id}.{task.task_id}"] = MINUTE * minutes
            elif draw(st.integers(0, 12)) == 0:
                assumed.setdefault("failing_tries", {})[f"{spec.dag_id}.{task.task_id}"] = 1
    assumed["pools"] = {"few": PoolSettings(slots=draw(st.integers(2, 3))), "more": PoolSettings(slots=8)}
    assumed["worker_slots"] = draw(st.sampled_from([None, 2, 6]))
    if draw(st.integers(0, 2)) == 0:
        down = BEGIN + draw(st.integers(0, 100)) * HOUR
        assumed["downtimes"] = (Downtime(start=down, end=down + draw(st.integers(1, 400)) * MINUTE),)
    return found, Assumptions(**assumed)


def in_one(found: list[DagSpec], assumed: Assumptions, end: datetime) -> Simulation:
    """All of it, one event after the other."""
    with (
        patch.object(world, "may_repeat", lambda *_: False),
        patch.object(simulate, "groups", lambda specs, _: [specs]),
    ):
        return simulate.simulate(found, BEGIN, end, assumed)


def told(simulation: Simulation) -> Any:
    runs = sorted(run.model_dump_json() for run in simulation.runs)
    tries = sorted(one.model_dump_json() for one in simulation.tries)
    load = [
        over_time(find(simulation), simulation.start, simulation.end, 50) for find in (tasks_that_run, runs_that_wait)
    ]
    return runs, tries, summaries(simulation), load, pools_used(simulation, {}), simulation.notes


@pytest.mark.thorough
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(worlds())
def test_nothing_is_lost_by_telling_what_comes_again_once(drawn: tuple[list[DagSpec], Assumptions]) -> None:
    found, assumed = drawn
    end = BEGIN + timedelta(days=6)
    assert told(simulate.simulate(found, BEGIN, end, assumed)) == told(in_one(found, assumed, end))


def test_a_wait_of_no_length_is_none_whoever_else_is_there() -> None:
    """Slots are given back at the moment at which another DAG asks: in one world that was counted as a wait."""
    documents = json.loads((Path(__file__).parents[1] / "data" / "simulation_at_one_instant.json").read_text())
    found = [read_dag(document) for document in documents["specs"]]
    pools = {"few": PoolSettings(slots=2), "more": PoolSettings(slots=8)}
    assumed, end = Assumptions(duration=MINUTE, pools=pools), BEGIN + timedelta(days=6)
    whole = in_one(found, assumed, end)
    assert whole.max_waiting["few"] == 0
    assert told(simulate.simulate(found, BEGIN, end, assumed)) == told(whole)


def hourly(dag_id: str, **more: Any) -> DagSpec:
    return dag(dag_id, [bash("a", "x")], **{"schedule": "@hourly", "start_date": BEGIN.isoformat(), **more})


def test_a_year_is_simulated_in_a_few_steps_and_told_whole() -> None:
    berlin = {"kind": "cron_interval", "expression": "0 0 * * *", "timezone": "Europe/Berlin"}
    both, end = [hourly("h"), hourly("b", schedule=berlin)], BEGIN + 365 * 24 * HOUR
    found = simulate.simulate(both, BEGIN, end, Assumptions())
    assert len(found.periods) < 10
    [of_berlin, of_hours] = summaries(found)
    assert (of_hours.runs, of_hours.last_end) == (365 * 24 - 1, end - 59 * MINUTE)
    runs = found.runs
    assert len({(run.dag_id, run.run_id) for run in runs}) == len(runs) == of_hours.runs + of_berlin.runs
    lengths = Counter(then.run_after - run.run_after for run, then in pairwise(found.runs_of({"b"})))
    assert lengths == {23 * HOUR: 1, 24 * HOUR: 361, 25 * HOUR: 1}


def test_a_dag_that_begins_later_ends_what_came_again() -> None:
    both = [hourly("a"), hourly("b", start_date=(BEGIN + 50 * HOUR).isoformat())]
    assumed, end = Assumptions(duration=10 * MINUTE, worker_slots=1), BEGIN + 100 * HOUR
    found = simulate.simulate(both, BEGIN, end, assumed)
    assert told(found) == told(in_one(both, assumed, end))
    assert len(found.periods) < 10
    assert {summary.max_tasks for summary in summaries(found)} == {1}
    assert summaries(found)[1].longest_delay == 0  # a run begins at once, and waits for the worker
    waits = {one.started_at - one.queued_at for one in found.tries if one.dag_id == "b" and one.started_at is not None}
    assert waits == {10 * MINUTE}


def test_what_happened_in_a_downtime_is_no_pattern() -> None:
    down = (Downtime(start=BEGIN + 1.1 * HOUR, end=BEGIN + 1.9 * HOUR),)
    assumed, end = Assumptions(duration=10 * MINUTE, downtimes=down), BEGIN + 20 * HOUR
    one = [hourly("a", max_active_runs=1, catchup=True)]
    assert told(simulate.simulate(one, BEGIN, end, assumed)) == told(in_one(one, assumed, end))


def together(simulation: Simulation) -> set[frozenset[str]]:
    return {frozenset(run.dag_id for run in period.runs) for period in simulation.periods}


def test_pools_are_shared_only_where_they_are_short() -> None:
    often = {"schedule": "@hourly", "start_date": BEGIN.isoformat()}
    dags = [dag(f"d{n}", [bash("a", "x", pool="few")], **often) for n in range(3)]
    slow, end = {"duration": 10 * MINUTE}, BEGIN + 5 * HOUR
    wide = simulate.simulate(dags, BEGIN, end, Assumptions(**slow, pools={"few": PoolSettings(slots=3)}))
    assert together(wide) == {frozenset({"d0"}), frozenset({"d1"}), frozenset({"d2"})}
    narrow = simulate.simulate(dags, BEGIN, end, Assumptions(**slow, pools={"few": PoolSettings(slots=2)}))
    assert together(narrow) == {frozenset({"d0", "d1", "d2"})}
    assert [one.max_tasks for one in pools_used(narrow, {})] == [2]
