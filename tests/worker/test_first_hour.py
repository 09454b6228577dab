"""What an Airflow user types in the first hour: it works, or says what to write instead."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from forked_commands import REAL
from support import Stack, at, bash, dag, empty, told, without_times
from tidemill.model.authoring.arguments import ACCEPTED, OF_KINDS, UNSAID
from tidemill.model.authoring.nodes import FIELDS_OF_KINDS
from tidemill.model.dropped_arguments import DROPPED
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import read_dag
from tidemill.model.spec.tasks.spark import SparkSqlTask, SparkSubmitTask
from tidemill.model.spec.timetables import CronTrigger
from tidemill.worker.app.dev import check_port, free_port
from tidemill.worker.local.validation import check_path
from tidemill.worker.service.connection import NotFoundError, connect
from tidemill.worker.settings.dev_address import remembered, remembered_address

from tidemill import (
    DAG,
    BashOperator,
    BashSensor,
    EmptyOperator,
    PythonOperator,
    SparkSubmitOperator,
    TaskGroup,
    TriggerDagRunOperator,
    spark_sql,
)

HEAD = "from datetime import datetime, timedelta\nfrom tidemill import *\n"


def checked(folder: Path, text: str) -> Any:
    file = folder / "dags.py"
    file.write_text(HEAD + text)
    return check_path(file)


# Arguments


def test_every_argument_that_changes_nothing_is_accepted_and_said_once(tmp_path: Path) -> None:
    of_dag = ", ".join(f"{name}='x'" for name in ACCEPTED["DAG"])
    of_tasks = ", ".join(f"{name}='x'" for name in ACCEPTED["task"])
    of_bash = ", ".join(f"{name}='x'" for name in ACCEPTED["task"] if "bash" in OF_KINDS.get(name, {"bash"}))
    found = checked(tmp_path, (
        f"with DAG('d', {of_dag}, default_args=dict({of_tasks})):\n"
        f"    BashOperator(task_id='a', bash_command='true', {of_bash})\n"
        "    with TaskGroup('g', ui_color='red'): EmptyOperator(task_id='b')\n"
    ))  # fmt: skip
    assert found.errors == ()
    said = [notice.notice.split()[2] for notice in found.notices]
    assert set(said) == {*ACCEPTED["DAG"], *ACCEPTED["task"], "ui_color"} - UNSAID
    assert len({notice.notice for notice in found.notices}) == len(found.notices)


@pytest.mark.parametrize(("name", "kinds"), [*OF_KINDS.items()])
def test_an_argument_of_one_kind_of_task_is_unknown_to_another(name: str, kinds: frozenset[str]) -> None:
    assert kinds < FIELDS_OF_KINDS.keys()
    with DAG("d") as made:
        EmptyOperator("a", **{name: "x"})
    with pytest.raises(InvalidInputError, match=f"{name} = 'x'"):
        made.spec()


def test_an_argument_that_is_left_off_is_not_spoken_of() -> None:
    with DAG("d", default_args={"email_on_failure": False, "email": None}) as made:
        BashSensor("a", bash_command="true", mode="reschedule", executor_config=None)
    assert made.notices == []


@pytest.mark.parametrize(("name", "told"), [*DROPPED["DAG"].items()])
def test_a_dag_argument_that_is_no_more(name: str, told: str) -> None:
    with pytest.raises(InvalidInputError, match=f"DAG 'd': {name} is no argument here") as raised:
        DAG("d", **{name: "@daily"})
    assert str(raised.value).endswith(told)


def test_in_json_the_successors_are_named_too() -> None:
    with pytest.raises(InvalidInputError, match=r"schedule_interval = '@daily': no such field. Write schedule$"):
        read_dag({"dag_id": "d", "schedule_interval": "@daily", "tasks": []})
    task = {"kind": "bash", "task_id": "a", "command": "true", "task_concurrency": 1}
    with pytest.raises(InvalidInputError, match=r"task 'a': task_concurrency = 1: .* Write max_active_tis_per_dag$"):
        read_dag({"dag_id": "d", "tasks": [task]})


@pytest.mark.parametrize(("name", "told"), [*DROPPED["task"].items()])
def test_a_task_argument_that_is_no_more(name: str, told: str) -> None:
    with DAG("d"), pytest.raises(InvalidInputError, match=f"task 'a': {name} is no argument here") as raised:
        PythonOperator("a", python_callable=print, **{name: True})
    assert str(raised.value).endswith(told)


def test_an_argument_that_nobody_knows() -> None:
    with pytest.raises(InvalidInputError, match=r"DAG 'd': there is no argument 'tag'\. Do you mean tags\?"):
        DAG("d", tag="x")
    with DAG("d"), pytest.raises(InvalidInputError, match="group 'g': there is no argument 'prefix'"):
        TaskGroup("g", prefix=False)


def test_the_default_pool_is_no_pool() -> None:
    with DAG("d", default_args={"pool": "default_pool"}) as made:
        BashOperator("a", bash_command="true")
    assert made.spec().tasks[0].pool is None


def test_params_with_a_schema(tmp_path: Path) -> None:
    found = checked(tmp_path, "with DAG('d', params={'n': Param(5, type='integer', minimum=1)}): EmptyOperator('a')\n")
    assert found.errors == ()


def test_airflows_timetables_by_their_names() -> None:
    from tidemill import CronTriggerTimetable

    made = CronTriggerTimetable("0 6 * * *", timezone="Europe/Berlin")
    assert made == CronTrigger(expression="0 6 * * *", timezone="Europe/Berlin", run_immediately=False)


def test_a_result_in_a_command_is_a_template_and_cannot_be_gone_through() -> None:
    with DAG("d") as made:
        a = BashOperator("a", bash_command="echo 1")
        BashOperator("b", bash_command=a.output)
        with pytest.raises(InvalidInputError, match="the result of task 'a' is only known when that has run"):
            PythonOperator("c", python_callable=print, op_args=a.output)
    assert "a" in made.spec().by_id["b"].upstream
    assert "xcom_pull(task_ids='a'" in str(made.spec().by_id["b"].templated()[0])


def test_spark_options_are_taken_as_a_dict_too() -> None:
    """They are one field of the model; what a file names by itself goes before it."""
    with DAG("d") as made:
        spark_sql("a", "SELECT 1", spark={"master": "local[1]", "driver_memory": "2g"}, driver_memory="1g")
    [task] = made.spec().tasks
    assert isinstance(task, SparkSqlTask)
    assert (task.spark.master, task.spark.driver_memory) == ("local[1]", "1g")
    with DAG("d"), pytest.raises(InvalidInputError, match="no dict of Spark's options"):
        spark_sql("a", "SELECT 1", spark="local[1]")


def test_default_args_are_for_the_options_of_spark_too() -> None:
    """As where the provider's operators have arguments for them; a task that is none of Spark's passes them over."""
    defaults = {"conn_id": "cluster", "driver_memory": "2g", "jars": "a.jar, b.jar", "spark": {"num_executors": 2}}
    with DAG("d", default_args=defaults) as made:
        spark_sql("a", "SELECT 1", driver_memory="1g")
        spark_sql("b", "SELECT 1", spark={"num_executors": 3})
        EmptyOperator("c")
    a, b, c = made.spec().tasks
    assert isinstance(a, SparkSqlTask)
    assert isinstance(b, SparkSqlTask)
    assert (a.spark.conn_id, a.spark.driver_memory, a.spark.num_executors) == ("cluster", "1g", 2)
    assert (b.spark.jars, b.spark.driver_memory, b.spark.num_executors) == (("a.jar", "b.jar"), "2g", 3)
    assert c.kind == "empty"


def test_the_nearest_default_of_sparks_options_holds() -> None:
    """A group's before the DAG's, the task's before both, also None; a connection before a master from farther away."""
    with DAG("d", default_args={"driver_memory": "2g", "proxy_user": "ada", "master": "local[2]"}) as made:
        with TaskGroup("g", default_args={"spark": {"driver_memory": "4g"}}):
            spark_sql("a", "SELECT 1", proxy_user=None, conn_id="cluster")
            with TaskGroup("inner", default_args={"spark": {"driver_memory": "8g"}, "conn_id": "cluster"}):
                spark_sql("c", "SELECT 1")
        spark_sql("b", "SELECT 1")
    a, c, b = (made.spec().by_id[task_id] for task_id in ("g.a", "g.inner.c", "b"))
    assert isinstance(a, SparkSqlTask)
    assert isinstance(b, SparkSqlTask)
    assert isinstance(c, SparkSqlTask)
    assert (c.spark.driver_memory, c.spark.master, c.spark.conn_id) == ("8g", None, "cluster")
    assert (a.spark.driver_memory, a.spark.proxy_user, a.spark.master) == ("4g", None, None)
    assert (b.spark.driver_memory, b.spark.proxy_user, b.spark.master) == ("2g", "ada", "local[2]")


def test_a_default_conf_that_is_not_sparks_is_for_others() -> None:
    with DAG("d", default_args={"conf": {"day": "x"}}) as made:
        spark_sql("a", "SELECT 1")
        TriggerDagRunOperator("b", trigger_dag_id="other")
    a, b = made.spec().tasks
    assert isinstance(a, SparkSqlTask)
    assert a.spark.conf == {}
    assert b.conf == {"day": "x"}  # type: ignore[attr-defined]
    with DAG("f", default_args={"conf": {"spark.a": "x"}}) as cleared, TaskGroup("g", default_args={"conf": {}}):
        spark_sql("a", "SELECT 1")
    [c] = cleared.spec().tasks
    assert isinstance(c, SparkSqlTask)
    assert c.spark.conf == {}
    with DAG("e", default_args={"conf": {"spark.a": "x", "fs.s3a.endpoint": "y"}}) as other:
        spark_sql("a", "SELECT 1")
    with pytest.raises(InvalidInputError, match=r"Spark drops conf 'fs\.s3a\.endpoint'"):
        other.spec()


def test_spark_submit_takes_its_lists_as_texts() -> None:
    with DAG("d") as made:
        SparkSubmitOperator(
            "a", application="job.py", jars="a.jar, b.jar", py_files=None, conf=None, application_args=None,
            verbose=True, conn_id="spark_default",
        )  # fmt: skip
    [submitted] = made.spec().tasks
    assert isinstance(submitted, SparkSubmitTask)
    assert (submitted.spark.jars, submitted.spark.py_files) == (("a.jar", "b.jar"), ())


def test_an_operator_of_ones_own_is_not_passed_over_in_silence() -> None:
    with pytest.raises(InvalidInputError, match=r"class MyOperator: execute\(\) would not be called"):

        class MyOperator(BashOperator):
            def execute(self, context: Any) -> None: ...


def test_documentation_that_is_added_afterwards() -> None:
    with DAG("d") as made:
        task_of = BashOperator("a", bash_command="true")
    made.doc_md = task_of.doc_md = "What it is for"
    assert (made.spec().doc_md, made.spec().tasks[0].doc_md) == ("What it is for", "What it is for")


# Results


async def test_results_by_their_keys_and_results_that_are_not_kept(here: Stack, tmp_path: Path) -> None:
    text = HEAD + (
        "with DAG('results'):\n"
        "    @task(multiple_outputs=True)\n"
        "    def two(): return {'x': 1, 'y': 2}\n"
        "    @task(do_xcom_push=False)\n"
        "    def unkept(ti=None):\n"
        "        ti.xcom_push('pushed', 1)\n"
        "        return 'lost'\n"
        "    @task\n"
        "    def use(ti=None):\n"
        "        return [ti.xcom_pull('two', key='x'), ti.xcom_pull('two')['y'],\n"
        "                ti.xcom_pull('unkept'), ti.xcom_pull('unkept', key='pushed')]\n"
        "    [two(), unkept()] >> use()\n"
        "    BashOperator(task_id='skipped', bash_command='exit 7', skip_on_exit_code=[7, 8])\n"
    )
    (tmp_path / "results.py").write_text(text)
    await told(here, "dags", "register", str(tmp_path / "results.py"))
    run = await here.tidemill.runs.trigger("results")
    details = await here.finished("results", run.run_id)
    assert {task.task_id: str(task.state) for task in details.tasks} == {
        "two": "success", "unkept": "success", "use": "success", "skipped": "skipped"
    }  # fmt: skip
    assert await here.result_of(details, "use") == [1, 2, None, 1]


# Messages


def test_a_file_that_makes_no_dag(tmp_path: Path) -> None:
    found = checked(tmp_path, "@dag(schedule=None)\ndef never(): EmptyOperator(task_id='a')\n")
    assert ["makes no DAG" in notice.notice for notice in found.notices] == [True]


def test_a_preset_that_there_is_not() -> None:
    with DAG("d", schedule="@dayly") as made, pytest.raises(InvalidInputError, match=r"Do you mean @daily\?"):
        made.spec()


async def test_a_template_of_a_run_without_a_date_and_names_of_airflow_2(here: Stack) -> None:
    tasks = [bash("a", "echo {{ ds }}"), bash("b", "echo {{ next_ds }}")]
    await here.tidemill.dags.register(dag("undated", tasks))
    run = await here.tidemill.runs.trigger("undated", TriggerRequest(run_id="by_hand"))
    await here.finished("undated", run.run_id)
    shown = await told(here, "tasks", "explain", "undated", "by_hand", "a")
    assert "The run has no logical date, and so no ds" in shown
    assert "'ds' is undefined" in await told(here, "tasks", "logs", "undated", "by_hand", "a")
    assert "Airflow 3 has dropped next_ds: write {{ data_interval_end | ds }}" in await told(
        here, "tasks", "explain", "undated", "by_hand", "b"
    )


async def test_names_and_macros_of_airflow_3(here: Stack) -> None:
    wanted = {
        "{{ task_instance_key_str }}": "named__a__20240506",
        "{{ macros.ds_add(ds, -1) }} {{ macros.json.dumps([1]) }} {{ macros.uuid.UUID(int=1) }}": (
            "2024-05-05 [1] 00000000-0000-0000-0000-000000000001"
        ),
        "{{ macros.dateutil.parser.parse('2024-01-02').day }} {{ macros.random() < 1 }}": "2 True",
        "{{ macros.datetime_diff_for_humans(logical_date, logical_date.add(days=2)) }}": "2 days before",
        "{{ ti.map_index }} {{ ti.task.task_id }} {{ ti.state }} {{ dag_run.state }}": ("-1 a running running"),
        "{{ dag_run.data_interval_end | ds }} {{ inlets }} {{ outlets }}": "2024-05-06 [] []",
    }
    echo = "; ".join(f'echo "{template}"' for template in wanted)
    details = await here.run_once(dag("named", [bash("a", echo)]), logical_date=at("2024-05-06"))
    assert without_times(here.log_of("named", details.run.run_id, "a")).splitlines() == [*wanted.values()]


# The command line


async def test_dates_without_a_zone_are_utc_and_latest_is_the_newest(here: Stack) -> None:
    await here.tidemill.dags.register(dag("dated", [bash("a", "echo {{ ds }}")]))
    later = await told(here, "dags", "trigger", "dated", "--json")
    assert later["logical_date"] is not None
    earlier = await told(here, "dags", "trigger", "dated", "--logical-date", "2024-01-02", "--json")
    assert earlier["logical_date"] == "2024-01-02T00:00:00Z"
    none = await told(here, "dags", "trigger", "dated", "--no-logical-date", "--json")
    assert none["logical_date"] is None
    await here.tidemill.runs.trigger("dated", TriggerRequest(run_after=at("2024-01-01")))  # made last, and no newer
    assert (await told(here, "runs", "show", "dated", "latest", "--json"))["run"]["run_id"] == none["run_id"]


async def test_a_line_of_a_list_is_a_line_of_the_output(here: Stack) -> None:
    dag_id = "a_dag_with_a_name_that_is_longer_than_half_of_a_line_of_eighty_characters_" + "x" * 40
    await here.tidemill.dags.register(dag(dag_id, [empty("a")]))
    listed = await told(here, "tasks", "list", dag_id)
    assert listed.splitlines()[1].split()[:2] == ["a", "empty"]
    shown = await told(here, "dags", "trigger", dag_id, "--run-id", "y" * 90)
    assert any(dag_id in line and "y" * 90 in line for line in shown.splitlines())


async def test_templates_as_for_a_run_with_its_results(here: Stack) -> None:
    tasks = [bash("a", "echo 7"), bash("b", "echo {{ ti.xcom_pull('a') }} {{ run_id }}", "a")]
    details = await here.run_once(dag("rendered", tasks), run_id="mine")
    assert details.state == "success"
    for wanted in ("mine", "latest"):
        assert json.loads(await told(here, "tasks", "render", "rendered", "b", wanted))[0] == "echo 7 mine"
    refused = await told(here, "tasks", "render", "rendered", "nope", "mine", code=1)
    assert refused.count("error:") == 1


def test_a_files_error_names_the_users_own_lines_alone(tmp_path: Path) -> None:
    found = checked(tmp_path, "def broken():\n    return 1 / 0\nbroken()\n")
    [error] = found.errors
    assert "ZeroDivisionError" in error.error
    assert [line.split(":")[0].strip() for line in error.error.splitlines()[1:]] == ["dags.py"] * 2


async def test_what_has_been_said_is_not_followed_by_a_number(here: Stack) -> None:
    await here.tidemill.dags.register(dag("no_run", [empty("a")]))
    refused = await told(here, "runs", "show", "no_run", "latest", code=1)
    assert "error: 1" not in refused


async def test_a_dag_is_deleted_with_its_runs(here: Stack) -> None:
    await here.run_once(dag("deleted", [empty("a")]))
    [gone] = await told(here, "dags", "delete", "deleted", "--yes", "--json")
    assert gone == {"dag_id": "deleted", "runs": 1}
    with pytest.raises(NotFoundError):
        await here.tidemill.dags.describe("deleted")
    assert (await here.run_once(dag("deleted", [empty("a")]))).state == "success"


async def test_a_dag_that_is_deleted_and_made_again_begins_anew(here: Stack) -> None:
    """However soon after the end of its runs: Temporal lists these a moment later, and deletes them later still."""
    for n in range(3):
        dates = {"start_date": "2026-01-01T00:00:00Z", "end_date": "2026-01-03T00:00:00Z"}
        spec = dag("made_again", [bash("a", f"echo {n}")], schedule="@daily", catchup=True, **dates)
        await here.tidemill.dags.register(spec)
        runs = await here.all_finished("made_again", 3)
        logs = [here.log_of("made_again", run.run_id, "a").split() for run in runs]  # which outlive the DAG
        assert logs == [[str(k) for k in range(n + 1)]] * 3
        assert await here.tidemill.dags.delete("made_again") == 3


async def test_a_dag_with_runs_under_way_is_not_deleted(here: Stack) -> None:
    await here.tidemill.dags.register(dag("kept", [bash("a", "sleep 600")]))
    run = await here.tidemill.runs.trigger("kept")
    with pytest.raises(InvalidInputError, match="has runs under way"):
        await here.tidemill.dags.delete("kept")
    assert (await here.tidemill.dags.describe("kept")).is_paused is False
    await here.tidemill.runs.cancel("kept", run.run_id)


async def test_a_terminated_dag_does_not_look_well(here: Stack) -> None:
    await here.tidemill.dags.register(dag("terminated_unseen", [empty("a")]))
    await here.tidemill.client.get_workflow_handle("dag:terminated_unseen").terminate()
    with pytest.raises(NotFoundError, match="has been ended"):
        await here.tidemill.dags.describe("terminated_unseen")
    assert await here.tidemill.dags.delete("terminated_unseen") == 0


@pytest.mark.parametrize("option", ["--version", "-h"])
def test_what_every_command_line_answers(option: str) -> None:
    done = subprocess.run([REAL, option], capture_output=True, text=True, check=True)
    assert "tidemill" in done.stdout


def test_a_second_dev_does_not_join_the_first(server: str) -> None:
    port = int(server.rpartition(":")[2])
    with pytest.raises(InvalidInputError, match=f"port {port} is in use: another `tidemill dev`"):
        check_port(port)
    check_port(free_port())


async def test_commands_in_its_folder_find_a_dev_on_another_port(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TEMPORAL_ADDRESS", "TIDEMILL_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".tidemill").mkdir()
    with remembered(tmp_path / ".tidemill", server):
        assert (await connect()).service_client.config.target_host == server
        monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
        with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:1"):
            await connect()
    assert remembered_address() is None
    (tmp_path / ".tidemill" / "dev_address").write_text(f"127.0.0.1:{free_port()}")  # of one that was killed
    assert remembered_address() is None


def test_the_face_gives_what_the_list_says() -> None:
    program = "import tidemill\nfor name in tidemill.__all__: getattr(tidemill, name)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_table_of_arguments_is_in_the_documentation() -> None:
    """`make docs` writes it."""
    page = (Path(__file__).parents[2] / "docs" / "coming_from_airflow.md").read_text()
    for whose in (*ACCEPTED.values(), *DROPPED.values()):
        for name, text in whose.items():
            assert f"| `{name}` | {text} |" in page
