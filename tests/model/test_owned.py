"""Which names the DAGs of a bundle may give and use."""

import pytest
from support import bash, dag
from tidemill.activities.processes.environment import for_drivers
from tidemill.model.spec.owned import OwnedNames, owned_names

OWNED = owned_names(["dag_id=a_", "pool=a_", "pool=shared_", "variable=a_", "connection=a_"])


@pytest.mark.parametrize(
    ("kind", "name", "may"),
    [
        ("dag_id", "a_daily", True),
        ("dag_id", "b_daily", False),
        ("dag_id", "A_daily", False),
        ("dag_id", "ba_daily", False),
        ("pool", "shared_big", True),
        ("pool", "b_big", False),
        ("asset", "anything", True),  # of a kind without prefixes, any
    ],
)
def test_a_name_begins_with_what_its_bundle_owns(kind: str, name: str, may: bool) -> None:
    problem = OWNED.problem(kind, name)  # type: ignore[arg-type]
    assert (problem is None) is may
    if problem is not None:
        assert problem.startswith(f"{kind} {name!r}: its bundle owns the names that begin with 'a_'")
        assert f"--owns {kind}=PREFIX" in problem


def test_what_a_dag_is_called_and_uses_is_looked_at() -> None:
    spec = dag("a_daily", [bash("x", "true", pool="b_pool", outlets=[{"kind": "asset", "name": "b_asset"}])])
    assert [*spec.names_used()] == [("dag_id", "a_daily"), ("pool", "b_pool"), ("asset", "b_asset")]
    assert "pool 'b_pool'" in (OWNED.first_problem(spec.names_used()) or "")


def test_who_waits_for_an_asset_may_not_say_what_becomes_of_it() -> None:
    """A watcher tells of its asset: with one, a DAG that waits for another team's asset would make its events."""
    trigger = {"kind": "files", "url": "/data"}
    watched = {"kind": "asset", "name": "b_sales", "watchers": [{"name": "w", "trigger": trigger}]}
    for asset, used in ((watched, ["a_x", "b_sales"]), ({"kind": "asset", "name": "b_sales"}, ["a_x"])):
        spec = dag("a_x", [bash("x", "true")], schedule={"kind": "asset", "condition": asset})
        assert [name for _, name in spec.names_used()] == used


@pytest.mark.parametrize("written", ["a_", "dag_id=", "dag=a_", "=a_", ""])
def test_what_is_no_kind_and_prefix_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="is no KIND=PREFIX"):
        owned_names([written])


def test_a_driver_gets_what_its_bundle_may_look_up() -> None:
    environment = {
        "TIDEMILL_CONN_A_DB": "1", "TIDEMILL_CONN_B_DB": "2", "AIRFLOW_VAR_A_X": "3", "AIRFLOW_VAR_B_X": "4",
        "TIDEMILL_SECRETS_BACKEND": "5", "PATH": "6",
    }  # fmt: skip
    assert {*for_drivers(environment, OWNED)} == {"TIDEMILL_CONN_A_DB", "AIRFLOW_VAR_A_X"}
    assert len(for_drivers(environment)) == len(for_drivers(environment, OwnedNames(pool=("a_",)))) == 5
