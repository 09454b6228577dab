"""Airflow's trigger rules: what each says of upstreams in given states, as a table."""

from __future__ import annotations

import pytest
from tidemill.model.run.trigger_rules import Upstreams, Verdict, judge
from tidemill.model.spec.trigger_rule import TriggerRule
from tidemill.model.states import TaskState

STATES = {
    "S": TaskState.SUCCESS,
    "F": TaskState.FAILED,
    "U": TaskState.UPSTREAM_FAILED,
    "K": TaskState.SKIPPED,
    "R": TaskState.REMOVED,
    ".": TaskState.RUNNING,
}
VERDICTS = {"run": Verdict.RUN, "wait": Verdict.WAIT, "skip": Verdict.SKIPPED, "fail": Verdict.UPSTREAM_FAILED}
UPSTREAMS = "SS   S.   FF   F.   SF   UU   U.   FU   KK   K.   SK   FK   RR   SR   ..   KU   UR   KR"
SAID = {
    "all_success": "run  wait fail fail fail fail fail fail skip skip skip fail run  run  wait fail fail skip",
    "all_failed": "skip skip run  wait skip run  wait run  skip skip skip skip run  skip wait skip run  skip",
    "all_done": "run  wait run  wait run  run  wait run  run  wait run  run  run  run  wait run  run  run",
    "all_done_min_one_success": (
        "run  wait fail wait run  fail wait fail skip skip skip skip fail run  wait skip fail skip"
    ),
    "all_skipped": "skip skip skip skip skip skip skip skip run  wait skip skip wait skip wait skip skip wait",
    "one_success": "run  run  fail wait run  fail wait fail skip wait run  fail fail run  wait fail fail fail",
    "one_failed": "skip wait run  run  run  run  run  run  skip wait skip run  skip skip wait run  run  skip",
    "one_done": "run  run  run  run  run  skip wait run  skip wait run  run  skip run  wait skip skip skip",
    "none_failed": "run  wait fail fail fail fail fail fail run  wait run  fail run  run  wait fail fail run",
    "none_failed_min_one_success": (
        "run  wait fail fail fail fail fail fail skip wait run  fail fail run  wait fail fail fail"
    ),
    "none_skipped": "run  wait run  wait run  run  wait run  skip skip skip skip run  run  wait skip run  skip",
    "always": "run  " * 18,
}


@pytest.mark.parametrize("rule", SAID)
def test_what_a_rule_says(rule: str) -> None:
    for upstreams, said in zip(UPSTREAMS.split(), SAID[rule].split(), strict=True):
        counted = Upstreams.of(STATES[letter] for letter in upstreams)
        assert judge(TriggerRule(rule), counted) is VERDICTS[said], f"{rule} of {upstreams}"


def test_every_rule_is_in_the_table() -> None:
    assert {*SAID, "all_done_setup_success"} == {*TriggerRule}


@pytest.mark.parametrize("rule", TriggerRule)
def test_a_task_without_upstreams_may_run(rule: TriggerRule) -> None:
    assert judge(rule, Upstreams()) is Verdict.RUN


def setups(letters: str, others: str = "") -> Upstreams:
    """Upstreams of which some are setups."""
    counts = Upstreams(total=len(letters) + len(others), setups=len(letters))
    for letter in letters:
        counts.add_setup(STATES[letter], 1)
    for letter in others:
        counts.add(STATES[letter], 1)
    return counts


@pytest.mark.parametrize(
    ("of_setups", "others", "said"),
    [
        ("S", "F", "run"),
        ("S", ".", "wait"),
        (".", "S", "wait"),
        ("F", "S", "fail"),
        ("K", "S", "skip"),
        ("KK", "S", "skip"),
        ("SF", "S", "run"),
        ("SK", "", "run"),
        ("FK", "S", "fail"),
        ("", "F", "run"),
        ("", "K", "run"),
        ("", ".", "wait"),
    ],
)
def test_a_teardown_needs_one_setup_that_succeeded(of_setups: str, others: str, said: str) -> None:
    assert judge(TriggerRule.ALL_DONE_SETUP_SUCCESS, setups(of_setups, others)) is VERDICTS[said]


def test_setups_are_counted_one_by_one_and_can_leave_a_state() -> None:
    counts = setups("SSK")
    assert (counts.setups_succeeded, counts.setups_skipped, counts.success, counts.skipped) == (2, 1, 2, 1)
    counts.add_setup(TaskState.SUCCESS, -1)
    counts.add_setup(TaskState.SKIPPED, 1)
    counts.add_setup(TaskState.FAILED, 1)
    assert (counts.setups_succeeded, counts.setups_skipped, counts.failed) == (1, 2, 1)


def test_counts_of_two_kinds_of_upstreams_add_up() -> None:
    one = Upstreams(1, 2, 3, 4, 5, 6, 7, 8, 9)
    other = Upstreams(10, 20, 30, 40, 50, 60, 70, 80, 90)
    assert one.plus(other) == Upstreams(11, 22, 33, 44, 55, 66, 77, 88, 99)
    assert one == Upstreams(1, 2, 3, 4, 5, 6, 7, 8, 9)
