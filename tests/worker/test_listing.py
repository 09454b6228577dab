"""Lists of DAGs and runs from visibility alone: what they show, and that nobody has to answer."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support import Stack, at, bash, dag, empty, eventually, run_command, stack, told
from tidemill.model.dag.row import DagRow, row_of_view
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.states import RunState
from tidemill.worker.service.listing import dag_rows, run_rows


async def row(here: Stack, dag_id: str) -> DagRow | None:
    rows, problems = await dag_rows(here.tidemill.client, here.task_queue)
    assert dag_id not in problems
    return next((row for row in rows if row.dag_id == dag_id), None)


async def test_a_line_follows_its_dag_and_says_what_describe_says(here: Stack) -> None:
    spec = dag(
        "listed",
        [empty("a", owner="ada"), empty("b", owner="bob")],
        tags=["daily", "sales"],
        description="All sales",
        schedule="@daily",
        start_date="2024-01-01T00:00:00Z",
        end_date="2024-01-02T00:00:00Z",
        catchup=True,
    )
    await here.tidemill.dags.register(spec)
    await here.all_finished("listed", 2)
    view = await here.tidemill.dags.describe("listed")
    found = await eventually(lambda: row(here, "listed"), lambda r: r and r.last_run and r.active_runs == 0)
    assert found is not None
    beside = {"owners": (), "tags": (), "knows_due": False, "due_at": None}
    assert found.model_copy(update=beside) == row_of_view(view.model_dump(mode="json"))
    assert (found.owners, found.tags, found.status) == (("ada", "bob"), ("daily", "sales"), "active")
    await here.tidemill.dags.pause("listed")
    await eventually(lambda: row(here, "listed"), lambda r: r and r.status == "paused")
    assert len(found.model_dump_json()) < 2048


async def test_texts_that_are_too_long_for_a_line_are_whole_in_a_list(here: Stack) -> None:
    tags = tuple(f"{n:03}{'x' * 60}" for n in range(12))
    owner = ", ".join(f"{n:02}{'y' * 50}" for n in range(10))
    name, description = "n" * 250, "d" * 900
    long = dag("long", [empty("a", owner=owner)], tags=tags, dag_display_name=name, description=description)
    await here.tidemill.dags.register(long)
    found = await eventually(lambda: row(here, "long"), lambda r: r and r.tags)
    assert found.is_cut
    assert found.tags == tags[:4]
    assert len(found.model_dump_json()) < 2048
    [listed] = await told(here, "dags", "list", "--json", "--tag", tags[-1], "--owner", f"09{'y' * 50}")
    whole = [listed[field] for field in ("dag_id", "tags", "dag_display_name", "description", "is_cut")]
    assert whole == ["long", [*tags], name, description, False]


async def test_filters_of_the_lists(here: Stack) -> None:
    await here.tidemill.dags.register(dag("one", [empty("a", owner="ada")], tags=["x"]))
    await here.tidemill.dags.register(dag("two", [bash("a", "exit 1", owner="bob")], tags=["y"]))
    await eventually(lambda: row(here, "two"), bool)
    for options, dag_ids in (
        (["--owner", "ada"], {"one"}),
        (["--tag", "y"], {"two"}),
        (["--name", "tw"], {"two"}),
        (["--state", "paused"], set()),
    ):
        listed = {found["dag_id"] for found in await told(here, "dags", "list", "--json", *options)}
        assert listed & {"one", "two"} == dag_ids, options
    for dag_id in ("one", "two"):
        await here.tidemill.runs.trigger(dag_id, TriggerRequest(run_id=f"of_{dag_id}"))
        await here.finished(dag_id, f"of_{dag_id}")

    async def failed() -> list[tuple[str, str]]:
        return [(f.dag_id, f.run_id) async for f in run_rows(here.tidemill.client, state=RunState.FAILED)]

    await eventually(failed, lambda found: ("two", "of_two") in found)
    assert ("one", "of_one") not in await failed()
    [shown] = [f for f in await told(here, "runs", "list", "--all-dags", "--json") if f["run_id"] == "of_two"]
    assert (shown["state"], shown["counts"]) == ("failed", {"failed": 1})
    assert (shown["triggered_by"], shown["reason"][:8]) == ("client", "a failed")
    table = await told(here, "runs", "list", "--state", "failed", "--since", "1h")
    assert all(text in table for text in ("of_two", "DATE, PARTITION", "BY", "WHY"))
    assert "of_one" in await told(here, "runs", "list", "--all-dags", "--state", "success")
    for options in (["--all-dags"], ["one"]):
        assert "of_one" in await told(here, "runs", "list", *options, "--since", "1h")
        await asyncio.sleep(1.1)
        assert "of_one" not in await told(here, "runs", "list", *options, "--since", "0.01m")


async def test_a_run_that_ran_again_is_listed_once_as_it_stands_now(here: Stack, tmp_path: Path) -> None:
    """Each earlier execution was listed, too: a run that was mended last night was still a failed one."""
    mended = tmp_path / "mended"
    await here.tidemill.dags.register(dag("mended", [bash("a", f"test -e {mended}")]))
    await here.tidemill.runs.trigger("mended", TriggerRequest(run_id="once"))
    await here.finished("mended", "once")

    async def listed(state: RunState | None) -> list[tuple[str, str]]:
        found = [each async for each in run_rows(here.tidemill.client, state=state)]
        return [(each.run_id, str(each.state)) for each in found if each.dag_id == "mended"]

    await eventually(lambda: listed(RunState.FAILED), lambda found: found == [("once", "failed")])
    await here.tidemill.runs.clear("mended", "once")
    await eventually(
        lambda: here.tidemill.runs.describe("mended", "once"),
        lambda run: run.tasks[0].try_number == 2 and run.state.finished,
    )
    mended.touch()
    await here.tidemill.runs.clear("mended", "once")
    await eventually(lambda: listed(RunState.SUCCESS), lambda found: found == [("once", "success")])
    assert await listed(RunState.FAILED) == []
    assert await listed(None) == [("once", "success")]


async def test_all_that_failed_is_run_again_at_once(here: Stack, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    for dag_id in ("bulk_a", "bulk_b"):
        tasks = [bash("good", f"echo ran >> {tmp_path}/{dag_id}"), bash("bad", f"test -e {mended}", "good")]
        await here.tidemill.dags.register(dag(dag_id, tasks, max_active_runs=4))
        for number in range(2):
            await here.tidemill.runs.trigger(dag_id, TriggerRequest(run_id=f"{dag_id}_{number}"))
        await here.all_finished(dag_id, 2)

    async def failed() -> str:
        return str(await told(here, "runs", "clear", "--failed", "--since", "1h", "--dry-run"))

    await eventually(failed, lambda said: all(f"bulk_{n}_{m}" in said for n in "ab" for m in (0, 1)))
    mended.touch()
    assert "2 runs" in await told(here, "runs", "clear", "bulk_a", "--failed", "--since", "1h", "--yes")
    for run in await here.all_finished("bulk_a", 2):
        await eventually(
            lambda run=run: here.tidemill.runs.describe("bulk_a", run.run_id), lambda run: run.state == "success"
        )  # type: ignore[misc]
    assert (tmp_path / "bulk_a").read_text().split() == ["ran"] * 2, "what was good is not run again"
    assert {str(run.state) for run in await here.tidemill.runs.list("bulk_b")} == {"failed"}
    assert "Leave RUN_ID" in await told(here, "runs", "clear", "bulk_b", "latest", "--failed", code=1)


async def test_runs_by_type_and_dags_by_when_they_are_due(here: Stack) -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=40)).isoformat()
    later = (datetime.now(UTC) + timedelta(hours=5)).isoformat()
    for dag_id, moment in (("due_soon", soon), ("due_later", later)):
        events = {"kind": "events", "event_dates": [moment]}
        await here.tidemill.dags.register(dag(dag_id, [empty("a")], schedule=events))
    await here.run_once(dag("never_due", [empty("a")]), run_id="by_hand")
    old = {"schedule": "@daily", "start_date": "2024-01-01T00:00:00Z", "end_date": "2024-01-01T00:00:00Z"}
    await here.tidemill.dags.register(dag("past", [empty("a")], catchup=True, **old))
    await here.all_finished("past", 1)

    async def due(within: str) -> list[str]:
        listed = await told(here, "dags", "list", "--due-within", within, "--json")
        return [row["dag_id"] for row in listed if row["dag_id"] in ("due_soon", "due_later", "never_due", "past")]

    await eventually(lambda: due("6h"), lambda found: found == ["due_soon", "due_later"])
    assert await due("1h") == ["due_soon"]
    assert "Write a number of days" in await told(here, "dags", "list", "--due-within", "soon", code=1)

    async def of_type(*options: str) -> set[str]:
        return {run["run_id"] for run in await told(here, "runs", "list", *options, "--json")}

    await eventually(
        lambda: of_type("--type", "scheduled"), lambda found: "scheduled__2024-01-01T00:00:00+00:00" in found
    )
    assert "by_hand" not in await of_type("--type", "scheduled")
    assert await of_type("never_due", "--type", "manual") == {"by_hand"}
    assert await of_type("never_due", "--type", "backfill") == set()


async def test_lists_need_no_worker_and_a_silent_dag_hides_no_other(server: str, tmp_path: Path) -> None:
    async with stack(server, tmp_path / "home") as here:
        await here.tidemill.dags.register(dag("needs_nobody", [empty("a")]))
        silent = await here.tidemill.client.start_workflow(
            "Dag", dag("unpolled", []), id="dag:unpolled", task_queue="nobody-polls-this"
        )

        async def listed() -> bool:
            rows, problems = await dag_rows(here.tidemill.client, here.task_queue)
            return "needs_nobody" in {found.dag_id for found in rows} and "unpolled" in problems

        try:
            await eventually(listed, bool)
            done = await asyncio.to_thread(run_command, here, "dags", "list", "--json")
            assert done.returncode == 1
            assert "needs_nobody" in done.stdout
            assert "no worker polls" in done.stderr
        finally:
            await silent.terminate()


@pytest.mark.thorough
async def test_a_burst_of_changes_is_written_in_the_end(here: Stack) -> None:
    """A DAG whose runs come faster than the memo is written shows how things are once they calm down."""
    begin = at("2024-01-01")
    fast = {"schedule": timedelta(minutes=1), "start_date": begin, "end_date": begin + timedelta(minutes=150)}
    await here.tidemill.dags.register(dag("bursts", [empty("a")], catchup=True, max_active_runs=3, **fast))
    await here.all_finished("bursts", 150)
    calm = await eventually(lambda: row(here, "bursts"), lambda r: r and r.active_runs + r.queued_runs == 0)
    assert calm is not None
    assert calm.last_run is not None
