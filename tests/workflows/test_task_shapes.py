"""Branches, mapped tasks, sensors, setups and groups of a DAG file, run to their end on a real server."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from support import Stack, bash, dag, empty, eventually, messages, processes_with
from tidemill.activities.dag_files import parse_dag_file
from tidemill.api.responses.approvals import detail_of
from tidemill.api.responses.tasks import ShownRun
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.messages import Answer
from tidemill.model.run.revisions import ClearRequest
from tidemill.model.run.views import RunDetails, TaskView
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import TaskState

DAY = datetime(2026, 1, 5, tzinfo=UTC)
FILE = Path(__file__).parents[1] / "dags" / "task_shapes.py"


@pytest.fixture(scope="module")
def shapes() -> dict[str, DagSpec]:
    parsed = parse_dag_file(FILE)
    assert parsed.error is None, parsed.error
    return {spec.dag_id: spec for spec in parsed.dags}


def states(details: RunDetails) -> dict[str, str]:
    return {task.key: str(task.state) for task in details.tasks}


async def test_a_branch_skips_what_it_does_not_follow(here: Stack, shapes: dict[str, DagSpec]) -> None:
    details = await here.run_once(shapes["branches"])
    assert states(details) == {"choose": "success", "left": "success", "right": "skipped", "join": "success"}
    assert {task.key: task.why for task in details.tasks}["right"] == "skipped by choose"


async def test_a_branch_to_nowhere_fails_by_name(here: Stack, shapes: dict[str, DagSpec]) -> None:
    details = await here.run_once(shapes["branches"], conf={"way": "up"})
    assert states(details)["choose"] == "failed"
    errors = {task.key: task.error for task in details.tasks}
    assert errors["choose"] == (
        "InvalidInput: task 'choose': 'up' is no task or group of this DAG. Downstream are: left, right"
    )


async def test_a_short_circuit_skips_everything_downstream(here: Stack, shapes: dict[str, DagSpec]) -> None:
    details = await here.run_once(shapes["circuits"])
    assert states(details) == {"is_on": "success", "next": "skipped", "last": "skipped"}
    details = await here.run_once(shapes["circuits"], conf={"on": True})
    assert set(states(details).values()) == {"success"}


async def test_a_task_is_mapped_over_a_result_and_its_results_make_a_list(
    here: Stack, shapes: dict[str, DagSpec]
) -> None:
    details = await here.run_once(shapes["mapped"])
    assert set(states(details)) == {"numbers", "times[0]", "times[1]", "times[2]", "total", "say[0]", "say[1]"}
    assert await here.result_of(details, "total") == 60
    log = here.home / "logs" / f"dag_id=mapped/run_id={details.run.run_id}/task_id=say/map_index=1/attempt=1.log"
    assert messages(log).strip() == "two"


async def test_a_task_that_is_mapped_over_nothing_is_skipped(here: Stack, shapes: dict[str, DagSpec]) -> None:
    details = await here.run_once(shapes["mapped_over_nothing"])
    assert states(details) == {"none": "success", "each": "skipped", "after": "skipped"}


async def test_instances_of_a_mapped_group_depend_on_each_other_by_index(
    here: Stack, shapes: dict[str, DagSpec]
) -> None:
    details = await here.run_once(shapes["mapped_group"])
    assert await here.result_of(details, "collect") == ["EU.CSV", "US.CSV"]
    assert await here.result_of(details, "load.fetch[1]") == "us.csv"


async def test_a_sensor_waits_without_a_worker(here: Stack, shapes: dict[str, DagSpec], tmp_path: Path) -> None:
    await here.tidemill.dags.register(shapes["sensing"])
    run = await here.tidemill.runs.trigger("sensing", TriggerRequest(conf={"file": str(tmp_path / "file")}))
    waiting = await eventually(
        lambda: here.tidemill.runs.describe("sensing", run.run_id),
        lambda found: found.tasks[0].state is TaskState.UP_FOR_RESCHEDULE,
    )
    assert waiting.tasks[0].wake_at is not None
    (tmp_path / "file").touch()
    details = await here.finished("sensing", run.run_id)
    assert states(details) == {"is_there": "success", "use": "success"}
    assert details.tasks[0].try_number == 1
    assert await here.result_of(details, "use") == "found"


async def test_a_sensor_that_times_out_softly_is_skipped(here: Stack, shapes: dict[str, DagSpec]) -> None:
    details = await here.run_once(shapes["impatient_sensor"])
    assert states(details) == {"never": "skipped"}
    assert details.tasks[0].why == "timeout of 0:00:01 is over: not yet"


async def test_a_file_and_a_command_are_waited_for(here: Stack, tmp_path: Path) -> None:
    waits = [
        {"kind": "file_sensor", "task_id": "file", "filepath": f"{tmp_path}/*.csv", "poke_interval": 1},
        {"kind": "bash_sensor", "task_id": "command", "command": f"test -e {tmp_path}/a.csv", "poke_interval": 1},
    ]
    await here.tidemill.dags.register(dag("waits", [*waits, bash("make", f"sleep 1; touch {tmp_path}/a.csv")]))
    run = await here.tidemill.runs.trigger("waits")
    details = await here.finished("waits", run.run_id)
    assert set(states(details).values()) == {"success"}


async def test_timers_need_no_worker(here: Stack, shapes: dict[str, DagSpec]) -> None:
    details = await here.run_once(shapes["timers"])
    assert states(details) == {"soon": "success", "then": "success"}
    soon = details.tasks[0]
    assert soon.started_at is not None
    assert soon.ended_at is not None
    assert (soon.ended_at - details.run.run_after).total_seconds() >= 2


async def test_a_teardown_runs_after_failed_work_and_the_run_fails_all_the_same(
    here: Stack, shapes: dict[str, DagSpec]
) -> None:
    details = await here.run_once(shapes["set_up"])
    assert states(details) == {"create": "success", "work": "failed", "delete": "success"}
    assert details.state == "failed"


async def test_groups_name_their_tasks(shapes: dict[str, DagSpec]) -> None:
    assert [task.task_id for task in shapes["grouped"].tasks] == ["outer.inner.first", "outer.inner.second", "before"]
    assert shapes["branches"].edge_labels == {"choose": {"left": "chosen", "right": "chosen"}}


async def test_large_results_stay_out_of_history(here: Stack, shapes: dict[str, DagSpec]) -> None:
    details = await here.run_once(shapes["large_results"])
    assert details.state == "success"
    assert await here.result_of(details, "count") == [100, True]
    stored = await here.result_of(details, "many")
    assert stored["$stored"].startswith("file:")
    assert sum(key.startswith("length[") for key in states(details)) == 100
    handle = here.tidemill.client.get_workflow_handle(details.run.workflow_id)
    sizes = [len(event.SerializeToString()) async for event in handle.fetch_history_events()]
    assert max(sizes) < 50_000


async def test_a_person_is_asked(here: Stack) -> None:
    ask = {"kind": "approval", "task_id": "ask", "subject": "Publish?", "fail_on_reject": True}
    await here.tidemill.dags.register(dag("asking", [ask, empty("publish", "ask")]))
    run = await here.tidemill.runs.trigger("asking")
    waiting = await eventually(
        lambda: here.tidemill.runs.describe("asking", run.run_id),
        lambda found: found.tasks[0].state == "awaiting_input",
    )
    assert waiting.tasks[0].why == "Publish?"
    with pytest.raises(InvalidInputError, match=r"\['Perhaps'\] is no answer. Choose one of Approve, Reject"):
        await here.tidemill.tasks.respond("asking", run.run_id, Answer(task="ask", chosen=("Perhaps",)))
    answer = Answer(task="ask", chosen=("Approve",), params={"x": 1})
    with pytest.raises(InvalidInputError, match=r"x is no field of its form\. It has none"):
        await here.tidemill.tasks.respond("asking", run.run_id, answer)
    with pytest.raises(InvalidInputError, match="'publish' does not wait for an answer"):
        await here.tidemill.tasks.respond("asking", run.run_id, Answer(task="publish", chosen=("Approve",)))
    await here.tidemill.tasks.respond("asking", run.run_id, Answer(task="ask", chosen=("Approve",), by="ada"))
    details = await here.finished("asking", run.run_id)
    assert await here.result_of(details, "ask") == {
        "chosen_options": ["Approve"],
        "params_input": {},
        "responded_by": "ada",
    }


async def test_what_a_person_is_asked_is_shown_as_it_is_asked(here: Stack) -> None:
    """Filled in, while it waits and after it; also where nobody has answered in time."""
    asks = [
        {"kind": "approval", "task_id": name, "subject": "{{ ds }}: {{ ti.task_id }}?", **more}
        for name, more in {
            "slow": {}, "late": {"timeout": 1}, "fallen_back": {"timeout": 1, "defaults": ["Approve"]},
        }.items()
    ]  # fmt: skip
    await here.tidemill.dags.register(dag("asked_filled_in", asks))
    await here.tidemill.runs.trigger("asked_filled_in", TriggerRequest(run_id="r", logical_date=DAY))

    async def views() -> dict[str, TaskView]:
        return {task.key: task for task in (await here.tidemill.runs.describe("asked_filled_in", "r")).tasks}

    waiting = await eventually(views, lambda found: found["slow"].state == "awaiting_input")
    assert waiting["slow"].form is not None
    assert waiting["slow"].form.subject == f"{DAY:%Y-%m-%d}: slow?"
    await here.tidemill.tasks.respond("asked_filled_in", "r", Answer(task="slow", chosen=("Reject",), by="ada"))
    details = await here.finished("asked_filled_in", "r")
    slow, late, fallen_back = (await views()).values()
    assert slow.response is not None
    assert (slow.response.form.subject, slow.response.by) == (f"{DAY:%Y-%m-%d}: slow?", "ada")
    assert (late.response, late.form and late.form.subject) == (None, f"{DAY:%Y-%m-%d}: late?")
    assert fallen_back.response is not None
    assert (fallen_back.response.form.subject, fallen_back.response.by) == (f"{DAY:%Y-%m-%d}: fallen_back?", None)
    assert (await here.result_of(details, "fallen_back"))["responded_by"] == "default"
    shown = [detail_of(ShownRun(details.run, None, None), view) for view in (slow, late, fallen_back)]
    assert [one and one["subject"].split()[-1] for one in shown] == ["slow?", "late?", "fallen_back?"]


async def test_another_dag_is_triggered_once_and_waited_for(here: Stack) -> None:
    trigger = {
        "kind": "trigger_dag",
        "task_id": "start",
        "trigger_dag_id": "other",
        "conf": {"from": "{{ run_id }}"},
        "wait_for_completion": True,
        "poke_interval": 1,
    }
    await here.tidemill.dags.register(dag("other", [bash("work", "sleep 1; echo {{ dag_run.conf['from'] }}")]))
    details = await here.run_once(dag("starter", [trigger]), run_id="mine")
    assert states(details) == {"start": "success"}
    [run] = await here.tidemill.runs.list("other")
    assert (run.run_id, run.state) == ("operator_triggered__starter.start_mine_1", "success")
    assert here.log_of("other", run.run_id, "work").strip() == "mine"


async def test_another_dags_tasks_are_waited_for(here: Stack) -> None:
    wait = {
        "kind": "external_task",
        "task_id": "wait",
        "external_dag_id": "before",
        "external_task_ids": ["load"],
        "poke_interval": 1,
    }
    await here.tidemill.dags.register(dag("before", [bash("load", "true"), bash("rest", "sleep 30", "load")]))
    await here.tidemill.dags.register(dag("behind", [wait]))
    date = "2024-02-03T00:00:00Z"
    run = await here.tidemill.runs.trigger("behind", TriggerRequest(logical_date=date))
    await eventually(
        lambda: here.tidemill.runs.describe("behind", run.run_id),
        lambda found: found.tasks[0].state == "up_for_reschedule",
    )
    await here.tidemill.runs.trigger("before", TriggerRequest(logical_date=date))
    details = await here.finished("behind", run.run_id)
    assert states(details) == {"wait": "success"}


async def test_fail_fast_ends_what_runs_and_skips_the_rest(here: Stack) -> None:
    tasks = [bash("bad", "sleep 1; false"), bash("slow", "sleep 4720"), empty("after", "slow")]
    details = await here.run_once(dag("fast", tasks, fail_fast=True))
    assert states(details) == {"bad": "failed", "slow": "failed", "after": "skipped"}
    assert not processes_with("4720")


async def test_exceptions_can_be_kept_from_retries(here: Stack) -> None:
    task = bash("a", "false", retries=3, retry_delay=1, no_retry_on=["BashFailed"])
    details = await here.run_once(dag("hopeless", [task]))
    assert details.tasks[0].try_number == 1


async def test_what_a_task_returned_is_data_and_no_template(here: Stack, shapes: dict[str, DagSpec]) -> None:
    """Else whoever writes into a file that a task reads could read every password."""
    details = await here.run_once(shapes["treacherous"])
    assert set(states(details).values()) == {"success"}
    assert await here.result_of(details, "keep") == {"text": "{{ conn.warehouse.password }}", "broken": "100{% of it"}
    assert await here.result_of(details, "each[0]") == "{{ ds }}"
    assert await here.result_of(details, "each[1]") == "{% x"


async def test_a_result_that_looks_like_a_reference_is_not_followed(here: Stack, shapes: dict[str, DagSpec]) -> None:
    details = await here.run_once(shapes["stealing"])
    assert await here.result_of(details, "take") != Path("/etc/hostname").read_text()
    stored = await here.result_of(details, "lure")
    assert "/xcom/" in stored["$stored"]


async def test_a_result_that_cannot_be_mapped_over_fails_the_task(here: Stack, shapes: dict[str, DagSpec]) -> None:
    details = await here.run_once(shapes["unmappable"])
    assert states(details) == {"text": "success", "one": "failed"}
    assert "'not a list' cannot be mapped over. Return a list or a dict" in details.tasks[1].why


async def test_a_cleared_source_gives_its_mapped_task_new_instances(
    here: Stack, shapes: dict[str, DagSpec], tmp_path: Path
) -> None:
    (tmp_path / "n").write_text("2")
    await here.tidemill.dags.register(shapes["remapped"])
    run = await here.tidemill.runs.trigger("remapped", TriggerRequest(conf={"n": str(tmp_path / "n")}))
    await eventually(
        lambda: here.tidemill.runs.describe("remapped", run.run_id),
        lambda found: states(found).get("released") == "up_for_reschedule",
    )
    (tmp_path / "n").write_text("3")
    await here.tidemill.runs.clear("remapped", run.run_id, ClearRequest(tasks=("count",), downstream=True))
    (tmp_path / "released").touch()
    details = await here.finished("remapped", run.run_id)
    assert [key for key in states(details) if key.startswith("square")] == ["square[0]", "square[1]", "square[2]"]
    assert await here.result_of(details, "square[2]") == 4
    assert {task.key: task.try_number for task in details.tasks}["square[0]"] == 2


async def test_callbacks_are_called_in_order_and_push(here: Stack, shapes: dict[str, DagSpec]) -> None:
    """As in Airflow: the exception itself, the end of the try, what the task has pushed, one after the other."""
    first, second = [await here.run_once(shapes["pushing_callbacks"], logical_date=DAY.replace(day=n)) for n in (1, 2)]
    seen = ["ValueError", "no", True, 7, 1]
    assert await here.result_of(first, "pushing", "of_first") == seen
    assert await here.result_of(first, "pushing", "of_second") == seen
    assert await here.result_of(second, "cursor") == 1, "what it has pushed in the run before"


async def test_a_notifier_that_fails_is_given_up_soon(here: Stack, tmp_path: Path) -> None:
    """The end of the run waits for it."""
    count = tmp_path / "count"
    notifier = {"kind": "command", "command": f"echo x >> {count}; exit 3"}
    details = await here.run_once(dag("alarmed", [empty("a")], callbacks={"on_success_callback": [notifier]}))
    assert details.state == "success"
    assert count.read_text().split() == ["x"] * 4


async def test_the_last_line_and_the_codes_of_a_command_are_airflow_s(here: Stack) -> None:
    tasks = [bash("empty_at_last", "echo one; echo; echo"), bash("skips", "exit 0", skip_on_exit_code=[0, 5])]
    details = await here.run_once(dag("commands", tasks))
    assert states(details) == {"empty_at_last": "success", "skips": "skipped"}
    assert await here.result_of(details, "empty_at_last") == ""
