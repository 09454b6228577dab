"""Which task next: decided without a server."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from strategies import dags, outcomes
from support import bash, dag, empty
from tidemill.model.dag import DagSpec
from tidemill.model.scheduling import RunEnd, RunPlan
from tidemill.model.states import RunState, TaskState, check_transition
from tidemill.model.trigger_rules import TriggerRule, Upstreams, Verdict, judge

NONE, SCHEDULED, QUEUED, SUCCESS, FAILED = (
    TaskState.NONE,
    TaskState.SCHEDULED,
    TaskState.QUEUED,
    TaskState.SUCCESS,
    TaskState.FAILED,
)


def new_plan(spec: DagSpec) -> RunPlan:
    return RunPlan(spec, {task.task_id: NONE for task in spec.tasks})


def play(spec: DagSpec, ends: dict[str, TaskState], order: Random) -> tuple[dict[str, TaskState], RunEnd]:
    """Runs *spec* to its end: each task that is started ends as *ends* says, in a random order."""
    plan, busy, seen = new_plan(spec), [], dict.fromkeys(ends, NONE)
    for _ in range(10 * len(spec.tasks) + 10):
        for decision in plan.decide():
            check_transition(decision.key, seen[decision.key], decision.state)
            seen[decision.key] = decision.state
            if decision.state is QUEUED:
                busy.append(decision.key)
        assert len(busy) <= spec.max_active_tasks
        end = plan.end()
        if end is not None:
            return plan.states, end
        task_id = busy.pop(order.randrange(len(busy)))
        seen[task_id] = ends[task_id]
        plan.record(task_id, ends[task_id])
    raise AssertionError("the run does not end")


@given(st.data(), st.randoms())
def test_every_run_ends(data: st.DataObject, order: Random) -> None:
    spec = data.draw(dags())
    states, end = play(spec, data.draw(outcomes(spec)), order)
    assert end.state.finished
    assert all(state.finished for state in states.values()) or "deadlock" in end.reason


# all_success and the rules that react to a first bad upstream can end as either of two bad states.
ORDERLESS = [rule for rule in TriggerRule if rule is not TriggerRule.ALL_SUCCESS]


@given(st.data(), st.randoms(), st.randoms())
def test_the_order_in_which_tasks_finish_does_not_change_how_the_run_ends(
    data: st.DataObject, one: Random, other: Random
) -> None:
    spec = data.draw(dags(ORDERLESS))
    ends = data.draw(outcomes(spec))
    first, second = play(spec, ends, one), play(spec, ends, other)
    # A rule satisfied before all upstreams have ended lets a task run early: never otherwise.
    assert first[0] == second[0]
    assert first[1].state == second[1].state


@given(st.data(), st.randoms())
def test_what_a_plan_remembers_can_be_made_again_from_the_states(data: st.DataObject, order: Random) -> None:
    """As after continue-as-new: a plan made of the states alone goes on as the old one would have."""
    spec = data.draw(dags())
    ends = data.draw(outcomes(spec))
    plan, busy = new_plan(spec), []
    for _ in range(order.randrange(len(spec.tasks) + 1)):
        busy += [d.key for d in plan.decide() if d.state is QUEUED]
        if not busy:
            break
        task_id = busy.pop(order.randrange(len(busy)))
        plan.record(task_id, ends[task_id])
    again = RunPlan(spec, plan.states)
    assert {d.key: d.state for d in plan.decide()} == {d.key: d.state for d in again.decide()}
    assert plan.end() == again.end()


@given(st.sampled_from(TriggerRule), st.lists(st.sampled_from([*TaskState]), max_size=6), st.randoms())
def test_a_rule_looks_at_counts_alone(rule: TriggerRule, states: list[TaskState], order: Random) -> None:
    shuffled = order.sample(states, len(states))
    assert judge(rule, Upstreams.of(states)) is judge(rule, Upstreams.of(shuffled))


def test_counting_up_and_down_agrees_with_counting_anew() -> None:
    counts = Upstreams.of([SUCCESS, NONE])
    counts.add(NONE, -1)
    counts.add(TaskState.UPSTREAM_FAILED, 1)
    assert counts == Upstreams.of([SUCCESS, TaskState.UPSTREAM_FAILED])


def test_no_more_tasks_start_than_the_limit_lets_in() -> None:
    spec = dag("wide", [empty(f"t{i}") for i in range(5)], max_active_tasks=2)
    plan = new_plan(spec)
    assert [d.key for d in plan.decide() if d.state is QUEUED] == ["t0", "t1"]
    assert plan.why("t2") == "max_active_tasks = 2 is reached: 2 tasks of this run are queued or running"
    plan.record("t0", SUCCESS)
    assert [d.key for d in plan.decide()] == ["t2"]


def test_a_failure_goes_down_the_graph() -> None:
    plan = new_plan(dag("chain", [bash("a", "false"), empty("b", "a"), empty("c", "b")]))
    plan.decide()
    plan.record("a", FAILED)
    decisions = {d.key: (d.state, d.reason) for d in plan.decide()}
    assert decisions == {
        "b": (TaskState.UPSTREAM_FAILED, "trigger_rule all_success: a is failed"),
        "c": (TaskState.UPSTREAM_FAILED, "trigger_rule all_success: b is upstream_failed"),
    }
    assert plan.end() == RunEnd(RunState.FAILED, "c failed")


def test_a_failed_task_whose_downstream_succeeds_does_not_fail_the_run() -> None:
    plan = new_plan(dag("mended", [bash("a", "false"), empty("b", "a", trigger_rule="all_done")]))
    plan.decide()
    plan.record("a", FAILED)
    assert [d.key for d in plan.decide() if d.state is QUEUED] == ["b"]
    plan.record("b", SUCCESS)
    end = plan.end()
    assert end is not None
    assert end.state is RunState.SUCCESS


def test_a_run_that_can_never_go_on_fails_and_says_why() -> None:
    """all_skipped with a removed upstream waits for ever, as in Airflow: a deadlock."""
    spec = dag("stuck", [empty("a"), empty("b", "a", trigger_rule="all_skipped")])
    plan = RunPlan(spec, {"a": TaskState.REMOVED, "b": NONE})
    assert plan.decide() == []
    assert plan.end() == RunEnd(RunState.FAILED, "deadlock: nothing can start b")


def test_a_task_waits_while_its_upstreams_run() -> None:
    plan = new_plan(dag("waits", [bash("a", "x"), bash("b", "x"), empty("c", "a", "b")]))
    plan.decide()
    assert plan.why("c") == "trigger_rule all_success: a, b are queued"
    assert judge(TriggerRule.ALL_SUCCESS, Upstreams.of([SUCCESS, QUEUED])) is Verdict.WAIT


def test_an_empty_dag_succeeds() -> None:
    end = new_plan(dag("nothing", [])).end()
    assert end is not None
    assert end.state is RunState.SUCCESS
