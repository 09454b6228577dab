"""The two drivers of the engine, Temporal's and that of `tidemill dags test`: the same tasks come to the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support import Stack
from tidemill.activities.dag_files import each_dag_file
from tidemill.model.run.views import RunDetails
from tidemill.worker.cli.dag_commands import dag_in
from tidemill.worker.local.run import run_locally

HEAD = """
from datetime import datetime, timedelta
from tidemill import *

MARKS = {marks!r}

"""
CASES = {
    "results": """
with DAG("results", schedule=None):
    @task(do_xcom_push=False)
    def silent(ti=None):
        ti.xcom_push(key="mine", value=1)
        return 7

    @task
    def pull(ti=None):
        return [ti.xcom_pull(task_ids="silent"), ti.xcom_pull(task_ids="silent", key="mine")]

    @task
    def too_large():
        return "x" * 1_100_000

    silent() >> pull() >> too_large() >> EmptyOperator(task_id="after")
""",
    "beside": """
import time

with DAG("beside", schedule=None):
    @task
    def single():
        return {"x": 1}

    @task
    def several(n):
        if n == 1:
            raise AirflowSkipException("a gap")
        return [n]

    @task
    def looks(ti=None):  # none of them is upstream of it
        found, until = None, time.monotonic() + 120
        while found != [[0], [2]]:
            assert time.monotonic() < until, found
            found = ti.xcom_pull(task_ids="several", include_prior_dates=True)
        while ti.xcom_pull(task_ids="single") is None:
            assert time.monotonic() < until
        assert ti.xcom_pull(task_ids=["single", "several"], default=0) == [{"x": 1}, [[0], [2]]]
        assert ti.xcom_pull(task_ids="several", map_indexes=[2, 1], default=0) == [[2], 0]
        assert ti.xcom_pull(task_ids="single", key="other", default=0) == 0
        assert ti.xcom_pull(task_ids="single", run_id="another", default=0) == 0
        assert ti.xcom_pull(task_ids="single", dag_id="nowhere", default=0) == 0

    single(), several.expand(n=[0, 1, 2]), looks()
""",
    "branches": """
with DAG("branches", schedule=None):
    @task.branch
    def choose(): raise AirflowSkipException("not today")
    @task(trigger_rule="all_done")
    def after_branch(): return 1
    choose() >> after_branch()

    @task.short_circuit
    def gate(): raise AirflowSkipException("not today")
    @task(trigger_rule="all_done")
    def after_gate(): return 1
    gate() >> after_gate()

    @task.branch
    def nowhere(): return "there is no such task"
    nowhere() >> EmptyOperator(task_id="below")

    @task.branch(retries=1, retry_delay=0)
    def left_or_right(ti=None):
        if ti.try_number == 1:
            raise ValueError("not yet")
        return "left"
    left_or_right() >> [EmptyOperator(task_id="left"), EmptyOperator(task_id="right")]

    @task.short_circuit(ignore_downstream_trigger_rules=False)
    def closed(): return False
    closed() >> EmptyOperator(task_id="shut") >> EmptyOperator(task_id="open", trigger_rule="all_done")
""",
    "sensors": """
with DAG("sensors", schedule=None):
    PythonSensor(task_id="soft", python_callable=lambda: False, timeout=2, poke_interval=1, soft_fail=True)
    PythonSensor(task_id="hard", python_callable=lambda: False, timeout=2, poke_interval=1)
    BashSensor(task_id="again", bash_command=f"test -e {MARKS}/again || {{ touch {MARKS}/again; exit 1; }}",
               poke_interval=1, mode="reschedule")

    @task.sensor(timeout=10, poke_interval=1, soft_fail=True, retries=2, retry_delay=0)
    def gives_up(): raise AirflowFailException("it will not come")

    @task.sensor(timeout=10, poke_interval=1, soft_fail=True, retries=1, retry_delay=0)
    def is_broken(): raise ValueError("a defect")

    gives_up() >> EmptyOperator(task_id="after_it")
    is_broken()
""",
    "moments": """
from datetime import timezone

with DAG("moments", schedule=None):
    never = datetime.now(timezone.utc) + timedelta(days=900)
    DateTimeSensor(task_id="past", target_time="2020-01-01") >> EmptyOperator(task_id="after_past")
    DateTimeSensor(task_id="no_time", target_time="not a time") >> EmptyOperator(task_id="after_no_time")
    DateTimeSensor(task_id="gives_up", target_time=never, timeout=1) >> EmptyOperator(task_id="after_it")
    DateTimeSensor(task_id="skips", target_time=never, timeout=1, soft_fail=True)
    TimeDeltaSensor(task_id="long", delta=timedelta(days=900), timeout=1, soft_fail=True, retries=2)
    LatestOnlyOperator(task_id="latest") >> EmptyOperator(task_id="after_latest")
""",
    "failures": """
with DAG("failures", schedule=None):
    @task(retries=2, retry_delay=0)
    def third(ti=None):
        ti.xcom_push(key="tries", value=ti.try_number)
        if ti.try_number < 3:
            raise ValueError("not yet")

    @task(retries=3, retry_delay=0)
    def for_good(): raise AirflowFailException("never")

    @task(retries=3, retry_delay=0, no_retry_on=["KeyError"])
    def told(): {}["x"]

    BashOperator(task_id="skips", bash_command="exit 99") >> EmptyOperator(task_id="skipped_too")
    BashOperator(task_id="fails", bash_command="exit 1") >> [
        EmptyOperator(task_id="upstream_failed"), EmptyOperator(task_id="cleans", trigger_rule="one_failed"),
        EmptyOperator(task_id="none_failed", trigger_rule="none_failed")]
    third() >> EmptyOperator(task_id="after_third")
    for_good() >> EmptyOperator(task_id="all_failed", trigger_rule="all_failed")
    told()
""",
    "mapped": """
with DAG("mapped", schedule=None):
    @task
    def numbers(): return [1, 2, 3]

    @task(retries=1, retry_delay=0)
    def twice(n, ti=None):
        if n == 2 and ti.try_number == 1:
            raise ValueError("the second fails once")
        if n == 3:
            raise AirflowSkipException("not the third")
        return 2 * n

    @task(trigger_rule="none_failed")
    def total(found): return sum(found)

    @task
    def none(): return []

    total(twice.expand(n=numbers()))
    twice.override(task_id="of_none").expand(n=none()) >> EmptyOperator(task_id="after_none")

    @task
    def no_list(): return 7
    twice.override(task_id="of_no_list").expand(n=no_list())

    @task_group
    def pair(n):
        @task
        def one(n): return n
        @task
        def two(n):
            if n == 2:
                raise ValueError("the second")
            return n
        two(one(n))
    pair.expand(n=[1, 2, 3])
""",
    "setups": """
with DAG("setups", schedule=None):
    @setup
    def begin(): return 1
    @teardown
    def end(): return 2
    @task
    def work(): raise ValueError("no")
    begin() >> work() >> end()

    @setup
    def fails(): raise ValueError("no")
    @teardown
    def not_needed(): return 2
    fails() >> EmptyOperator(task_id="never") >> not_needed()
""",
    "pools": """
with DAG("pools", schedule=None, max_active_tasks=1):
    for name in ("a", "b", "c"):
        BashOperator(task_id=name, bash_command="true", max_active_tis_per_dag=1)
    LatestOnlyOperator(task_id="latest") >> EmptyOperator(task_id="late")
""",
    "values": """
with DAG("values", schedule=None):
    @task
    def load(ti=None):
        ti.xcom_push("rejected", [f"row {n:06d}" for n in range(200)])
        for n in range(12):
            ti.xcom_push(f"k{n}", n)
        raise ValueError("200 rows were rejected")

    @task
    def skips(ti=None):
        ti.xcom_push("why", "a holiday")
        raise AirflowSkipException("not today")

    @task(trigger_rule="all_done")
    def arrived(ti=None):
        assert len(ti.xcom_pull(task_ids="load", key="rejected")) == 200
        assert [ti.xcom_pull(task_ids="load", key=f"k{n}") for n in range(12)] == [*range(12)]
        assert ti.xcom_pull(task_ids="skips", key="why") == "a holiday"

    @task
    def numbers(): return [0, 1, 2, 3]

    @task
    def twice(n):
        if n == 1:
            raise AirflowSkipException("a gap")
        return 2 * n

    @task(trigger_rule="none_failed")
    def by_index(ti=None):
        assert ti.xcom_pull(task_ids="twice") == [0, 4, 6]
        assert ti.xcom_pull(task_ids="twice", map_indexes=3) == 6
        assert ti.xcom_pull(task_ids="twice", map_indexes=[2, 0]) == [4, 0]
        assert ti.xcom_pull(task_ids="twice", map_indexes=1, default="none") == "none"

    @task
    def zipped(row): return row

    @task
    def in_pairs(found): assert [*found] == [[[0, 0], 0], [[1, 1], 1], [[2, 2], 2], [[3, 3], 3]], found

    @task
    def no_number(): return {"nan": float("nan")}

    [load(), skips()] >> arrived()
    found = numbers()
    twice.expand(n=found) >> by_index()
    in_pairs(zipped.expand(row=found.zip(found).zip(found)))
    no_number()
""",
    "ends": """
with DAG("ends", schedule=None, fail_fast=True):
    BashOperator(task_id="fails", bash_command="exit 1") >> EmptyOperator(task_id="below")
    EmptyOperator(task_id="beside")
""",
}

LIMITS = """
import time

with DAG("limits", schedule=None):
    @task(execution_timeout=timedelta(seconds=1), retries=1, retry_delay=0)
    def slow(): time.sleep(60)

    @task(execution_timeout=timedelta(seconds=1))
    def catches():
        try:
            time.sleep(60)
        except Exception:
            pass

    @task.sensor(execution_timeout=timedelta(seconds=1), poke_interval=1, timeout=30)
    def pokes():
        time.sleep(60)
        return True

    @task(execution_timeout=timedelta(seconds=60))
    def quick(): return 1

    BashOperator(task_id="command", bash_command="sleep 60", execution_timeout=timedelta(seconds=1))
    slow(), catches(), pokes() >> EmptyOperator(task_id="after"), quick()
"""
"""What ends it in a process that is a task's own is a signal in one that is not: of the main thread alone."""


WRONG: dict[str, set[str]] = {"beside": set(), "values": {"load", "no_number"}}
"""By case, where the file itself says what is right: the tasks that fail."""


def facts_of(details: RunDetails) -> dict[str, object]:
    """What both have to agree on, task by task."""
    tasks = {
        task.key: (
            str(task.state),
            task.try_number,
            [str(attempt.state) for attempt in task.attempts],
            [attempt.failure.error_type for attempt in task.attempts if attempt.failure is not None],
        )
        for task in details.tasks
    }
    return {"run": str(details.state), **tasks}


@pytest.mark.parametrize("case", CASES)
async def test_every_task_comes_to_the_same(here: Stack, tmp_path: Path, case: str) -> None:
    files = [tmp_path / driver / "dags.py" for driver in ("temporal", "local")]
    for file in files:
        file.parent.mkdir()
        file.write_text(HEAD.format(marks=str(file.parent)) + CASES[case])
    [parsed] = each_dag_file(files[0])
    assert parsed.error is None, parsed.error
    by_temporal = await here.run_once(parsed.dags[0])
    locally = await asyncio.to_thread(run_locally, dag_in(files[1], case))
    assert facts_of(locally) == facts_of(by_temporal)
    if case in WRONG:
        assert {task.key for task in by_temporal.tasks if str(task.state) == "failed"} == WRONG[case]


def test_execution_timeout_holds_without_a_server(tmp_path: Path) -> None:
    file = tmp_path / "dags.py"
    file.write_text(HEAD.format(marks="") + LIMITS)
    found = facts_of(run_locally(dag_in(file, "limits")))
    timed_out = ("failed", 1, ["failed"], ["TaskTimeout"])
    assert found == {
        "run": "failed",
        "slow": ("failed", 2, ["up_for_retry", "failed"], ["TaskTimeout", "TaskTimeout"]),
        **dict.fromkeys(("catches", "pokes", "command"), timed_out),
        "after": ("upstream_failed", 0, [], []),
        "quick": ("success", 1, ["success"], []),
    }
