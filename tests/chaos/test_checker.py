"""The checker finds what it is there to find."""

from dataclasses import replace

import pytest
from checker import Expected, Run, check_dag
from support import at

GOOD = Run("d", "2024-01-01", "scheduled", at("2024-01-02"), at("2024-01-02"), at("2024-01-02 00:05"), 1)
LATER = replace(
    GOOD, key="2024-01-02", run_after=at("2024-01-03"), begun=at("2024-01-03"), ended=at("2024-01-03 01:00")
)
WANTED = Expected({"2024-01-01", "2024-01-02"}, max_active_runs=1)


def test_all_is_well() -> None:
    assert check_dag("d", WANTED, [GOOD, LATER]) == []


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ([GOOD], "d: 1 scheduled runs are missing, such as 2024-01-02"),
        ([GOOD, LATER, replace(LATER, key="2024-01-03", begun=at("2024-01-05"), ended=at("2024-01-06"))], "too many"),
        ([GOOD, replace(LATER, chains=2)], "2024-01-02 was started 2 times"),
        ([GOOD, replace(LATER, begun=at("2024-01-02 23:59"))], "before 2024-01-03"),
        ([GOOD, replace(LATER, ended=None)], "2024-01-02 never ended"),
        ([replace(GOOD, ended=at("2024-01-03 00:30")), LATER], "2 runs at once, the limit is 1"),
    ],
)
def test_a_violation_is_told(runs: list[Run], told: str) -> None:
    assert any(told in violation for violation in check_dag("d", WANTED, runs))
