"""A param whose schema never ends costs its own trigger, and nobody else anything."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support import Stack, stack
from tidemill.activities import timetables
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import read_dag
from tidemill.model.states import RunState


@pytest.fixture
async def here(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stack]:
    monkeypatch.setattr(timetables, "SCHEMA_TIMEOUT_SECONDS", 2)
    async with stack(server, tmp_path) as made:
        yield made


async def test_a_pattern_that_never_ends(here: Stack) -> None:
    pattern = {"value": "b", "schema": {"type": "string", "pattern": "^(a+)+$|^b$"}}
    task = {"kind": "empty", "task_id": "a"}
    await here.tidemill.dags.register(read_dag({"dag_id": "endless", "params": {"x": pattern}, "tasks": [task]}))
    await here.tidemill.dags.register(read_dag({"dag_id": "beside", "tasks": [task]}))
    with pytest.raises(InvalidInputError, match="a schema of its params did not answer within 2 s"):
        await here.tidemill.runs.trigger("endless", TriggerRequest(conf={"x": "a" * 64 + "!"}))
    with pytest.raises(InvalidInputError, match=r"conf.x = 'c' does not fit its param: 'c' does not match"):
        await here.tidemill.runs.trigger("endless", TriggerRequest(conf={"x": "c"}))
    for dag_id in ("beside", "endless"):
        run = await here.tidemill.runs.trigger(dag_id)
        assert (await here.finished(dag_id, run.run_id)).state is RunState.SUCCESS
