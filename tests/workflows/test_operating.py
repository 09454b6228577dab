"""What people do to runs: clear, mark, pause, rerun; all of it on runs under way and on runs that have ended."""

import asyncio
from pathlib import Path

import pytest
from support import Stack, at, bash, dag, empty, eventually, processes_with
from temporalio.service import RPCError, RPCStatusCode
from tidemill.model.errors import InvalidInputError
from tidemill.model.pool.state import PoolSettings
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.revisions import ClearRequest, MarkRequest, RunMark
from tidemill.model.run.views import RunDetails
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import TaskState


def states(details: RunDetails) -> dict[str, str]:
    return {task.key: str(task.state) for task in details.tasks}


async def test_a_cleared_run_that_has_ended_runs_again_under_its_run_id(here: Stack, tmp_path: Path) -> None:
    """Only what is cleared runs again, with the results of what is not; tries are counted on and kept."""
    log = tmp_path / "log"
    tasks = [
        bash("a", f"echo a >> {log}; echo 5"),
        bash(
            "b",
            f"echo b >> {log}; test -e {tmp_path}/ok && echo {{{{ ti.xcom_pull('a') }}}} {{{{ ti.max_tries }}}}",
            "a",
            retries=0,
        ),
        bash("c", f"echo c >> {log}", "b"),
    ]
    first = await here.run_once(dag("rerun", tasks), run_id="mine")
    assert states(first) == {"a": "success", "b": "failed", "c": "upstream_failed"}
    (tmp_path / "ok").touch()
    changed = await here.tidemill.runs.clear("rerun", "mine", ClearRequest(tasks=("b",), downstream=True))
    assert changed == ["b", "c"]
    await eventually(lambda: here.tidemill.runs.find("rerun", "mine"), lambda run: run.state == "success")
    again = await here.tidemill.runs.describe("rerun", "mine")
    assert states(again) == {"a": "success", "b": "success", "c": "success"}
    assert [attempt.try_number for attempt in again.tasks[1].attempts] == [1, 2]
    assert log.read_text().split() == ["a", "b", "b", "c"]
    assert here.log_of("rerun", "mine", "b", 2).strip() == f"5 {again.tasks[1].max_tries}"
    assert again.tasks[1].max_tries == 1, "no retries, and the one before the clear"
    assert [run.run_id for run in await here.tidemill.runs.list("rerun")] == ["mine"]


async def test_only_failed_tasks_can_be_cleared(here: Stack, tmp_path: Path) -> None:
    tasks = [bash("good", "true"), bash("bad", f"test -e {tmp_path}/ok"), empty("end", "good", "bad")]
    await here.run_once(dag("only_failed", tasks), run_id="mine")
    (tmp_path / "ok").touch()
    assert await here.tidemill.runs.clear("only_failed", "mine", ClearRequest(only_failed=True)) == ["bad", "end"]
    await eventually(lambda: here.tidemill.runs.find("only_failed", "mine"), lambda run: run.state == "success")


async def test_a_running_task_that_is_cleared_is_stopped_first(here: Stack, tmp_path: Path) -> None:
    started = tmp_path / "started"
    command = f"echo x >> {started}; test $(wc -l < {started}) -ge 2 || sleep 4750"
    await here.tidemill.dags.register(dag("clear_running", [bash("a", command)]))
    run = await here.tidemill.runs.trigger("clear_running")
    await eventually(lambda: asyncio.to_thread(started.exists), bool)
    await here.tidemill.runs.clear("clear_running", run.run_id, ClearRequest(tasks=("a",)))
    details = await here.finished("clear_running", run.run_id)
    assert states(details) == {"a": "success"}
    assert details.tasks[0].try_number == 2
    assert not processes_with("4750")


async def test_marking_ends_what_runs_before_the_state_says_so(here: Stack) -> None:
    tasks = [bash("a", "sleep 4751"), bash("b", "true", "a")]
    await here.tidemill.dags.register(dag("marking", tasks))
    run = await here.tidemill.runs.trigger("marking")
    await eventually(
        lambda: here.tidemill.runs.describe("marking", run.run_id), lambda d: d.tasks[0].state == "running"
    )
    await here.tidemill.tasks.mark("marking", run.run_id, MarkRequest(tasks=("a",), state=TaskState.SUCCESS))
    details = await here.finished("marking", run.run_id)
    assert states(details) == {"a": "success", "b": "success"}
    assert not processes_with("4751")


async def test_a_run_that_failed_goes_on_below_a_task_that_is_marked_success(here: Stack) -> None:
    tasks = [bash("a", "exit 1"), bash("b", "true", "a"), bash("c", "true", "b")]
    details = await here.run_once(dag("unblocked", tasks), run_id="mine")
    assert states(details) == {"a": "failed", "b": "upstream_failed", "c": "upstream_failed"}
    request = MarkRequest(tasks=("a",), state=TaskState.SUCCESS)
    assert await here.tidemill.tasks.mark("unblocked", "mine", request) == ["a"]
    await eventually(lambda: here.tidemill.runs.find("unblocked", "mine"), lambda view: view.state == "success")
    assert states(await here.tidemill.runs.describe("unblocked", "mine")) == {
        "a": "success",
        "b": "success",
        "c": "success",
    }


async def test_a_run_can_be_marked(here: Stack) -> None:
    await here.tidemill.dags.register(dag("mark_run", [bash("a", "sleep 4752"), empty("b", "a")]))
    run = await here.tidemill.runs.trigger("mark_run")
    await eventually(
        lambda: here.tidemill.runs.describe("mark_run", run.run_id), lambda d: d.tasks[0].state == "running"
    )
    await here.tidemill.runs.mark("mark_run", run.run_id, RunMark(state=TaskState.FAILED))
    details = await here.finished("mark_run", run.run_id)
    assert (str(details.state), states(details)) == ("failed", {"a": "failed", "b": "skipped"})
    await here.tidemill.runs.mark("mark_run", run.run_id, RunMark(state=TaskState.SUCCESS))
    await eventually(lambda: here.tidemill.runs.find("mark_run", run.run_id), lambda view: view.state == "success")
    assert states(await here.tidemill.runs.describe("mark_run", run.run_id)) == {"a": "failed", "b": "skipped"}


async def test_what_cannot_be_done_is_refused_with_the_reason(here: Stack) -> None:
    await here.run_once(dag("refusing", [bash("a", "true")]), run_id="mine")
    with pytest.raises(InvalidInputError, match=r"task 'x' is not in this run. Its tasks are: a"):
        await here.tidemill.runs.clear("refusing", "mine", ClearRequest(tasks=("x",)))
    await here.tidemill.dags.pause("refusing")
    run = await here.tidemill.runs.trigger("refusing")
    assert await here.tidemill.runs.clear("refusing", run.run_id) == []  # all of it will run anyway


async def test_tasks_of_a_queued_run_are_marked_and_cleared(here: Stack) -> None:
    """What a person says before it begins is followed when it does, and shown meanwhile."""
    each = {"by": {"command": ["exit 1", "exit 2"]}, "into": "fields"}
    mapped = bash("m", "exit 1", "b", expand=each)
    tasks = [bash("a", "exit 1"), bash("b", "exit 1", "a"), mapped, bash("c", "true", "m")]
    await here.tidemill.dags.register(dag("said", tasks, is_paused_upon_creation=True))
    run = await here.tidemill.runs.trigger("said")

    async def mark(*tasks: str, state: TaskState = TaskState.SUCCESS, **also: bool) -> list[str]:
        return await here.tidemill.tasks.mark("said", run.run_id, MarkRequest(tasks=tasks, state=state, **also))

    assert await mark("a", "b") == ["a", "b"]
    assert await mark("b") == []
    with pytest.raises(InvalidInputError, match="m: the run has not begun"):
        await mark("m[0]")
    assert await mark("m", state=TaskState.SKIPPED) == ["m[0]", "m[1]"]
    assert await here.tidemill.runs.clear("said", run.run_id, ClearRequest(tasks=("m",))) == ["m[0]", "m[1]"]
    assert await mark("m", state=TaskState.SUCCESS) == ["m[0]", "m[1]"]
    marked = {"a": "success", "b": "success", "m[0]": "success", "m[1]": "success"}
    assert states(await here.tidemill.runs.describe("said", run.run_id)) == {**marked, "c": "none"}
    await here.tidemill.dags.pause("said", False)
    details = await here.finished("said", run.run_id)
    assert details.state == "success"
    assert {task.key: (str(task.state), task.try_number) for task in details.tasks} == {
        "a": ("success", 0), "b": ("success", 0), "m": ("success", 0), "c": ("success", 1),
    }  # fmt: skip


async def test_marks_of_a_queued_run_outlive_a_version_without_the_task(here: Stack) -> None:
    await here.tidemill.dags.register(dag("shrinks", [bash("a", "exit 1"), empty("b")], is_paused_upon_creation=True))
    run = await here.tidemill.runs.trigger("shrinks")
    both = MarkRequest(tasks=("a", "b"), state=TaskState.SUCCESS)
    assert await here.tidemill.tasks.mark("shrinks", run.run_id, both) == ["a", "b"]
    await here.tidemill.dags.register(dag("shrinks", [bash("a", "exit 1"), empty("c")], is_paused_upon_creation=True))
    assert states(await here.tidemill.runs.describe("shrinks", run.run_id)) == {"a": "success", "c": "none"}
    skips = MarkRequest(tasks=("c",), state=TaskState.SKIPPED)
    assert await here.tidemill.tasks.mark("shrinks", run.run_id, skips) == ["c"]
    await here.tidemill.dags.pause("shrinks", False)
    assert states(await here.finished("shrinks", run.run_id)) == {"a": "success", "c": "skipped"}


async def test_a_queued_run_can_be_cancelled_marked_and_deleted(here: Stack) -> None:
    await here.tidemill.dags.register(dag("queued", [empty("a")], is_paused_upon_creation=True))
    runs = [await here.tidemill.runs.trigger("queued", TriggerRequest(run_id=f"run_{n}")) for n in range(3)]
    await here.tidemill.runs.cancel("queued", runs[0].run_id)
    await here.tidemill.runs.mark("queued", runs[1].run_id, RunMark(state="success"))
    await here.tidemill.runs.delete("queued", runs[2].run_id)
    found = {view.run_id: str(view.state) for view in await here.tidemill.runs.list("queued")}
    assert found == {"run_0": "failed", "run_1": "success"}
    again = await here.tidemill.runs.trigger("queued", TriggerRequest(run_id="run_2"))
    assert again.run_id == "run_2"


async def test_a_deleted_run_frees_its_date_and_its_history_is_gone(here: Stack) -> None:
    request = TriggerRequest(logical_date=at("2024-01-01"))
    await here.tidemill.dags.register(dag("deleted", [bash("a", "echo ran")]))
    run = await here.tidemill.runs.trigger("deleted", request)
    await here.finished("deleted", run.run_id)
    with pytest.raises(InvalidInputError, match="is taken by run"):
        await here.tidemill.runs.trigger("deleted", request)
    await here.tidemill.runs.delete("deleted", run.run_id)
    assert await here.tidemill.runs.list("deleted") == []
    second = await here.tidemill.runs.trigger("deleted", request)  # at once: Temporal may not have forgotten the first
    assert (await here.finished("deleted", second.run_id)).state == "success"
    assert (
        await here.tidemill.runs.find("deleted", second.run_id)
    ).reason == "every leaf task succeeded or was skipped"
    assert here.log_of("deleted", second.run_id, "a").strip() == "ran"
    await here.tidemill.runs.delete("deleted", second.run_id)
    await eventually(lambda: gone(here, second.workflow_id), bool)


async def gone(here: Stack, workflow_id: str) -> bool:
    try:
        await here.tidemill.client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        return error.status is RPCStatusCode.NOT_FOUND
    return False


async def test_a_run_of_a_future_date_takes_no_slot_before_it(here: Stack) -> None:
    """Triggered for 2099 with one slot, the schedule goes on."""
    begin = {"schedule": "@daily", "start_date": "2024-01-01T00:00:00Z", "end_date": "2024-01-03T00:00:00Z"}
    spec = dag("not_yet", [empty("a")], max_active_runs=1, catchup=True, is_paused_upon_creation=True, **begin)
    await here.tidemill.dags.register(spec)
    waits = await here.tidemill.runs.trigger("not_yet", TriggerRequest(logical_date=at("2099-01-01")))
    await here.tidemill.dags.pause("not_yet", paused=False)
    runs = await eventually(
        lambda: here.tidemill.runs.list("not_yet"), lambda found: sum(view.state == "success" for view in found) == 3
    )
    assert {view.run_id: str(view.state) for view in runs}[waits.run_id] == "queued"
    assert waits.run_id in [view.run_id for view in runs]


async def test_a_run_that_its_dag_has_forgotten_is_shown_and_cleared(
    here: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.model.dag.state.LEDGER_LENGTH", 1)
    await here.tidemill.dags.register(dag("forgets", [bash("a", "true")]))
    for n in range(3):
        await here.tidemill.runs.trigger(
            "forgets", TriggerRequest(run_id=f"run_{n}", logical_date=at(f"2024-01-0{n + 1}"))
        )
        await here.finished("forgets", f"run_{n}")
    assert [view.run_id for view in await here.tidemill.runs.list("forgets")] == ["run_2"]
    details = await eventually(lambda: here.tidemill.runs.describe("forgets", "run_0"), bool)
    assert (details.run.run_id, str(details.state)) == ("run_0", "success")
    assert await here.tidemill.runs.clear("forgets", "run_0") == ["a"]
    cleared = await eventually(
        lambda: here.tidemill.runs.describe("forgets", "run_0"),
        lambda found: found.state.finished and found.tasks[0].try_number == 2,
    )
    assert cleared.state == "success"


async def test_a_paused_dag_starts_no_more_tasks_of_its_runs(here: Stack, tmp_path: Path) -> None:
    tasks = [bash("a", f"touch {tmp_path}/a; sleep 1"), bash("b", "true", "a")]
    await here.tidemill.dags.register(dag("paused_run", tasks))
    run = await here.tidemill.runs.trigger("paused_run")
    await eventually(lambda: asyncio.to_thread((tmp_path / "a").exists), bool)
    await here.tidemill.dags.pause("paused_run")
    held = await eventually(
        lambda: here.tidemill.runs.describe("paused_run", run.run_id), lambda found: found.tasks[1].state == "scheduled"
    )
    assert states(held) == {"a": "success", "b": "scheduled"}
    assert held.tasks[1].why == "the DAG is paused: no task is started"
    await here.tidemill.dags.pause("paused_run", False)
    assert (await here.finished("paused_run", run.run_id)).state == "success"


async def test_a_task_whose_queue_nobody_polls_says_so(here: Stack) -> None:
    await here.tidemill.dags.register(dag("deserted", [bash("a", "true", queue="nobody")]))
    run = await here.tidemill.runs.trigger("deserted")
    details = await eventually(
        lambda: here.tidemill.runs.describe("deserted", run.run_id), lambda found: "no worker" in found.tasks[0].why
    )
    assert details.tasks[0].why == (
        "no worker polls task queue 'nobody'. Start one for it, or correct the task's queue"
    )


async def test_a_terminated_run_can_be_cleared(here: Stack, tmp_path: Path) -> None:
    """Terminated, a run leaves tasks behind in the middle of what they did, and a slot of a pool."""
    await here.tidemill.pools.configure("of_the_dead", PoolSettings(slots=1))
    command = f"test -e {tmp_path}/ok || sleep 60"
    tasks = [bash("a", command, pool="of_the_dead"), bash("b", "true", "a"), bash("c", "true", pool="of_the_dead")]
    await here.tidemill.dags.register(dag("dead", tasks))
    run = await here.tidemill.runs.trigger("dead")
    await eventually(
        lambda: here.tidemill.runs.describe("dead", run.run_id), lambda found: found.tasks[0].state == "running"
    )
    await here.tidemill.client.get_workflow_handle(run.workflow_id).terminate("for the test")
    await eventually(lambda: here.tidemill.runs.find("dead", run.run_id), lambda view: view.state == "failed")
    (tmp_path / "ok").touch()
    await here.tidemill.runs.clear("dead", run.run_id, ClearRequest(only_failed=True))
    await eventually(lambda: here.tidemill.runs.find("dead", run.run_id), lambda view: view.state == "success")
    assert set(states(await here.tidemill.runs.describe("dead", run.run_id)).values()) == {"success"}


async def test_mistyped_names_are_refused_and_change_nothing(here: Stack) -> None:
    await here.run_once(dag("mistyped", [bash("a", "true")]), run_id="mine")
    for name in ("nope", "a[0]", "a[x]"):
        with pytest.raises(InvalidInputError, match="is not in this run"):
            await here.tidemill.tasks.mark("mistyped", "mine", MarkRequest(tasks=(name,), state=TaskState.FAILED))
        with pytest.raises(InvalidInputError, match="is not in this run"):
            await here.tidemill.runs.clear("mistyped", "mine", ClearRequest(tasks=(name,)))
    assert await here.tidemill.runs.clear("mistyped", "mine", ClearRequest(only_failed=True)) == []
    assert (await here.tidemill.runs.find("mistyped", "mine")).state == "success"


async def test_a_mapped_task_that_is_cleared_with_its_source_is_mapped_anew(here: Stack, tmp_path: Path) -> None:
    (tmp_path / "n").write_text("1 2 3")
    source = bash("source", f"cat {tmp_path}/n")
    each = bash(
        "each", "echo {{ params.x }}", "source", expand={"by": {"command": ["echo 1", "echo 2"]}, "into": "fields"}
    )
    last = bash("last", "sleep 2", "each")
    await here.tidemill.dags.register(dag("anew", [source, each, last]))
    run = await here.tidemill.runs.trigger("anew")
    await eventually(
        lambda: here.tidemill.runs.describe("anew", run.run_id), lambda found: states(found).get("each[1]") == "success"
    )
    changed = await here.tidemill.runs.clear("anew", run.run_id, ClearRequest(tasks=("each",)))
    assert changed == ["each[0]", "each[1]"]
    details = await here.finished("anew", run.run_id)
    tries = {task.key: task.try_number for task in details.tasks}
    assert (tries["source"], tries["each[0]"], tries["each[1]"]) == (1, 2, 2)


async def test_a_new_version_keeps_the_indexes_of_a_mapped_task(here: Stack, tmp_path: Path) -> None:
    """What has succeeded does not run again as its list has changed: indexes are added, and removed (as in Airflow)."""
    log = tmp_path / "log"

    def version(*values: str) -> DagSpec:
        expand = {"by": {"env": [{"X": value} for value in values]}, "into": "fields"}
        each = bash("each", f"echo $X >> {log}", expand=expand)
        return dag("more_values", [bash("bad", f"test -e {tmp_path}/ok"), each])

    await here.run_once(version("a", "b"), run_id="r")
    for values, ran, found in (
        (("x", "y", "z"), "z", {"each[0]": "success", "each[1]": "success", "each[2]": "success"}),
        (("x",), "", {"each[0]": "success", "each[1]": "removed", "each[2]": "removed"}),
        (("x", "w"), "w", {"each[0]": "success", "each[1]": "success", "each[2]": "removed"}),
    ):
        log.write_text("")
        await here.tidemill.dags.register(version(*values))
        clear = ClearRequest(tasks=("bad",), run_on_latest_version=True)
        assert await here.tidemill.runs.clear("more_values", "r", clear) == ["bad"]
        details = await eventually(
            lambda: here.tidemill.runs.describe("more_values", "r"),
            lambda shown, found=found: {"bad": "failed", **found} == states(shown),
        )
        assert log.read_text().split() == [*ran]
        numbers = [task.try_number for task in details.tasks if task.task_id == "each"]
        assert numbers == ([1, 2, 1] if ran == "w" else [1, 1, 1])


async def test_a_run_goes_on_with_the_latest_version_if_it_is_asked_to(here: Stack) -> None:
    """What has ended well stays, what is changed is run as it is now, what is new is run, what is gone is gone."""
    old = [bash("a", "echo once"), bash("b", "exit 1", "a"), bash("gone", "true", "b")]
    new = [bash("a", "echo never"), bash("b", "true", "a"), bash("new", "true", "b")]
    first = await here.run_once(dag("versions", old), run_id="mine")
    assert states(first) == {"a": "success", "b": "failed", "gone": "upstream_failed"}
    await here.tidemill.dags.register(dag("versions", new))
    await here.tidemill.runs.clear("versions", "mine", ClearRequest(tasks=("b",)))
    same = await eventually(
        lambda: here.tidemill.runs.describe("versions", "mine"),
        lambda d: d.state.finished and d.tasks[1].try_number == 2,
    )
    assert states(same) == {"a": "success", "b": "failed", "gone": "upstream_failed"}, "its own version fails again"
    latest = ClearRequest(tasks=("b",), downstream=True, run_on_latest_version=True)
    await here.tidemill.runs.clear("versions", "mine", latest)
    ended = await eventually(
        lambda: here.tidemill.runs.describe("versions", "mine"),
        lambda d: d.state == "success" and d.progress.finished == 3,
    )
    assert states(ended) == {"a": "success", "b": "success", "new": "success"}
    assert here.log_of("versions", "mine", "a").strip() == "once"


async def test_a_run_under_way_keeps_its_version(here: Stack, tmp_path: Path) -> None:
    waits = bash("a", f"while [ ! -e {tmp_path}/ok ]; do sleep 0.1; done")
    await here.tidemill.dags.register(dag("keeps", [waits]))
    run = await here.tidemill.runs.trigger("keeps")
    await eventually(
        lambda: here.tidemill.runs.describe("keeps", run.run_id), lambda found: found.tasks[0].state == "running"
    )
    latest = ClearRequest(run_on_latest_version=True)  # as the web's dialog proposes it
    assert await here.tidemill.runs.clear("keeps", run.run_id, latest) == ["a"]
    await here.tidemill.dags.register(dag("keeps", [waits, empty("b")]))
    with pytest.raises(InvalidInputError, match="the run is under way, and keeps its version"):
        await here.tidemill.runs.clear("keeps", run.run_id, latest)
    (tmp_path / "ok").touch()
    assert (await here.finished("keeps", run.run_id)).state == "success"
