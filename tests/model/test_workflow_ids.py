"""Ids of workflows fit into every store that Temporal runs on, and say which DAG they belong to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidemill.model.asset.watching import watcher_workflow_id
from tidemill.model.bundle.data import bundle_workflow_id
from tidemill.model.pool.state import dag_of_limit, limit_workflow_id
from tidemill.model.run.identity import beginnings_of_runs, run_workflow_id
from tidemill.model.workflow_ids import LONGEST, bounded

NAMES = st.text("abcABC._-", min_size=1, max_size=250)
KEYS = st.text("abc0123456789:+-T_", min_size=1, max_size=200)


@given(NAMES, KEYS)
def test_a_runs_id_fits_and_is_found_by_its_dag(dag_id: str, key: str) -> None:
    made = run_workflow_id(dag_id, key)
    assert len(made) <= LONGEST
    assert made.startswith(beginnings_of_runs(dag_id))
    assert made.startswith(beginnings_of_runs(None))


@given(NAMES, NAMES)
def test_a_limits_id_fits_and_names_its_dag_whole_or_not_at_all(dag_id: str, task_id: str) -> None:
    made = limit_workflow_id(dag_id, task_id)
    assert len(made) <= LONGEST
    assert dag_of_limit(made) in (dag_id, None)


@pytest.mark.parametrize("key", ["2026-01-01T00:00:00+00:00", "manual__2026-01-01T00:00:00+00:00"])
def test_ids_that_fit_are_as_they_were(key: str) -> None:
    assert run_workflow_id("sales", key) == f"run:sales:{key}"
    longest = "d" * (LONGEST - len(f"run::{key}"))
    assert run_workflow_id(longest, key) == f"run:{longest}:{key}"


def test_names_that_differ_at_their_end_differ_when_they_are_shortened() -> None:
    keys = ["k" * 199 + end for end in "ab"]
    dags = ["d" * 249 + end for end in "ab"]
    assert len({run_workflow_id(dag, key) for dag in dags for key in keys}) == 4
    assert len({limit_workflow_id(dag, "t" * 250) for dag in dags}) == 2
    assert len({bundle_workflow_id(name) for name in dags}) == 2
    assert len({watcher_workflow_id("a" * 190, name) for name in dags}) == 2


def test_no_dag_begins_as_the_runs_of_another() -> None:
    long, its_short_form = "d" * 250, bounded("d" * 250, 210)
    assert not set(beginnings_of_runs(long)) & set(beginnings_of_runs("d" * 210))
    assert "~" in its_short_form  # which no dag_id may have
