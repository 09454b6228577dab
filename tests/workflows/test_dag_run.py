"""A run from first task to last, on a real server with real processes."""

import asyncio
import signal
from pathlib import Path

import pytest
from support import Stack, bash, dag, empty, eventually, processes_with, stack, worker_environment, worker_process
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.views import RunDetails
from tidemill.model.states import RunState, TaskState
from tidemill.workflows.run.workflow import DagRunWorkflow

CONTEXT = '{{ run_id }} {{ ds | default("no date") }} {{ params.x }} {{ dag_run.conf.get("y") }}'


def states(details: RunDetails) -> dict[str, str]:
    return {task.task_id: str(task.state) for task in details.tasks}


async def test_results_travel_down_the_graph(here: Stack) -> None:
    tasks = [
        bash("first", "echo noise; echo 42"),
        bash("second", "echo $(( {{ ti.xcom_pull('first') }} + 1 ))", "first"),
        bash("third", "echo {{ ti.xcom_pull(task_ids='second') }} {{ ti.xcom_pull('first') }}", "second"),
        empty("end", "third"),
    ]
    details = await here.run_once(dag("results", tasks))
    assert details.state is RunState.SUCCESS
    assert states(details) == dict.fromkeys(["first", "second", "third", "end"], "success")
    assert here.log_of("results", details.run.run_id, "third").strip() == "43 42"


async def test_tasks_without_work_let_others_start(here: Stack) -> None:
    """Nothing but the run itself moves it on: empty after empty, more of them than may be active, and work behind."""
    tasks = [empty("start"), empty("second", "start"), *(empty(f"w{i}", "second") for i in range(20))]
    tasks += [bash("work", "true", *(f"w{i}" for i in range(20))), empty("end", "work")]
    details = await here.run_once(dag("hollow", tasks, max_active_tasks=3))
    assert details.state is RunState.SUCCESS
    assert set(states(details).values()) == {"success"}


async def test_results_that_together_are_much_move_out_of_history(here: Stack) -> None:
    """Each of them would fit; a run's results travel with its state, so the later ones are stored elsewhere."""
    much = [bash(f"t{i}", "head -c 30000 /dev/zero | tr '\\0' x", *([f"t{i - 1}"] if i else [])) for i in range(12)]
    much.append(bash("last", "echo {{ ti.xcom_pull('t0') | length }} {{ ti.xcom_pull('t11') | length }}", "t11"))
    details = await here.run_once(dag("much", much))
    assert details.state is RunState.SUCCESS
    assert here.log_of("much", details.run.run_id, "last").strip() == "30000 30000"
    handle = here.tidemill.client.get_workflow_handle_for(DagRunWorkflow.run, details.run.workflow_id)
    kept = (await handle.query(DagRunWorkflow.whole_state)).instances
    assert isinstance(kept["t0"].xcom["return_value"], str)
    assert kept["t11"].xcom["return_value"]["$stored"].startswith("file:")


async def test_templates_have_airflows_names(here: Stack) -> None:
    spec = dag("templates", [bash("show", f"echo '{CONTEXT}'")], params={"x": "default"})
    details = await here.run_once(spec, run_id="mine", conf={"y": 5})
    assert here.log_of("templates", "mine", "show").strip() == "mine no date default 5"
    details = await here.run_once(
        dag("templates", [bash("show", "echo {{ ds }} {{ data_interval_end }} {{ ts_nodash }}")]),
        logical_date="2024-02-03T04:05:06Z",
    )
    assert here.log_of("templates", details.run.run_id, "show").strip() == (
        "2024-02-03 2024-02-03 04:05:06+00:00 20240203T040506"
    )


async def test_an_unknown_template_variable_fails_the_task_by_name(here: Stack) -> None:
    details = await here.run_once(dag("unknown", [bash("a", "echo {{ dss }}")]))
    assert details.tasks[0].error is not None
    assert "template 'echo {{ dss }}': 'dss' is undefined" in details.tasks[0].error


async def test_a_failure_names_its_cause_and_ends_what_is_downstream(here: Stack) -> None:
    tasks = [bash("a", "echo about to fail; exit 3"), bash("b", "echo never", "a"), empty("c", "b")]
    details = await here.run_once(dag("failing", tasks))
    assert details.state is RunState.FAILED
    assert states(details) == {"a": "failed", "b": "upstream_failed", "c": "upstream_failed"}
    assert details.tasks[0].error == "BashFailed: the command ended with exit code 3"
    assert details.tasks[0].attempts[0].failure is not None
    assert details.tasks[0].attempts[0].failure.traceback[-1] == "about to fail"
    run = await here.tidemill.runs.find("failing", details.run.run_id)
    assert run.reason == "a failed"


async def test_exit_code_99_skips(here: Stack) -> None:
    details = await here.run_once(dag("skipping", [bash("a", "exit 99"), empty("b", "a")]))
    assert states(details) == {"a": "skipped", "b": "skipped"}
    assert details.state is RunState.SUCCESS


async def test_retries_are_a_visible_state_and_are_counted(here: Stack, tmp_path: Path) -> None:
    """Fails twice, then succeeds: three tries, with a delay between them that shows as up_for_retry."""
    count = tmp_path / "count"
    command = f"echo x >> {count}; test $(wc -l < {count}) -ge 3"
    await here.tidemill.dags.register(dag("retrying", [bash("a", command, retries=3, retry_delay=1)]))
    run = await here.tidemill.runs.trigger("retrying")
    waiting = await eventually(
        lambda: here.tidemill.runs.describe("retrying", run.run_id),
        lambda found: found.tasks[0].state is TaskState.UP_FOR_RETRY,
    )
    assert waiting.tasks[0].retry_at is not None
    details = await here.finished("retrying", run.run_id)
    assert details.tasks[0].try_number == 3
    assert [str(attempt.state) for attempt in details.tasks[0].attempts] == ["up_for_retry", "up_for_retry", "success"]


async def test_a_task_that_takes_too_long_is_ended(here: Stack) -> None:
    mark = "sleep 4711"
    details = await here.run_once(dag("slow", [bash("a", f"{mark} & {mark}", execution_timeout=1)]))
    assert details.tasks[0].error == "TaskTimeout: execution_timeout of 1 s was exceeded"
    assert not processes_with("4711")


async def test_a_run_that_takes_too_long_fails_and_its_tasks_are_skipped(here: Stack) -> None:
    spec = dag("slow_run", [bash("a", "sleep 4712"), empty("b", "a")], dagrun_timeout=2)
    details = await here.run_once(spec)
    assert details.state is RunState.FAILED
    assert states(details)["b"] == "skipped"
    assert not processes_with("4712")


async def test_cancelling_a_run_from_temporal_ends_its_processes_and_frees_its_slot(here: Stack) -> None:
    await here.tidemill.dags.register(dag("cancelled", [bash("a", "sleep 4713"), empty("b", "a")]))
    run = await here.tidemill.runs.trigger("cancelled")
    await eventually(
        lambda: here.tidemill.runs.describe("cancelled", run.run_id), lambda d: d.tasks[0].state == "running"
    )
    await here.tidemill.client.get_workflow_handle(run.workflow_id).cancel()
    details = await here.finished("cancelled", run.run_id)
    assert details.state is RunState.FAILED
    # On a machine that is very busy the try may be given up before its worker hears of it.
    await eventually(lambda: asyncio.to_thread(processes_with, "4713"), lambda found: not found)


async def test_a_lost_worker_does_not_spend_the_tasks_retries(server: str, tmp_path: Path) -> None:
    """SIGKILL: Temporal hands the same try to another worker, and nothing of the first is left."""
    home, started = tmp_path / "home", tmp_path / "started"
    async with stack(server, home, no_remote_activities=True) as made:
        env = worker_environment(server, home, made.task_queue)
        command = f"echo $$ >> {started}; test $(wc -l < {started}) -ge 2 || sleep 4714"
        with worker_process(env) as first:
            await made.tidemill.dags.register(dag("killed", [bash("a", command)]))
            run = await made.tidemill.runs.trigger("killed")
            await eventually(lambda: asyncio.to_thread(started.exists), bool)
            first.send_signal(signal.SIGKILL)
            first.wait()
            await eventually(lambda: asyncio.to_thread(processes_with, "4714"), lambda found: not found)
        with worker_process(env):
            details = await made.finished("killed", run.run_id)
    assert details.state is RunState.SUCCESS
    assert details.tasks[0].try_number == 1
    assert len(started.read_text().split()) == 2


async def test_a_worker_that_is_stopped_hands_its_tasks_over(server: str, tmp_path: Path) -> None:
    home, started = tmp_path / "home", tmp_path / "started"
    async with stack(server, home, no_remote_activities=True) as made:
        env = worker_environment(server, home, made.task_queue)
        command = f"echo $$ >> {started}; test $(wc -l < {started}) -ge 2 || sleep 4715"
        with worker_process(env) as first:
            await made.tidemill.dags.register(dag("stopped", [bash("a", command)]))
            run = await made.tidemill.runs.trigger("stopped")
            await eventually(lambda: asyncio.to_thread(started.exists), bool)
            first.terminate()
            assert first.wait(30) == 0
        assert not processes_with("4715")
        with worker_process(env):
            details = await made.finished("stopped", run.run_id)
    assert details.state is RunState.SUCCESS
    assert details.tasks[0].try_number == 1


@pytest.mark.parametrize("cached", [100, 0])
async def test_a_long_run_goes_on_as_new_and_loses_nothing(impatient_server: str, tmp_path: Path, cached: int) -> None:
    """A history of 40 events is "too long" there: the run continues as new several times, once while a retry waits."""
    count = tmp_path / "count"
    flaky = bash("flaky", f"echo x >> {count}; test $(wc -l < {count}) -ge 2", retries=1, retry_delay=2)
    tasks = [bash(f"t{i}", f"echo {i}", *([f"t{i - 1}"] if i else [])) for i in range(25)]
    tasks.append(bash("sum", "echo {{ ti.xcom_pull('t24') }} {{ ti.xcom_pull('t3') }}", "t24", "flaky"))
    async with stack(impatient_server, tmp_path / "home", cached=cached) as made:
        details = await made.run_once(dag("long", [flaky, *tasks]))
        assert details.state is RunState.SUCCESS
        assert made.log_of("long", details.run.run_id, "sum").strip() == "24 3"
        executions = [e async for e in made.tidemill.client.list_workflows(f"WorkflowId = '{details.run.workflow_id}'")]
    assert len(executions) > 2
    assert len(count.read_text().split()) == 2


async def test_explain_names_what_a_task_waits_for(here: Stack) -> None:
    tasks = [bash("a", "sleep 3"), bash("b", "true", "a"), *(bash(f"w{i}", "sleep 3") for i in range(3))]
    await here.tidemill.dags.register(dag("explained", tasks, max_active_tasks=2))
    run = await here.tidemill.runs.trigger("explained", TriggerRequest(run_id="mine"))
    handle = here.tidemill.client.get_workflow_handle(run.workflow_id)
    await eventually(lambda: here.tidemill.runs.describe("explained", "mine"), lambda d: d.tasks[0].state == "running")
    assert await handle.query("explain", "b") == "b is none: trigger_rule all_success: a is queued"
    waiting = await handle.query("explain", "w2")
    assert waiting.startswith("w2 is scheduled:")
    assert "max_active_tasks = 2 is reached" in waiting
    assert "there is no task 'nope'" in await handle.query("explain", "nope")
    await here.finished("explained", "mine")
