"""Why a task is not running: one test for each reason, from a run's state alone."""

from datetime import timedelta

from support import at, bash, dag, empty
from tidemill.model.run.past import Past
from tidemill.model.run.planner import RunPlan
from tidemill.model.run.task_instances import TaskInstance
from tidemill.model.run.views import why
from tidemill.model.states import TaskState

NONE, QUEUED, SUCCESS, FAILED = TaskState.NONE, TaskState.QUEUED, TaskState.SUCCESS, TaskState.FAILED


def plan_of(tasks: list[dict], past: Past | None = None, **fields: object) -> RunPlan:  # type: ignore[type-arg]
    spec = dag("why", tasks, **fields)
    plan = RunPlan(spec, dict.fromkeys(spec.by_id, NONE), past)
    plan.decide()
    return plan


def test_its_trigger_rule_waits() -> None:
    assert plan_of([bash("a", "x"), empty("b", "a")]).why("b") == "trigger_rule all_success: a is queued"


def test_a_setup_above_it_has_failed() -> None:
    tasks = [empty("s", is_setup=True), empty("w", "s"), empty("z", "w"), empty("t", "z", "s", is_teardown=True)]
    plan = plan_of(tasks)
    plan.record("s", FAILED)
    decisions = {decision.key: decision.reason for decision in plan.decide()}
    assert decisions["z"] == "setup: s is failed"


def test_a_teardown_waits_for_the_work_between() -> None:
    tasks = [
        empty("s", is_setup=True),
        bash("slow", "x", "s"),
        empty("w", "slow"),
        empty("t", "s", "w", is_teardown=True),
    ]
    plan = plan_of(tasks)
    plan.record("s", SUCCESS)
    plan.decide()
    assert plan.why("t") == "trigger_rule all_done_setup_success: s is success; w is none"


def test_the_run_has_as_many_tasks_as_it_may() -> None:
    plan = plan_of([bash("a", "x"), bash("b", "x")], max_active_tasks=1)
    assert plan.why("b") == "max_active_tasks = 1 is reached: 1 tasks of this run are queued or running"


def test_the_run_has_as_many_instances_of_it_as_it_may() -> None:
    plan = plan_of(
        [bash("a", "x", expand={"by": {"command": ["1", "2"]}, "into": "fields"}, max_active_tis_per_dagrun=1)]
    )
    plan.expand(["a"], 2)
    plan.decide()
    assert plan.why("a[1]") == "max_active_tis_per_dagrun = 1 is reached: 1 instances of a are active in this run"


def test_a_pool_or_other_runs_have_to_let_it_in() -> None:
    plan = plan_of([bash("a", "x", pool="db", pool_slots=2), bash("b", "x", max_active_tis_per_dag=3)])
    assert plan.why("a") == "waits for 2 of the slots of pool 'db'"
    assert plan.why("b") == "max_active_tis_per_dag = 3: other runs have as many of b active"


def test_it_or_those_behind_it_did_not_end_well_in_the_run_before() -> None:
    past = Past(run_id="yesterday", states={"a": FAILED})
    assert plan_of([bash("a", "x", depends_on_past=True)], past).why("a") == (
        "depends_on_past: a is failed in run yesterday"
    )
    past = Past(run_id="yesterday", states={"a": SUCCESS, "b": TaskState.RUNNING})
    tasks = [bash("a", "x", wait_for_downstream=True), empty("b", "a")]
    assert plan_of(tasks, past).why("a") == "wait_for_downstream: b is running in run yesterday"
    strict = bash("new", "x", depends_on_past=True, ignore_first_depends_on_past=False)
    assert plan_of([strict], Past(run_id="yesterday")).why("new") == "depends_on_past: run yesterday had no task 'new'"


def test_the_dag_is_paused() -> None:
    spec = dag("why", [bash("a", "x")])
    plan = RunPlan(spec, {"a": NONE})
    plan.paused = True
    plan.decide()
    assert plan.why("a") == "the DAG is paused: no task is started"


def test_it_waits_for_a_worker_a_retry_or_a_poke() -> None:
    plan = plan_of([bash("a", "x", queue="gpu")])
    now = at("2026-01-01 12:00")
    queued = TaskInstance(task_id="a", state=QUEUED, reason="a slot is free", queued_at=now)
    assert why(plan, queued) == "waits for a worker on task queue 'gpu', since 2026-01-01T12:00:00+00:00"
    later = now + timedelta(minutes=5)
    retry = TaskInstance(task_id="a", state=TaskState.UP_FOR_RETRY, reason="BashFailed", retry_at=later)
    assert why(plan, retry) == "BashFailed: its next try is due at 2026-01-01T12:05:00+00:00"
    poke = TaskInstance(task_id="a", state=TaskState.UP_FOR_RESCHEDULE, reason="no file yet", wake_at=later)
    assert why(plan, poke) == "no file yet: its next poke is due at 2026-01-01T12:05:00+00:00"
