"""Airflow files of which only the imports were changed: examples/ported, as their README part says."""

from pathlib import Path

import pytest
from support import Stack, at, stack
from tidemill.activities.dag_files import each_dag_file

PORTED = Path(__file__).parents[2] / "examples" / "ported"


async def ran(here: Stack, file: str) -> dict[str, str]:
    [parsed] = each_dag_file(PORTED / file)
    assert parsed.error is None, parsed.error
    details = await here.run_once(parsed.dags[0], logical_date=at("2026-01-03"))
    assert {task.key: task.error for task in details.tasks if task.error} == {}
    return {task.key: str(task.state) for task in details.tasks}


async def test_classic(here: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_VAR_LANDING_FOLDER", str(tmp_path / "landing"))
    monkeypatch.setenv("TIDEMILL_CONN_WAREHOUSE", f'{{"extra": {{"folder": "{tmp_path}/warehouse"}}}}')
    states = await ran(here, "classic.py")
    assert [states["weekday"], states["weekend"], states["done"]] == ["skipped", "success", "success"]
    assert (tmp_path / "warehouse" / "sales_2026_01_03.txt").read_text() == "2026-01-03 3"


@pytest.mark.thorough
async def test_taskflow(here: Stack) -> None:
    states = await ran(here, "taskflow.py")
    assert states.pop("publish") == "skipped"
    assert set(states.values()) == {"success"}
    assert "transform.scale[2]" in states


@pytest.mark.thorough
async def test_spark(server: str, spark_home: Path) -> None:
    async with stack(server, spark_home) as here:
        states = await ran(here, "spark.py")
    assert states == {"prepare": "success", "counted": "success", "check": "success"}
