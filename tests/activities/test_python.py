"""Python functions as tasks: isolated, quick, and telling what went wrong in the user's terms."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support import Stack, eventually, processes_with
from tidemill.activities.dag_files import parse_dag_file
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.views import RunDetails
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import RunState

FILE = Path(__file__).parents[1] / "dags" / "calls.py"


def parsed(dag_id: str) -> DagSpec:
    found = parse_dag_file(FILE)
    assert found.error is None
    return next(spec for spec in found.dags if spec.dag_id == dag_id)


async def behaved(here: Stack, how: str, mark: str = "") -> RunDetails:
    await here.tidemill.dags.register(parsed("behaviours"))
    run = await here.tidemill.runs.trigger("behaviours", TriggerRequest(conf={"how": how, "mark": mark}))
    return await here.finished("behaviours", run.run_id)


async def test_results_context_and_templates_reach_functions(here: Stack) -> None:
    await here.tidemill.dags.register(parsed("calls"))
    run = await here.tidemill.runs.trigger(
        "calls", TriggerRequest(logical_date="2024-05-06T00:00:00Z", conf={"scale": 10})
    )
    details = await here.finished("calls", run.run_id)
    assert details.state is RunState.SUCCESS, details
    assert "counting" in here.log_of("calls", run.run_id, "numbers")
    assert here.log_of("calls", run.run_id, "say").strip() == "the total is 60"


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raise", "ValueError: invalid literal for int() with base 10: 'not a number'"),
        ("exit", "SystemExit: it called sys.exit(3)"),
        ("os_exit", "ProcessEnded: the task's process ended with exit code 7"),
        ("segfault", "ProcessEnded: the task's process was ended by signal 11"),
        ("not_json", "InvalidInputError: the task's result is not JSON"),
        ("too_much", "InvalidInputError: the task's result has 67,200,020 bytes; at most 67,108,864 travel"),
    ],
)
async def test_whatever_a_function_does_hurts_only_itself(here: Stack, how: str, told: str) -> None:
    details = await behaved(here, how)
    assert details.state is RunState.FAILED
    assert details.tasks[0].error is not None
    assert details.tasks[0].error.startswith(told)
    again = await behaved(here, "answer")  # the worker goes on
    assert again.state is RunState.SUCCESS


async def test_the_traceback_ends_in_the_users_own_line(here: Stack) -> None:
    details = await behaved(here, "raise")
    failure = details.tasks[0].attempts[0].failure
    assert failure is not None
    assert failure.traceback[-1].startswith(f"{FILE}:")
    assert failure.traceback[-1].endswith('int("not a number")')


@pytest.mark.parametrize(
    ("how", "state", "told"),
    [
        ("undecodable", "failed", "ValueError: cannot read caf\\udce9.csv"),
        ("undecodable_skip", "skipped", "no caf\\udce9.csv"),
        ("undecodable_result", "failed", "InvalidInputError: the task's result is not JSON"),
    ],
)
async def test_what_cannot_be_encoded_is_the_try_s_own_end(
    here: Stack, tmp_path: Path, how: str, state: str, told: str
) -> None:
    """As of files whose names are no UTF-8: the body has run once, and what it says is kept."""
    count = tmp_path / "count"
    details = await behaved(here, how, str(count))
    task = details.tasks[0]
    assert (str(task.state), task.try_number, count.read_text()) == (state, 1, "x")
    assert (task.error or task.why).startswith(told)


async def test_what_a_task_says_of_its_skip_is_cut(here: Stack) -> None:
    details = await behaved(here, "long_skip")
    assert (details.state, details.tasks[0].why) == (RunState.SUCCESS, "y" * 4000)


async def test_skipping_and_failing_for_good(here: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_RETRIES", "3")
    skipped, failed = await behaved(here, "skip"), await behaved(here, "fail")
    assert (skipped.tasks[0].state, skipped.tasks[0].why) == ("skipped", "nothing to do")
    assert (failed.tasks[0].state, failed.tasks[0].try_number) == ("failed", 1)


async def test_retries_are_spent_on_failures(here: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_RETRIES", "2")
    details = await behaved(here, "flaky", str(tmp_path / "count"))
    assert (details.state, details.tasks[0].try_number) == (RunState.SUCCESS, 3)


async def test_a_daemon_that_a_function_leaves_ends_with_it(here: Stack) -> None:
    await behaved(here, "leave_a_daemon", "4721")
    await eventually(lambda: asyncio.to_thread(processes_with, "4721"), lambda found: not found)


async def test_cancelling_ends_the_function_and_what_it_started(here: Stack) -> None:
    await here.tidemill.dags.register(parsed("behaviours"))
    run = await here.tidemill.runs.trigger("behaviours", TriggerRequest(conf={"how": "sleep", "mark": "4722"}))
    await eventually(lambda: asyncio.to_thread(processes_with, "4722"), lambda found: bool(found))
    await here.tidemill.client.get_workflow_handle(run.workflow_id).cancel()
    await here.finished("behaviours", run.run_id)
    await eventually(lambda: asyncio.to_thread(_sleepers, "4722"), lambda found: not found)


def _sleepers(mark: str) -> list[Any]:
    return [process for process in processes_with(mark) if "sleep" in process.name()]
