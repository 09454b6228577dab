"""Airflow's own end-to-end tests of its web, a part of them: `make peers` runs all."""

import pytest
from airflow_stack import needs_airflow
from browser_suite import CHROMIUM
from run_suites import browser_results, unexplained

# What a visitor does first: opens a task from the grid, reads its log, looks at pools and providers.
SPECS = ["dag-grid-view", "task-logs", "pools", "providers"]
pytestmark = [
    pytest.mark.timeout(1_800),  # each of two dozen tests clicks in a browser
    pytest.mark.thorough,
    needs_airflow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this host (apt-get install chromium)"),
]


def test_airflows_own_tests_of_its_web_pass() -> None:
    results = browser_results(SPECS)
    assert len(results) > 20, "a suite that has run nothing shows nothing"
    assert unexplained("browser", results) == []


def test_a_test_that_newly_differs_or_passes_is_named() -> None:
    results = {"a.spec.ts › x": "failed", "configuration.spec.ts › verify configuration displays": "passed"}
    assert unexplained("browser", results) == [
        "newly different: a.spec.ts › x",
        "passes now: configuration.spec.ts › verify configuration displays",
    ]
