"""Operators, hooks, template files, environments and conditions of the user's own, on a real worker."""

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support import Stack, at, eventually, told, without_times
from tidemill.activities.dag_files import each_dag_file
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.views import RunDetails
from tidemill.worker.local.validation import check_path

from tidemill import DAG, BaseOperator, BaseSensorOperator, EmptyOperator, Param, task

HEAD = "from datetime import datetime, timedelta\nfrom tidemill import *\n"
OPERATORS = """
class Say(BaseOperator):
    template_fields = ("text", "more")
    template_ext = (".txt",)

    def __init__(self, *, text, more=None, times=1, greeting="hello", **kwargs):
        super().__init__(**kwargs)
        self.text, self.more, self.times, self.greeting = text, more, times, greeting

    def pre_execute(self, context):
        print("before", context["ds"])

    def execute(self, context):
        self.log.info("at work")
        return [self.greeting, self.text * self.times, self.more]

    def post_execute(self, context, result=None):
        print("after", result)


class Twice(Say):
    def __init__(self, **kwargs):
        super().__init__(times=2, **kwargs)


class Wait(BaseSensorOperator):
    template_fields = ("path",)

    def __init__(self, *, path, **kwargs):
        super().__init__(**kwargs)
        self.path = path

    def poke(self, context):
        import pathlib
        found = pathlib.Path(self.path)
        tried = found.exists()
        found.touch()
        return PokeReturnValue(is_done=tried, xcom_value="found")
"""


async def ran(here: Stack, folder: Path, text: str, **trigger: Any) -> RunDetails:
    """Registers the one DAG of the file and runs it once."""
    file = folder / "dags.py"
    file.write_text(HEAD + text)
    [parsed] = [found for found in each_dag_file(folder) if found.path == file]
    assert parsed.error is None, parsed.error
    return await here.run_once(parsed.dags[0], logical_date=at("2024-05-06"), **trigger)


async def results(here: Stack, details: RunDetails) -> dict[str, Any]:
    assert {task.key: task.error for task in details.tasks if task.error} == {}
    return {task.key: await here.result_of(details, task.key) for task in details.tasks}


async def test_operators_of_ones_own_do_their_work(here: Stack, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("words of {{ ds }}")
    details = await ran(here, tmp_path, OPERATORS + f"""
with DAG("own", default_args=dict(greeting="good day", retries=1)):
    @task
    def number(): return 7
    n = number()
    plain = Say(task_id="plain", text="{{{{ ds_nodash }}}} ", times=2)
    Twice(task_id="file", text="words.txt", more={{"n": n, "of": ["{{{{ run_id }}}}"]}}, greeting="hi")
    Say.partial(task_id="mapped", times=2).expand(text=["{{{{ ds }}}}", "b"])
    plain >> BashOperator(task_id="reads", bash_command=f"echo {{plain.output}}")
    Wait(task_id="waits", path="{tmp_path}/{{{{ ds }}}}", poke_interval=0.1, mode="reschedule")
""", run_id="mine")  # fmt: skip
    found = await results(here, details)
    assert found["plain"] == ["good day", "20240506 20240506 ", None]
    assert found["file"] == ["hi", "words of 2024-05-06" * 2, {"n": 7, "of": ["mine"]}]
    assert [found["mapped[0]"], found["mapped[1]"]] == [["good day", "2024-05-06" * 2, None], ["good day", "bb", None]]
    assert found["waits"] == "found"
    assert "20240506 20240506" in found["reads"]
    log = here.log_of("own", "mine", "plain")
    assert [word for word in ("before 2024-05-06", "at work", "after ['good day'") if word in log] != []
    upstream = {task.task_id: set(task.upstream) for task in details.tasks}
    assert upstream["file"] == {"number"}


async def test_what_is_wrong_with_an_operator_is_said_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "dags.py"
    file.write_text(HEAD + OPERATORS + "with DAG('d'):\n    Say(task_id='a', text='{{ ds }')\n")
    [error] = check_path(file).errors
    assert "task 'a': template '{{ ds }': unexpected '}'" in error.error
    assert error.error.endswith(f"task 'a' is at dags.py:{len(file.read_text().splitlines())}")
    for text, said in (
        (
            "class A(BaseOperator):\n    def __init__(self, **kw): pass\nwith DAG('d'): A(task_id='a')\n",
            "does not call",
        ),
        ("with DAG('d'): Say('a', text='x')\n", "by their names"),
        ("class A(BaseOperator):\n    template_fields = 'x'\n", "Write a tuple"),
        ("class A(BaseOperator):\n    template_fields = ('x',)\nwith DAG('d'): A(task_id='a')\n", "does not set"),
        ("with DAG('d'): BashOperator(task_id='a', bash_command='none.sh')\n", "template file 'none.sh' is not in"),
    ):
        file.write_text(HEAD + OPERATORS + text)
        [error] = check_path(file).errors
        assert said in error.error
        assert "dags.py:" in error.error


def test_links_of_operators() -> None:
    class Nothing(BaseOperator):
        def execute(self, context: Any) -> None: ...

    class Never(BaseSensorOperator):
        def poke(self, context: Any) -> bool:
            return False

    with DAG("d") as made:
        a, b = Nothing(task_id="a", retries=2), Never(task_id="b", timeout=60)
        c = EmptyOperator("c")
        a >> b >> c
    assert (a.downstream_task_ids, b.upstream_task_ids, c.upstream_list[0].task_id) == ({"b"}, {"a"}, "b")
    spec = made.spec()
    assert (spec.by_id["a"].kind, spec.by_id["a"].retries, spec.by_id["b"].kind) == ("python", 2, "sensor")
    assert b.downstream_list == [c]


async def test_template_files_macros_and_filters_of_ones_own(here: Stack, tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "say.sh").write_text("{% include 'head.sh' %}\necho {{ greet(ds) | loud }}")
    (tmp_path / "sql" / "head.sh").write_text("echo of {{ dag.tags | join }}\n\n")
    details = await ran(here, tmp_path, """
with DAG("files", tags=["x"], template_searchpath=["sql"], user_defined_macros={"greet": lambda d: f"hello {d}"},
         user_defined_filters={"loud": str.upper}, jinja_environment_kwargs={"trim_blocks": True}):
    BashOperator(task_id="a", bash_command="say.sh")
    BashOperator(task_id="b", bash_command="echo not a file: say.sh ")
    PythonOperator(task_id="c", python_callable=lambda templates_dict: templates_dict["q"],
                   templates_dict={"q": "say.sh"}, templates_exts=[".sh"])
""")  # fmt: skip
    found = await results(here, details)
    assert found["a"] == "HELLO 2024-05-06"
    assert found["b"] == "not a file: say.sh"
    assert found["c"].splitlines() == ["echo of x", "echo HELLO 2024-05-06"]


@pytest.mark.thorough
async def test_a_fork_with_another_interpreter(here: Stack, tmp_path: Path) -> None:
    details = await ran(here, tmp_path, f"""
with DAG("venvs"):
    @task.virtualenv(requirements=[], system_site_packages=False, venv_cache_path="{tmp_path}/cache")
    def alone(n, ds=None, params=None):
        import sys
        try:
            import tidemill
        except ImportError:
            return [n, ds, sys.prefix]
    @task.external_python(python="{sys.executable}", retries=0)
    def fails():
        raise KeyError("what is missing")
    @task.branch_external_python(python="{sys.executable}")
    def choose(): return "yes"
    choose() >> [EmptyOperator(task_id="yes"), EmptyOperator(task_id="no")]
    alone(5)
    fails()
""")  # fmt: skip
    states = {task.task_id: task for task in details.tasks}
    n, ds, prefix = await here.result_of(details, "alone")
    assert (n, ds) == (5, "2024-05-06")
    assert prefix.startswith(f"{tmp_path}/cache/venv-")
    assert states["fails"].error == "KeyError: 'what is missing'"
    assert (states["yes"].state, states["no"].state) == ("success", "skipped")


async def test_conditions_and_results_of_several_names(here: Stack, tmp_path: Path) -> None:
    details = await ran(here, tmp_path, """
with DAG("conditions"):
    @task.run_if(lambda context: context["ds"] == "2024-05-06")
    @task
    def runs() -> dict: return {"a": 1}
    @task.skip_if(lambda context: (True, "not today"))
    @task.bash
    def skipped(): return "echo 1"
    @task
    def after(a, dag_run=None, dag=None, ti=None, prev_end_date_success=None):
        return [a, dag_run.start_date is not None, dag.dag_id, ti.log_url.startswith("file://"),
                ti.dag_run.run_id, str(prev_end_date_success)]
    after(runs()["a"])
    skipped()
""", run_id="first")  # fmt: skip
    states = {task.task_id: task for task in details.tasks}
    assert (states["skipped"].state, states["skipped"].why) == ("skipped", "not today")
    assert await here.result_of(details, "after") == [1, True, "conditions", True, "first", "None"]


async def test_what_a_task_asks_of_other_runs(here: Stack, tmp_path: Path) -> None:
    text = """
with DAG("asks", schedule="@daily", start_date=datetime(2024, 1, 1), tags=["t"], is_paused_upon_creation=True):
    @task
    def number(ds=None): return int(ds[-2:])
    @task
    def asks(ti=None, dag_run=None, prev_data_interval_start_success=None, prev_start_date_success=None):
        before = ti.get_previous_dagrun()
        return {"before": str(prev_data_interval_start_success), "at": prev_start_date_success is not None,
                "prior": ti.xcom_pull("number", include_prior_dates=True),
                "other": ti.xcom_pull("number", run_id="first"), "run": before.run_id if before else None,
                "states": sorted((one.task_id, one.state) for one in dag_run.get_task_instances("success"))}
    number() >> BashOperator(task_id="bash", bash_command="echo {{ dag.tags | join }} {{ dag.owner }} "
        "{{ dag_run.start_date is none }} {{ prev_data_interval_start_success }}") >> asks()
"""
    file = tmp_path / "dags.py"
    file.write_text(HEAD + text)
    [parsed] = each_dag_file(file)
    assert parsed.error is None, parsed.error
    spec = parsed.dags[0].model_copy(update={"is_paused_upon_creation": False})
    first = await here.run_once(spec, logical_date=at("2024-05-06"), run_id="first")
    assert first.state == "success"
    second = await here.run_once(spec, logical_date=at("2024-05-08"), run_id="second")
    assert await here.result_of(second, "bash") == "t airflow False 2024-05-05 00:00:00+00:00"
    assert await here.result_of(second, "asks") == {
        "before": "2024-05-05 00:00:00+00:00",
        "at": True,
        "prior": 8,
        "other": 6,
        "run": "first",
        "states": [["bash", "success"], ["number", "success"]],
    }


async def test_the_other_ways_to_wait_and_to_trigger(
    here: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_CONN_LAND", f'{{"extra": {{"path": "{tmp_path}/landing"}}}}')
    await registered(here, tmp_path)
    (tmp_path / "landing" / "empty").mkdir(parents=True)
    (tmp_path / "landing" / "x.csv").touch()
    details = await ran(here, tmp_path, """
with DAG("triggers", default_args=dict(retries=0)):
    FileSensor(task_id="there", filepath="x.csv", fs_conn_id="land", timeout=5, poke_interval=0.1)
    FileSensor(task_id="empty", filepath="empty", fs_conn_id="land", timeout=0.3, poke_interval=0.1)
    BashSensor(task_id="bash", bash_command="exit 3", retry_exit_code=4)
    ExternalTaskSensor(task_id="group", external_dag_id="triggers", external_task_group_id="none", timeout=5)
    once = dict(trigger_dag_id="triggered", logical_date="2024-01-01T00:00:00Z", wait_for_completion=True)
    a = TriggerDagRunOperator(task_id="a", poke_interval=0.1, **once)
    b = TriggerDagRunOperator(task_id="b", skip_when_already_exists=True, **once)
    c = TriggerDagRunOperator(task_id="c", reset_dag_run=True, poke_interval=0.1, trigger_rule="all_done", **once)
    a >> b >> c
""")  # fmt: skip
    states = {task.task_id: (task.state, task.error) for task in details.tasks}
    assert [states[name] for name in ("there", "a", "c")] == [("success", None)] * 3
    assert states["b"][0] == "skipped"
    assert states["empty"][0] == "failed"
    assert states["bash"] == ("failed", "BashFailed: the command ended with exit code 3")
    assert "has no group 'none'" in str(states["group"][1])
    [run] = await here.tidemill.runs.list("triggered")
    assert (await here.tidemill.runs.describe("triggered", run.run_id)).tasks[0].try_number == 2


async def registered(here: Stack, folder: Path) -> None:
    """The DAG that the other one triggers."""
    file = folder / "other.py"
    file.write_text(
        HEAD + "with DAG('triggered'): BashOperator(task_id='x', bash_command='echo {{ ti.try_number }}')\n"
    )
    [parsed] = each_dag_file(file)
    await here.tidemill.dags.register(parsed.dags[0])
    file.unlink()


def test_what_only_some_runs_are_allowed() -> None:
    with DAG("d", allowed_run_types="manual") as made:
        EmptyOperator("a")
    with pytest.raises(InvalidInputError, match="has no runs of type backfill: allowed_run_types = manual"):
        made.spec().check_run_type("backfill")
    with DAG("e", schedule=timedelta(days=1), allowed_run_types=["manual"]) as made:
        EmptyOperator("a")
    with pytest.raises(InvalidInputError, match="no runs of type scheduled"):
        made.spec()


def test_an_argument_that_is_misspelt_is_said_with_what_is_meant() -> None:
    with DAG("d") as made:
        EmptyOperator("a", retires=3)
    with pytest.raises(InvalidInputError, match=r"task 'a': retires = 3: no such field\. Did you mean 'retries'\?"):
        made.spec()


def test_names_that_task_has_not() -> None:
    with pytest.raises(InvalidInputError, match=r"@task\.docker is not there\. There are @task, @task\.bash"):
        task.docker  # noqa: B018
    with pytest.raises(InvalidInputError, match="above @task, and not below it"):

        @task.run_if(lambda context: True)
        def f() -> None: ...


async def test_variables_connections_and_one_task_by_the_command_line(
    here: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_VAR_PLAIN", "a value")
    monkeypatch.setenv("TIDEMILL_CONN_STORE", "http://me:s3cret@127.0.0.1:9/x?token=hidden&region=eu")
    assert await told(here, "variables", "get", "plain") == "a value\n"
    assert "plain" in await told(here, "variables", "list")
    assert "is not set" in await told(here, "variables", "test", "none", code=1)
    shown = await told(here, "connections", "get", "store", "--json")
    assert (shown["password"], shown["extra"]) == ("***", {"token": "***", "region": "eu"})
    assert (await told(here, "connections", "get", "store", "--show", "--json"))["password"] == "s3cret"
    assert "does not answer" in await told(here, "connections", "test", "store", code=1)
    file = tmp_path / "dags.py"
    file.write_text(
        HEAD + "with DAG('tried'): BashOperator(task_id='a', bash_command='echo {{ ds }} {{ var.value.plain }}')"
    )
    [parsed] = each_dag_file(file)
    await here.tidemill.dags.register(parsed.dags[0])
    said = await told(here, "tasks", "test", "tried", "a", "2024-01-02")
    assert "INFO    2024-01-02 a value\n" in said  # what the command prints is logged
    assert json.loads(said[said.index("\n{") :]) == {"return_value": "2024-01-02 a value"}
    assert "has no task 'b'" in await told(here, "tasks", "test", "tried", "b", code=1)


@pytest.mark.parametrize(("line", "wanted"), [("dags show comp", "completed"), ("runs show completed la", "latest"),
                                              ("tasks explain completed latest fir", "first_task")])  # fmt: skip
async def test_a_shell_completes_names(here: Stack, line: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await here.run_once(dag_with_one_task())
    await eventually(here.tidemill.dags.list, lambda found: any(row.dag_id == "completed" for row in found[0]))
    monkeypatch.setenv("_TIDEMILL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"tidemill {line}")
    monkeypatch.setenv("COMP_CWORD", str(len(line.split())))
    assert wanted in (await told(here)).splitlines()


def dag_with_one_task() -> Any:
    with DAG("completed") as made:
        EmptyOperator("first_task")
    return made.spec()


async def test_what_a_task_finds_where_airflow_has_it(
    here: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_VAR_PLAIN", "a value")
    details = await ran(here, tmp_path, f"""
def seen(context):
    with open("{tmp_path}/seen", "a") as file:
        print(context["ti"].state, context["dag_run"].state, file=file)
    print("of the whole run" if context["dag_run"].state == "failed" else "of a task")

class Looks(BaseOperator):
    def execute(self, context: Context):
        return [self.retries, self.dag_id, self.owner, self.pool_slots, self.task_type]

@task_group
def group(n):
    EmptyOperator(task_id="in")

with DAG("finds", on_failure_callback=seen, user_defined_macros={{"m": 1}}):
    @task
    def early(): return 7
    @task
    def beside(ti=None, var=None, **context):
        import time
        while (found := ti.xcom_pull(task_ids="early")) is None:
            time.sleep(0.1)
        ti.xcom_push("own", 1)
        return [found, ti.xcom_pull(key="own"), context["conn"] is not None, var.value.plain]
    early()
    beside()
    Looks(task_id="looks", retries=2)
    group.override(group_id="other")(1)
    BashOperator(task_id="fails", bash_command="echo {{{{ m }}}}; exit 1", on_failure_callback=seen)
    BashOperator(task_id="silent", bash_command="true")
    ExternalTaskSensor(task_id="waits", external_dag_id="not_registered_yet", timeout=0.5, poke_interval=0.1)
""", run_id="one")  # fmt: skip
    found = {task.key: task for task in details.tasks}
    assert await here.result_of(details, "beside") == [7, 1, True, "a value"]
    assert await here.result_of(details, "looks") == [2, "finds", "airflow", 1, "Looks"]
    assert "other.in" in found
    assert "is not registered yet" in str(found["waits"].error)
    lines = await eventually(lambda: read(tmp_path / "seen"), lambda lines: len(lines) >= 2)
    assert sorted(lines) == ["failed failed", "failed running"]  # of the run: the task by which it has ended
    assert without_times(await told(here, "tasks", "logs", "finds", "one", "silent")) == ""
    assert "of the whole run" in await told(here, "tasks", "logs", "finds", "one", "__run__")
    assert json.loads(await told(here, "tasks", "render", "finds", "fails", "one"))[0] == "echo 1; exit 1"


async def read(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_defaults_of_params_fit_where_a_schedule_takes_them() -> None:
    with DAG("d", schedule="@daily", params={"n": Param("x", type="integer")}) as made:
        EmptyOperator("a")
    with pytest.raises(InvalidInputError, match=r"params\.n: its default does not fit its schema"):
        made.spec()
    with DAG("e", params={"n": Param(type="integer")}) as made:
        EmptyOperator("a")
    made.spec()
