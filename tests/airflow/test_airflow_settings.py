"""What Airflow's own settings bring along: plugins, cluster policies, XCom backends, a Python of each bundle."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from airflow_stack import DAGS, PYTHON, airflow_place, answer_of, needs_airflow, read_file
from support import Stack, stack
from test_airflow_dags import out, run_once, specs_of, states
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.run.messages import XComQuestion
from tidemill.model.spec.dag import DagSource

__all__ = ["out"]
pytestmark = needs_airflow
BACKEND = """
import json, os, uuid
from pathlib import Path
from airflow.plugins_manager import AirflowPlugin
from airflow.sdk.bases.xcom import BaseXCom

class InFiles(BaseXCom):
    @staticmethod
    def serialize_value(value, **_):
        path = Path(os.environ["TEST_OUT"]) / f"{uuid.uuid4().hex}.value"
        path.write_text(json.dumps(value))
        return BaseXCom.serialize_value(str(path))

    @staticmethod
    def deserialize_value(result):
        return json.loads(Path(BaseXCom.deserialize_value(result)).read_text())

def shout(text):
    return text.upper() + "!"

class Company(AirflowPlugin):
    name = "company"
    macros = [shout]
"""


@pytest.fixture
def airflow_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "airflow"
    home.mkdir()
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    return home


@pytest.fixture
async def with_plugins(
    server: str, tmp_path: Path, out: Path, airflow_home: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stack]:
    """A worker whose Airflow has a plugin and an XCom backend."""
    (airflow_home / "plugins").mkdir()
    (airflow_home / "plugins" / "company_plugin.py").write_text(BACKEND)
    monkeypatch.setenv("AIRFLOW__CORE__XCOM_BACKEND", "company_plugin.InFiles")
    async with stack(server, tmp_path / "home", place=airflow_place(tmp_path / "home", shared=False)) as made:
        yield made


async def test_plugins_and_an_xcom_backend_are_airflows_own(with_plugins: Stack, out: Path) -> None:
    await specs_of(with_plugins, "company")
    details = await run_once(with_plugins, "company")
    assert states(details) == {"gives": "success", "takes": "success", "shouts": "success"}
    handle = with_plugins.tidemill.client.get_workflow_handle(details.run.workflow_id)
    kept = await handle.query("xcom", XComQuestion(task_id="gives", key="return_value"))
    assert Path(kept["-1"]).read_text() == '"what is large"'  # history has a reference alone
    assert len([*out.glob("*.value")]) == 2  # what `gives` and `shouts` have left, and nobody before them
    assert "WHAT IS LARGE!" in with_plugins.log_of("company", details.run.run_id, "shouts")


def test_policies_of_the_cluster_are_kept(tmp_path: Path, out: Path, airflow_home: Path) -> None:
    config = airflow_home / "config"
    config.mkdir()
    (config / "airflow_local_settings.py").write_text(
        "from airflow.exceptions import AirflowClusterPolicyViolation\n"
        "def task_policy(task):\n"
        "    task.queue = 'of_the_policy'\n"
        "def dag_policy(dag):\n"
        "    if dag.dag_id == 'written_for_airflow':\n"
        "        raise AirflowClusterPolicyViolation('not that one')\n"
    )
    place = airflow_place(tmp_path / "home", shared=False)
    try:
        dag = read_file(place, DAGS / "everything.py")["taskflow"]
        told = str(answer_of(place, DAGS / "both.py").error)
    finally:
        place.close()
    assert {task.queue for task in dag.tasks} == {"of_the_policy"}
    assert "not that one" in told


def test_each_bundle_may_have_a_python_of_its_own(tmp_path: Path) -> None:
    place = WorkerContext(
        home=tmp_path, airflow_python=str(PYTHON), airflow_pythons={"team_a": "/opt/team_a/bin/python"}
    )
    try:

        def python_of(bundle: str | None) -> str:
            return place.forks_of(
                DagSource(path="/d.py", sha256="", bundle=bundle, imports_airflow=True)
            ).settings.python

        assert [python_of(bundle) for bundle in ("team_a", "team_b", None)] == [
            "/opt/team_a/bin/python",
            str(PYTHON),
            str(PYTHON),
        ]
        assert place.forks_of(DagSource(path="/d.py", sha256="", bundle="team_a")).settings.python == sys.executable
        assert place.airflow_forks_of("team_b") is place.airflow_forks_of(None)
    finally:
        place.close()
