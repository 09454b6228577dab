"""What a run's plan decides, step by step: skips, mapped tasks, fail_fast, setups, the run before, the end, and why."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support import bash, dag, empty
from tidemill.model.run.past import Past
from tidemill.model.run.planner import Decision, RunEnd, RunPlan, listing
from tidemill.model.spec.references import xcom_reference
from tidemill.model.states import RunState, TaskState

S = TaskState
ENDED = "every leaf task succeeded or was skipped"


def mapped(task_id: str, *upstream: str, over: str | None = None, **fields: Any) -> dict[str, Any]:
    """A task mapped over what *over* returns, or over a list of its own."""
    values: Any = ["1", "2"] if over is None else xcom_reference(over)
    expand = {"by": {"command": values}, "into": "fields"}
    return bash(task_id, "x", *upstream, *([over] if over else []), expand=expand, **fields)


def plan_of(
    *tasks: dict[str, Any], past: Past | None = None, states: dict[str, S] | None = None, **fields: Any
) -> RunPlan:
    spec = dag("d", [*tasks], **fields)
    return RunPlan(spec, states or dict.fromkeys(spec.by_id, S.NONE), past)


def decided(plan: RunPlan) -> dict[str, S]:
    """The last state that each instance takes now."""
    return {decision.key: decision.state for decision in plan.decide()}


def end(plan: RunPlan, **states: S) -> dict[str, S]:
    """Has tasks end so; what follows."""
    for key, state in states.items():
        plan.record(key, state)
    return decided(plan)


def check_counts(plan: RunPlan) -> None:
    """What is counted on the way is what there is."""
    there = Counter(plan.states.values())
    assert {state: n for state, n in plan.counts.items() if n} == there
    assert plan._unfinished == sum(not state.finished for state in plan.states.values())


# Steps


def test_a_task_is_scheduled_and_then_queued_each_with_its_reason() -> None:
    plan = plan_of(empty("a"), empty("b", "a"))
    assert plan.decide() == [
        Decision("a", S.SCHEDULED, "all_success is met"),
        Decision("a", S.QUEUED, "a slot is free"),
    ]
    assert plan.decide() == []
    assert plan.states == {"a": S.QUEUED, "b": S.NONE}
    check_counts(plan)


def test_a_plan_goes_on_from_states_that_it_is_given() -> None:
    plan = plan_of(
        *(empty(name) for name in "abc"),
        states={"a": S.SCHEDULED, "b": S.RUNNING, "c": S.NONE},
        max_active_tasks=2,
    )
    check_counts(plan)
    assert decided(plan) == {"a": S.QUEUED, "c": S.SCHEDULED}
    assert plan.end() is None


def test_a_paused_plan_schedules_and_starts_nothing() -> None:
    plan = plan_of(empty("a"))
    plan.paused = True
    assert decided(plan) == {"a": S.SCHEDULED}
    plan.paused = False
    assert decided(plan) == {"a": S.QUEUED}


def test_a_task_that_is_to_run_again_is_judged_again() -> None:
    plan = plan_of(empty("a"), empty("b", "a"))
    decided(plan)
    assert end(plan, a=S.FAILED) == {"b": S.UPSTREAM_FAILED}
    plan.record("b", S.NONE)
    plan.record("a", S.NONE)
    assert decided(plan) == {"a": S.QUEUED}
    assert end(plan, a=S.SUCCESS) == {"b": S.QUEUED}
    check_counts(plan)


def test_decisions_are_carried_out_until_nothing_follows() -> None:
    plan = plan_of(mapped("m"), empty("b", "m"))
    followed: list[Decision] = []
    expansions = [["m"]]

    def expand() -> bool:
        if not expansions:
            return False
        plan.expand(expansions.pop(), 2)
        return True

    def follow(decision: Decision) -> None:
        followed.append(decision)
        if decision.state is S.QUEUED:
            plan.record(decision.key, S.SUCCESS)

    plan.carry_out(expand, follow)
    assert [d.key for d in followed if d.state is S.QUEUED] == ["m[0]", "m[1]", "b"]
    assert plan.end() == RunEnd(RunState.SUCCESS, ENDED)


def test_a_mapped_task_alone_is_expanded_before_it_is_decided_on() -> None:
    plan = plan_of(mapped("m"))
    assert decided(plan) == {}
    plan.expand(["m"], 1)
    assert decided(plan) == {"m[0]": S.QUEUED}


# Skips


def test_what_a_branch_has_skipped_names_it_and_is_looked_at_at_once() -> None:
    plan = plan_of(empty("branch"), empty("a", "branch"), empty("b"))
    plan.skip("branch", ["a"])
    assert {d.key: d.reason for d in plan.decide() if d.state is S.SKIPPED} == {"a": "skipped by branch"}


def test_a_branch_that_is_run_again_decides_anew() -> None:
    plan = plan_of(empty("branch"), empty("other"), empty("a", "branch", "other", trigger_rule="all_done"))
    decided(plan)
    plan.skip("branch", ["a"])
    plan.skip("other", ["a"])
    plan.forget_skips("branch")
    plan.forget_skips("who never skipped")
    plan.forget_skips("other")
    assert end(plan, branch=S.SUCCESS, other=S.SUCCESS) == {"a": S.QUEUED}


def test_one_skipper_is_forgotten_and_the_other_holds() -> None:
    plan = plan_of(empty("one"), empty("two"), empty("a", "one", "two"))
    decided(plan)
    plan.skip("one", ["a"])
    plan.skip("two", ["a"])
    plan.forget_skips("one")
    assert [d.reason for d in plan.decide()] == ["skipped by two"]


def in_group(task_id: str, *upstream: str, **fields: Any) -> dict[str, Any]:
    return empty(task_id, *upstream, group="g", **fields)


def group_plan(*tasks: dict[str, Any]) -> RunPlan:
    """A plan with a group g, which is expanded twice."""
    plan = plan_of(*tasks, groups=[{"group_id": "g", "expand": {"by": {"x": [1, 2]}}}])
    plan.expand([task["task_id"] for task in tasks if task.get("group") == "g"], 2)
    return plan


def test_an_instance_of_a_group_skips_its_own_fellow_alone() -> None:
    plan = group_plan(in_group("g.m"), in_group("g.n", "g.m"), empty("z", "g.n"))
    decided(plan)
    plan.skip("g.m[1]", ["g.n", "z"])
    assert end(plan, **{"g.m[0]": S.SUCCESS, "g.m[1]": S.SUCCESS}) == {
        "g.n[0]": S.QUEUED,
        "g.n[1]": S.SKIPPED,
        "z": S.SKIPPED,
    }


def test_a_task_outside_skips_all_instances_of_a_group() -> None:
    plan = group_plan(empty("b"), in_group("g.n", "b"))
    decided(plan)
    plan.skip("b", ["g.n"])
    assert end(plan, b=S.SUCCESS) == {"g.n[0]": S.SKIPPED, "g.n[1]": S.SKIPPED}


def test_instances_of_a_group_look_at_their_own_fellows_and_at_all_of_what_is_outside() -> None:
    plan = group_plan(empty("a"), in_group("g.m"), in_group("g.n", "g.m", "a"), empty("z", "g.n"))
    decided(plan)
    assert end(plan, **{"g.m[0]": S.SUCCESS, "g.m[1]": S.FAILED}) == {
        "g.n[1]": S.UPSTREAM_FAILED,
        "z": S.UPSTREAM_FAILED,
    }
    assert plan.why("g.n[0]") == "trigger_rule all_success: a is queued"
    assert plan.why("g.n[1]") == "is upstream_failed"
    assert end(plan, a=S.SUCCESS) == {"g.n[0]": S.QUEUED}
    again = RunPlan(plan.spec, {**plan.states, "z": S.NONE, "g.n[0]": S.NONE})
    assert decided(again) == {"z": S.UPSTREAM_FAILED, "g.n[0]": S.QUEUED}


# Mapped tasks


def test_a_task_is_mapped_once_all_that_it_is_mapped_over_has_ended() -> None:
    plan = plan_of(mapped("a"), mapped("m", over="a"), empty("z", "m"))
    assert plan.mappable() == ["a"]
    plan.expand(["a"], 2)
    assert plan.keys("a") == ["a[0]", "a[1]"]
    assert plan.keys("m") == ["m"]
    assert plan.mappable() == []
    decided(plan)
    plan.record("a[0]", S.SUCCESS)
    assert plan.mappable() == []
    plan.record("a[1]", S.SUCCESS)
    decided(plan)
    assert plan.mappable() == ["m"]
    plan.expand(["m"], 3)
    check_counts(plan)
    assert decided(plan) == dict.fromkeys(["m[0]", "m[1]", "m[2]"], S.QUEUED)
    for n in range(3):
        plan.record(f"m[{n}]", S.SUCCESS)
        check_counts(plan)
    assert decided(plan) == {"z": S.QUEUED}
    assert plan.mappable() == []


def test_a_plan_made_of_states_knows_what_is_expanded() -> None:
    plan = plan_of(mapped("m"), empty("z", "m"), states={"m[0]": S.SUCCESS, "m[1]": S.RUNNING, "z": S.NONE})
    assert plan.keys("m") == ["m[0]", "m[1]"]
    assert plan.mappable() == []
    assert end(plan, **{"m[1]": S.SUCCESS}) == {"z": S.QUEUED}


@pytest.mark.parametrize("above", [S.SKIPPED, S.FAILED])
def test_what_cannot_be_mapped_ends_as_its_source_whatever_its_rule(above: S) -> None:
    plan = plan_of(empty("a"), mapped("m", over="a", trigger_rule="all_done"))
    decided(plan)
    plan.record("a", above)
    ends = S.SKIPPED if above is S.SKIPPED else S.UPSTREAM_FAILED
    assert plan.decide() == [Decision("m", ends, f"trigger_rule all_done: a is {above}")]
    assert plan.mappable() == []


def test_members_of_a_group_that_came_to_different_numbers_do_not_count_each_other_by_index() -> None:
    """What it is mapped over was run again by itself in between, and has come to more."""
    tasks = [empty("x"), empty("y"), in_group("g.a", "x"), in_group("g.b", "x", "y", "g.a")]
    plan = plan_of(*tasks, groups=[{"group_id": "g", "expand": {"by": {"n": {"$xcom": "x", "key": "return_value"}}}}])
    decided(plan)
    plan.record("x", S.SUCCESS)
    decided(plan)
    assert plan.mappable() == ["g.a"]
    plan.expand(["g.a"], 1)
    plan.record("y", S.SUCCESS)
    decided(plan)
    assert plan.mappable() == ["g.b"]
    plan.expand(["g.b"], 3)
    plan.record("g.a[0]", S.SUCCESS)
    assert {one.key for one in plan.decide()} >= {"g.b[0]", "g.b[1]", "g.b[2]"}


def test_what_cannot_be_mapped_fails_where_its_source_succeeded() -> None:
    plan = plan_of(empty("a"), mapped("m", over="a", trigger_rule="all_done"))
    decided(plan)
    plan.record("a", S.SUCCESS)
    plan.cannot_expand("m", "not a list")
    assert plan.mappable() == []
    assert plan.decide() == [Decision("m", S.FAILED, "not a list")]


def test_what_could_not_be_mapped_is_tried_again_when_it_is_cleared() -> None:
    plan = plan_of(empty("a"), mapped("m", over="a"))
    decided(plan)
    plan.record("a", S.SUCCESS)
    plan.cannot_expand("m", "not a list")
    decided(plan)
    plan.record("m", S.NONE)
    decided(plan)
    assert plan.mappable() == ["m"]
    assert decided(plan) == {}


# fail_fast


def test_the_first_failure_ends_all_but_teardowns() -> None:
    names = ["fails", "running", "queued", "done"]
    plan = plan_of(
        *(empty(name) for name in names),
        empty("later", "done", "running"),
        empty("s", is_setup=True),
        empty("t", "s", "running", is_teardown=True),
        fail_fast=True,
    )
    decided(plan)
    for name in ("running", "fails", "done"):
        plan.record(name, S.RUNNING)
    plan.record("done", S.SUCCESS)
    plan.record("fails", S.FAILED)
    assert plan.end() is None
    decisions = {d.key: (d.state, d.reason) for d in plan.decide()}
    reason = "fail_fast: fails failed"
    assert decisions == {
        "running": (S.SHUTDOWN, reason),
        "queued": (S.SHUTDOWN, reason),
        "s": (S.SHUTDOWN, reason),
        "later": (S.SKIPPED, reason),
    }
    assert plan.decide() == [], "once"
    assert end(plan, running=S.FAILED, queued=S.FAILED, s=S.SUCCESS) == {"t": S.QUEUED}
    assert end(plan, t=S.FAILED) == {}
    assert plan.end() == RunEnd(RunState.FAILED, "failed: fails, queued")


def test_a_task_that_is_being_ended_is_not_ended_twice() -> None:
    plan = plan_of(empty("fails"), empty("going"), empty("restarting"), fail_fast=True)
    decided(plan)
    for key, state in {"going": S.RUNNING, "restarting": S.RUNNING}.items():
        plan.record(key, state)
    plan.record("going", S.SHUTDOWN)
    plan.record("restarting", S.RESTARTING)
    plan.record("fails", S.FAILED)
    assert decided(plan) == {"restarting": S.SHUTDOWN}


def test_without_fail_fast_and_for_teardowns_nothing_is_ended() -> None:
    plan = plan_of(empty("fails"), empty("b"))
    decided(plan)
    assert end(plan, fails=S.FAILED) == {}
    plan = plan_of(empty("s", is_setup=True), empty("t", "s", is_teardown=True), empty("b"), fail_fast=True)
    decided(plan)
    end(plan, s=S.SUCCESS)
    assert end(plan, t=S.FAILED) == {}


# Setups and teardowns


def test_work_below_a_setup_waits_for_it_and_ends_with_it() -> None:
    tasks = [
        empty("s", is_setup=True),
        empty("w", "s"),
        empty("far", "w", trigger_rule="all_done"),
        empty("t", "s", "far", is_teardown=True),
    ]
    plan = plan_of(*tasks)
    decided(plan)
    assert plan.why("far") == "setup: s is queued"
    assert end(plan, s=S.FAILED) == {"w": S.UPSTREAM_FAILED, "far": S.UPSTREAM_FAILED, "t": S.UPSTREAM_FAILED}
    plan = plan_of(*tasks)
    decided(plan)
    assert end(plan, s=S.SKIPPED) == {"w": S.SKIPPED, "far": S.SKIPPED, "t": S.SKIPPED}


def test_a_teardown_does_not_fail_its_run() -> None:
    plan = plan_of(empty("s", is_setup=True), empty("w", "s"), empty("t", "s", "w", is_teardown=True))
    decided(plan)
    end(plan, s=S.SUCCESS)
    end(plan, w=S.SUCCESS)
    end(plan, t=S.FAILED)
    assert plan.end() == RunEnd(RunState.SUCCESS, ENDED)


# The run before


def held(*tasks: dict[str, Any], **states: S) -> RunPlan:
    return plan_of(*tasks, past=Past(run_id="before", states=states))


def test_a_task_waits_for_itself_in_the_run_before() -> None:
    plan = held(empty("a", depends_on_past=True), empty("b", depends_on_past=True), a=S.RUNNING, b=S.RUNNING)
    assert decided(plan) == {}
    assert plan.why("a") == "depends_on_past: a is running in run before"
    assert plan.end() is None, "it waits for the run before"
    plan.look_back(Past(run_id="before", states={"a": S.SUCCESS, "b": S.SUCCESS}), ["a"])
    assert decided(plan) == {"a": S.QUEUED}
    plan.look_back(Past(run_id="before", states={"a": S.SUCCESS, "b": S.SUCCESS}))
    assert decided(plan) == {"b": S.QUEUED}
    assert plan.past == Past(run_id="before", states={"a": S.SUCCESS, "b": S.SUCCESS})


def test_nothing_holds_a_task_without_a_run_before() -> None:
    plan = held(empty("a", depends_on_past=True), a=S.FAILED)
    decided(plan)
    plan.look_back(None)
    assert decided(plan) == {"a": S.QUEUED}
    assert plan.why("a") == "waits for a worker on the DAG's task queue"


def test_wait_for_downstream_looks_at_those_below_in_the_run_before() -> None:
    plan = held(empty("a", wait_for_downstream=True), empty("b", "a"), a=S.SUCCESS, b=S.RUNNING)
    assert decided(plan) == {}
    plan.look_back(Past(run_id="before", states={"a": S.SUCCESS, "b": S.SUCCESS}), ["b"])
    assert decided(plan) == {"a": S.QUEUED}


def test_all_instances_of_a_mapped_task_wait_for_the_run_before() -> None:
    plan = held(mapped("m", depends_on_past=True), m=S.RUNNING)
    plan.expand(["m"], 2)
    assert decided(plan) == {}
    plan.look_back(Past(run_id="before", states={"m": S.SUCCESS}), ["m"])
    assert decided(plan) == {"m[0]": S.QUEUED, "m[1]": S.QUEUED}


def test_a_mapped_task_that_is_held_is_expanded_nevertheless() -> None:
    plan = held(mapped("m", depends_on_past=True), m=S.RUNNING)
    assert decided(plan) == {}
    assert plan.why("m") == "depends_on_past: m is running in run before"
    plan.expand(["m"], 2)
    plan.look_back(Past(run_id="before", states={"m": S.SUCCESS}), ["m"])
    assert decided(plan) == {"m[0]": S.QUEUED, "m[1]": S.QUEUED}
    end(plan, **{"m[0]": S.SUCCESS, "m[1]": S.SUCCESS})
    assert plan.end() == RunEnd(RunState.SUCCESS, ENDED)


# The end


def test_the_leaves_decide_how_a_run_ends() -> None:
    plan = plan_of(empty("a"), empty("b", "a", trigger_rule="all_done"))
    decided(plan)
    assert plan.end() is None
    end(plan, a=S.FAILED)
    end(plan, b=S.SUCCESS)
    assert plan.end() == RunEnd(RunState.SUCCESS, ENDED)


@pytest.mark.parametrize(
    ("failed", "reason"), [(1, "t0 failed"), (2, "failed: t0, t1"), (7, "failed: t0, t1, t2, t3, t4 and 2 more")]
)
def test_a_run_fails_with_its_leaves(failed: int, reason: str) -> None:
    plan = plan_of(*(empty(f"t{n}") for n in range(9)))
    decided(plan)
    end(plan, **{f"t{n}": S.FAILED if n < failed else S.SUCCESS for n in range(9)})
    assert plan.end() == RunEnd(RunState.FAILED, reason)


def test_a_run_names_what_has_failed_and_not_what_it_held_up() -> None:
    plan = plan_of(
        empty("a"), empty("b", "a"), empty("c", "b"), empty("d"), empty("e", "d", trigger_rule="all_done"), empty("f")
    )
    decided(plan)
    end(plan, a=S.FAILED, d=S.FAILED, f=S.FAILED)
    decided(plan)
    end(plan, e=S.SUCCESS)
    assert plan.end() == RunEnd(RunState.FAILED, "failed: a, f")


def test_a_run_in_which_nothing_can_move_has_failed() -> None:
    plan = plan_of(empty("a"), empty("b", "a", trigger_rule="all_skipped"))
    decided(plan)
    assert end(plan, a=S.REMOVED) == {}
    assert plan.end() == RunEnd(RunState.FAILED, "deadlock: nothing can start b")


@pytest.mark.parametrize(
    "state",
    [
        S.RUNNING,
        S.SHUTDOWN,
        S.RESTARTING,
        S.UP_FOR_RETRY,
        S.UP_FOR_RESCHEDULE,
        S.DEFERRED,
        S.AWAITING_INPUT,
        S.SCHEDULED,
        S.QUEUED,
    ],
)
def test_a_run_goes_on_while_something_moves(state: S) -> None:
    plan = plan_of(empty("a"), states={"a": state})
    assert plan.end() is None


def test_a_run_without_tasks_succeeds() -> None:
    assert plan_of().end() == RunEnd(RunState.SUCCESS, ENDED)


# Why


def test_what_a_rule_waits_for_is_told_by_state() -> None:
    plan = plan_of(empty("a"), empty("b"), empty("c"), bash("z", "x", "a", "b", "c", trigger_rule="all_done"))
    decided(plan)
    end(plan, a=S.SUCCESS)
    assert plan.why("z") == "trigger_rule all_done: a is success; b, c are queued"
    assert plan.why("a") == "is success"


def test_all_success_tells_of_what_is_not_good_alone() -> None:
    plan = plan_of(empty("a"), empty("b"), empty("z", "a", "b"))
    decided(plan)
    end(plan, a=S.SUCCESS)
    assert plan.why("z") == "trigger_rule all_success: b is queued"


def test_one_without_upstreams_tells_its_rule() -> None:
    plan = plan_of(empty("a"))
    assert plan.why("a") == "trigger_rule all_success"


def test_a_queue_of_its_own_is_named() -> None:
    plan = plan_of(bash("a", "x", queue="big"))
    decided(plan)
    assert plan.why("a") == "waits for a worker on task queue 'big'"


def test_many_names_are_cut() -> None:
    assert listing(["a"]) == "a"
    assert listing("abcde") == "a, b, c, d, e"
    assert listing("abcdef") == "a, b, c, d, e and 1 more"
    assert listing("abc", 1) == "a and 2 more"


def test_where_a_mapped_task_stands_is_told_by_instance() -> None:
    plan = plan_of(mapped("m"), empty("z", "m"))
    plan.expand(["m"], 2)
    decided(plan)
    end(plan, **{"m[0]": S.SUCCESS})
    assert plan.why("z") == "trigger_rule all_success: m[1] is queued"
    plan.record("m[1]", S.SUCCESS)
    assert decided(plan) == {"z": S.QUEUED}


def test_what_a_setup_keeps_waiting_names_those_alone_that_have_not_succeeded() -> None:
    plan = plan_of(
        empty("done", is_setup=True),
        empty("going", is_setup=True),
        empty("work", "done", "going"),
        empty("far", "work", trigger_rule="all_done"),
        empty("t1", "done", "far", is_teardown=True),
        empty("t2", "going", "far", is_teardown=True),
    )
    decided(plan)
    plan.record("done", S.SUCCESS)
    assert plan.why("far") == "setup: going is queued"


def test_a_teardown_tells_of_the_work_that_it_waits_for() -> None:
    """What is directly above it may be done before what is further up."""
    plan = plan_of(
        empty("s", is_setup=True),
        empty("quick", "s"),
        empty("slow", "s"),
        empty("last", "quick", "slow", trigger_rule="one_success"),
        empty("t", "s", "last", is_teardown=True),
    )
    decided(plan)
    assert plan.why("t") == "trigger_rule all_done_setup_success: s is queued; last is none"
    end(plan, s=S.SUCCESS)
    end(plan, quick=S.SUCCESS)
    end(plan, last=S.SUCCESS)
    assert plan.why("t") == "a teardown waits for all work of its setups: slow is queued"
    assert end(plan, slow=S.FAILED) == {"t": S.QUEUED}


def test_a_mapped_task_that_was_held_leaves_nothing_behind_when_it_is_expanded() -> None:
    plan = held(mapped("m", depends_on_past=True), empty("a"), empty("b", "a", trigger_rule="all_skipped"), m=S.RUNNING)
    decided(plan)
    plan.look_back(Past(run_id="before", states={"m": S.SUCCESS}))
    plan.expand(["m"], 1)
    decided(plan)
    end(plan, **{"m[0]": S.SUCCESS, "a": S.REMOVED})
    assert plan.end() == RunEnd(RunState.FAILED, "deadlock: nothing can start b")
