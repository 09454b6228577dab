"""What a simulation says: limits, pools, workers, retries, downtimes and assets, by the engine's own decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support import bash, dag, empty
from tidemill.model.errors import InvalidInputError
from tidemill.model.pool.state import PoolSettings
from tidemill.model.simulation.assumptions import Assumptions, Downtime
from tidemill.model.simulation.simulate import simulate
from tidemill.model.simulation.simulation import Simulation
from tidemill.model.simulation.summary import most_at_once, summaries
from tidemill.model.spec.dag import DagSpec

MINUTE = timedelta(minutes=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def hourly(dag_id: str, tasks: list[Any], **more: Any) -> DagSpec:
    return dag(dag_id, tasks, **{"schedule": "@hourly", "start_date": START.isoformat(), "catchup": True, **more})


def after(hours: float, *specs: DagSpec, **assumed: Any) -> Simulation:
    return simulate(specs, START, START + hours * HOUR, Assumptions(**assumed))


def test_runs_are_made_when_they_are_due_and_take_as_long_as_their_tasks() -> None:
    found = after(
        5.5, hourly("d", [bash("a", "x"), bash("b", "x", "a"), empty("c", "b")]), duration=10 * timedelta(minutes=1)
    )
    assert [run.run_after for run in found.runs] == [START + n * HOUR for n in range(1, 6)]
    assert {run.ended_at - run.started_at for run in found.runs if run.ended_at and run.started_at} == {HOUR / 3}
    assert {run.state for run in found.runs} == {"success"}
    assert len(found.tries) == 10


def test_max_active_runs_holds_up_and_the_delay_grows() -> None:
    slow = {"duration": 2 * HOUR}
    alone = after(24, hourly("d", [bash("a", "x")], max_active_runs=1), **slow)
    assert most_at_once((r.started_at, r.ended_at or alone.end) for r in alone.runs if r.started_at) == 1
    [summary] = summaries(alone)
    assert summary.longest_delay > 10 * 3600
    [wider] = summaries(after(24, hourly("d", [bash("a", "x")], max_active_runs=4), **slow))
    assert (wider.longest_delay, wider.max_tasks) == (0, 2)


def test_pools_and_workers_let_in_as_many_as_they_have() -> None:
    tasks = [bash(f"t{n}", "x", pool="few") for n in range(6)]
    pooled = after(2.9, hourly("d", tasks), pools={"few": PoolSettings(slots=2)})
    assert most_at_once((t.started_at, t.ended_at) for t in pooled.tries if t.started_at and t.ended_at) == 2
    assert pooled.notes == ()
    assert after(2, hourly("d", tasks)).notes == ("pool 'few' is taken to be unlimited",)
    workers = after(2.9, hourly("d", [bash(f"t{n}", "x") for n in range(6)]), worker_slots=3)
    assert most_at_once((t.started_at, t.ended_at) for t in workers.tries if t.started_at and t.ended_at) == 3
    assert {t.started_at - t.queued_at for t in workers.tries if t.started_at} == {timedelta(), timedelta(minutes=1)}


def test_tries_fail_and_are_retried_as_the_task_says() -> None:
    task = bash("a", "x", retries=1, retry_delay=600)
    [run] = after(1.9, hourly("d", [task]), failing_tries={"d.a": 1}).runs
    assert (run.state, run.ended_at) == ("success", START + HOUR + timedelta(minutes=12))
    failed = after(1.9, hourly("d", [task, bash("b", "x", "a")]), failing_tries={"d.a": 2})
    assert [run.state for run in failed.runs] == ["failed"]
    assert [(t.try_number, t.state) for t in failed.tries] == [(1, "up_for_retry"), (2, "failed")]


def test_after_a_downtime_catchup_decides_what_is_made() -> None:
    down = (Downtime(start=START + 1.5 * HOUR, end=START + 5.5 * HOUR),)
    all_of_them = after(6.9, hourly("d", [bash("a", "x")]), downtimes=down)
    assert [run.created_at for run in all_of_them.runs] == [START + n * HOUR for n in (1, 5.5, 5.5, 5.5, 5.5, 6)]
    latest = after(6.9, hourly("d", [bash("a", "x")], catchup=False), downtimes=down)
    assert [run.logical_date for run in latest.runs][-2:] == [START + 4 * HOUR, START + 5 * HOUR]


def test_a_task_that_depends_on_the_past_waits_for_it() -> None:
    found = after(6, hourly("d", [bash("a", "x", depends_on_past=True)], max_active_runs=9), duration=2 * HOUR)
    assert most_at_once((t.started_at, t.ended_at or found.end) for t in found.tries if t.started_at) == 1


@pytest.mark.parametrize("kind", ["asset", "ref"])
def test_an_asset_wakes_who_waits_for_it(kind: str) -> None:
    asset = {"kind": "asset", "name": "sales"}
    writes = hourly("writes", [bash("a", "x", outlets=[{"kind": kind, "name": "sales"}])])
    reads = dag("reads", [bash("b", "x")], schedule={"kind": "asset", "condition": asset})
    runs = [run for run in after(3.5, writes, reads).runs if run.dag_id == "reads"]
    assert [run.created_at for run in runs] == [START + n * HOUR + timedelta(minutes=1) for n in (1, 2, 3)]


def test_mapped_tasks_have_as_many_instances_as_is_assumed() -> None:
    mapped = bash("each", "x", "a", expand={"by": {"command": {"$xcom": "a"}}, "into": "fields"})
    found = after(1.5, hourly("d", [bash("a", "x"), mapped]), map_lengths={"d.each": 3})
    assert [t.key for t in found.tries] == ["a", "each[0]", "each[1]", "each[2]"]


def test_what_cannot_be_simulated_is_said() -> None:
    with pytest.raises(InvalidInputError, match="is no period"):
        simulate([], START, START, Assumptions())
    own = dag("own", [empty("a")], schedule={"kind": "custom", "name": "mine:Mine"})
    with pytest.raises(InvalidInputError, match="'own': its timetable is a class of its own"):
        after(1, own)


# Bounds


def test_no_task_starts_in_a_downtime_and_those_under_way_go_on() -> None:
    down = (Downtime(start=START + 1.5 * HOUR, end=START + 12 * HOUR),)
    chain = [bash("a", "x"), bash("b", "x", "a", retries=1, retry_delay=60), bash("c", "x", "b")]
    spec = hourly("d", chain, schedule="@once", catchup=False)
    found = after(20, spec, duration=HOUR, failing_tries={"d.b": 1}, downtimes=down)
    spans = [
        (t.key, (t.started_at - START) / HOUR, (t.ended_at - START) / HOUR)
        for t in found.tries
        if t.started_at and t.ended_at
    ]
    assert spans[:2] == [("a", 0, 1), ("b", 1, 2)], "b ends while nobody is there to see it"
    assert spans[2] == ("b", 12 + 1 / 60, 13 + 1 / 60)
    assert spans[3][0] == "c"


def test_a_moment_in_a_downtime_is_noticed_behind_it() -> None:
    down = (
        Downtime(start=START + 1.5 * HOUR, end=START + 4 * HOUR),
        Downtime(start=START + 3 * HOUR, end=START + 8 * HOUR),
    )
    spec = hourly("d", [bash("a", "x")], dagrun_timeout=3600 * 1.5)
    found = after(7.9, spec, duration=10 * HOUR, downtimes=down)
    assert {(run.created_at - START) / HOUR for run in found.runs} == {1}, "overlapping downtimes are one"
    assert found.runs[0].ended_at is None
    later = after(8.5, spec, duration=10 * HOUR, downtimes=down)
    assert later.runs[0].ended_at == START + 8 * HOUR


def test_runs_that_a_limit_keeps_from_being_made_are_counted() -> None:
    spec = hourly("d", [bash("a", "x")], max_active_runs=1, deadline=3600)
    [summary] = summaries(after(24.5, spec, duration=2 * HOUR))
    assert (summary.runs, summary.succeeded, summary.unfinished) == (24, 11, 13)
    assert summary.missed_deadlines == 23
    assert summary.max_queued == 12
    latest = hourly("d", [bash("a", "x")], max_active_runs=1, catchup=False)
    [summary] = summaries(after(24.5, latest, duration=2.5 * HOUR))
    assert summary.unfinished <= 2, "without catchup only the latest waits"


def test_a_run_that_times_out_frees_its_worker_at_once() -> None:
    spec = hourly("d", [bash("a", "x")], dagrun_timeout=1800)
    found = after(5.9, spec, duration=10 * HOUR, worker_slots=1)
    assert {t.started_at - t.queued_at for t in found.tries if t.started_at} == {timedelta()}
    assert [run.state for run in found.runs] == ["failed"] * 5


def test_a_task_that_a_timeout_has_skipped_lets_the_next_run_begin() -> None:
    """As its engine has it: a skipped task is good enough for `depends_on_past`."""
    slow = bash("slow", "x", depends_on_past=True)
    found = after(4.5, hourly("d", [slow], dagrun_timeout=600), duration=20 * timedelta(minutes=1))
    assert [(run.state, run.reason) for run in found.runs] == [("failed", "dagrun_timeout of 0:10:00 was exceeded")] * 4
    assert [(one.state, one.started_at) for one in found.tries] == [("skipped", START + n * HOUR) for n in range(1, 5)]


def test_a_wait_that_a_timeout_has_ended_has_an_end() -> None:
    wait = {"kind": "wait_until", "task_id": "w", "delta": 3600}
    found = after(2.5, hourly("d", [wait], dagrun_timeout=600))
    assert [(one.state, one.ended_at) for one in found.tries] == [
        ("skipped", START + n * HOUR + timedelta(minutes=10)) for n in (1, 2)
    ]


def test_thousands_that_wait_for_a_worker_may_end_together() -> None:
    spec = hourly("d", [bash(f"t{n}", "x") for n in range(2000)], schedule="@once", max_active_tasks=500,
                  dagrun_timeout=3600)  # fmt: skip
    [run] = after(5, spec, duration=2 * HOUR, worker_slots=1).runs
    assert run.state == "failed"


def test_a_task_that_is_mapped_over_nothing_is_skipped() -> None:
    mapped = bash(
        "each", "x", "src", expand={"by": {"command": {"__xcom__": "src", "key": "return_value"}}, "into": "fields"}
    )
    spec = hourly(
        "d", [bash("src", "x"), mapped, bash("after", "x", "each", trigger_rule="none_failed")], schedule="@once"
    )
    found = after(3, spec, map_lengths={"d.each": 0})
    assert [t.key for t in found.tries] == ["src", "after"]
    assert found.runs[0].state == "success"


@pytest.mark.parametrize(("assumed", "found"), [({}, 3), ({"d.each": 2}, 2)])
def test_values_that_are_written_in_the_dag_are_as_many_as_they_are(assumed: dict[str, int], found: int) -> None:
    mapped = bash("each", "x", expand={"by": {"command": ["a", "b", "c"]}, "into": "fields"})
    tries = after(3, hourly("d", [mapped], schedule="@once"), map_lengths=assumed).tries
    assert len(tries) == found


@pytest.mark.parametrize(("task", "lengths", "found"), [
    (bash("a", "x", execution_timeout=30, retries=1, retry_delay=60), {"duration": MINUTE},
     [("up_for_retry", 30), ("failed", 30)]),
    (bash("a", "x", execution_timeout=30), {"durations": {"d.a": MINUTE}}, [("failed", 30)]),
    (bash("a", "x", execution_timeout=30), {}, [("success", 30)]),
    (bash("a", "x", execution_timeout=90), {"duration": MINUTE}, [("success", 60)]),
    ({"kind": "bash_sensor", "task_id": "a", "command": "x", "timeout": 30, "retries": 3}, {"duration": MINUTE},
     [("failed", 30)]),
    ({"kind": "bash_sensor", "task_id": "a", "command": "x", "timeout": 30, "soft_fail": True}, {"duration": MINUTE},
     [("skipped", 30)]),
])  # fmt: skip
def test_what_takes_longer_than_it_may_ends_as_in_a_run(
    task: dict[str, Any], lengths: dict[str, Any], found: list[tuple[str, int]]
) -> None:
    tries = after(3, hourly("d", [task], schedule="@once"), **lengths).tries
    took = [(one.ended_at - one.started_at).total_seconds() for one in tries if one.started_at and one.ended_at]
    assert list(zip([one.state for one in tries], took, strict=True)) == found


def test_two_dags_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="dag_id = 'd': two DAGs have it"):
        after(3, hourly("d", [bash("a", "x")]), hourly("d", [bash("b", "x")]))


def test_an_empty_task_waits_for_a_pool_that_another_dag_fills() -> None:
    fills = hourly("fills", [bash("a", "x", pool="p", pool_slots=2)], schedule="@once")
    waits = hourly("waits", [empty("a", pool="p", pool_slots=2)], schedule="@once")
    found = after(5, fills, waits, pools={"p": PoolSettings(slots=2)}, duration=2 * HOUR)
    assert found.runs_of(["waits"])[0].ended_at == START + 2 * HOUR
    assert found.max_waiting == {"p": 1}


def test_what_is_not_simulated_is_noted() -> None:
    triggers = {"kind": "trigger_dag", "task_id": "t", "trigger_dag_id": "inner", "wait_for_completion": True}
    endless = hourly("endless", [empty("a")], schedule="@continuous", max_active_runs=1)
    notes = after(3, hourly("outer", [triggers]), endless).notes
    assert "task outer.t is taken for other work: it triggers no run of 'inner' here" in notes
    assert "DAG endless: its runs take no time, so that there is no end of them" in notes


def test_the_pool_of_spark_is_as_large_as_it_is_made() -> None:
    spark = [{"kind": "spark_submit", "task_id": f"s{n}", "application": "x.py"} for n in range(150)]
    spec = hourly("d", spark, schedule="@once", max_active_tasks=500)
    found = after(3, spec)
    assert most_at_once((t.started_at, t.ended_at) for t in found.tries if t.started_at and t.ended_at) == 128
    assert found.notes == ()
