"""Registering what was parsed, where the worker that parsed it is another one."""

from pathlib import Path

from temporalio.testing import ActivityEnvironment
from tidemill.activities.bundles.registering import RegisterActivities, RegisterQuestion
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.bundle.data import ParsedDag


async def test_a_version_that_this_worker_cannot_find_is_not_taken_for_refused(tmp_path: Path) -> None:
    activities = RegisterActivities(WorkerContext(home=tmp_path))
    question = RegisterQuestion(dags=(ParsedDag(dag_id="x", version="0123"),))
    done = await ActivityEnvironment().run(activities.register_dags, question)
    assert done.errors == {}
    assert "version 0123 is not at" in done.undone["x"]
    assert "share TIDEMILL_HOME" in done.undone["x"]
