"""Who looks into the log of a try finds what was run in its first lines, and how it has ended in its last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import Stack, bash, dag

TASKS = [
    (bash("silent", "exit 3"), "exit 3", "ERROR", "failed: BashFailed: the command ended with exit code 3"),
    (bash("fine", "true"), "true", "INFO", "ended as success"),
    (bash("skips", "exit 99", skip_on_exit_code=[99]), "exit 99", "INFO", "ended as skipped: exit code 99"),
]


@pytest.mark.parametrize("expected", TASKS, ids=lambda expected: expected[0]["task_id"])
async def test_a_log_says_what_was_run_and_how_it_ended(here: Stack, expected: tuple[Any, ...], tmp_path: Path) -> None:
    task, command, level, last = expected
    details = await here.run_once(dag(f"told_{task['task_id']}", [task]))
    [log] = [path for path in tmp_path.rglob("*.log") if f"told_{task['task_id']}" in str(path)]
    lines = log.read_text().splitlines()
    assert lines[0].endswith(f"INFO    tidemill: BashOperator {task['task_id']}, try 1"), lines
    assert lines[1].endswith(f"command: {command}"), lines
    assert lines[-1].endswith(f"{level:7} tidemill: the try has {last}"), lines
    assert details.run.dag_id == f"told_{task['task_id']}"


async def test_what_is_printed_without_an_end_of_its_line_is_the_result(here: Stack) -> None:
    details = await here.run_once(dag("unended", [bash("t", "printf 'a\\nb'")]))
    assert await here.result_of(details, "t") == "b"
    assert here.log_of("unended", details.run.run_id, "t") == "a\nb\n"
