"""What tasks are told of other DAGs."""

from types import SimpleNamespace
from typing import Any

from support import at, dag, empty
from tidemill.activities.attempts.run_lookup import of_dag
from tidemill.activities.work.airflow.answers.runs import _dag
from tidemill.model.dag.state import DagState
from tidemill.model.dag.views import dag_view


def test_a_task_is_told_of_a_dag_how_it_stands() -> None:
    source = {"path": "/bundles/a/x.py", "name": "x.py", "sha256": "0", "bundle": "team", "snapshot": "abc"}
    spec = dag("other", [empty("a", owner="ada")], tags=["t"], source=source)
    now = at("2026-01-01")
    state = DagState(spec=spec, registered_at=now, is_paused=True)

    def told(*known: Any) -> dict[str, Any]:
        asking: Any = SimpleNamespace(worker=SimpleNamespace(facts=lambda _: of_dag(spec, *known)))
        return _dag(asking, {"dag_id": "other"})

    assert told(dag_view(state, now)) == {
        "type": "DagResult", "dag_id": "other", "is_paused": True, "bundle_name": "team", "bundle_version": "abc",
        "relative_fileloc": "x.py", "owners": "ada", "tags": ["t"], "next_dagrun": None,
    }  # fmt: skip
    assert told()["is_paused"] is False
