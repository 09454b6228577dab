"""A version of a DAG has the files that its tasks ask for when they run: the folder that its file is in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from airflow_stack import airflow_place, needs_airflow
from bundle_folder import Folder
from support import Stack, stack
from tidemill.activities.bundles import listing
from tidemill.activities.bundles.listing import COMPANIONS, Tree
from tidemill.activities.bundles.snapshots import LINKS, Snapshots
from tidemill.model.run.views import RunDetails
from tidemill.model.states import RunState

OWN = """
from pathlib import Path
from tidemill import DAG, BashOperator, task

with DAG("reads_own", template_searchpath="sql"):
    @task
    def opens():
        return (Path(__file__).parent / "data" / "a.json").read_text()

    @task
    def imports():
        import importlib
        return importlib.import_module("later").VALUE

    opens(), imports()
    BashOperator(task_id="script", bash_command="scripts/hello.sh")
"""
AIRFLOW = """
from datetime import datetime
from pathlib import Path
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, BaseOperator, task

SQL = str(Path(__file__).parent / "sql")

class Reads(BaseOperator):
    template_fields, template_ext = ("sql",), (".sql",)

    def __init__(self, sql, **kwargs):
        super().__init__(**kwargs)
        self.sql = sql

    def execute(self, context):
        return self.sql

with DAG("reads", schedule=None, start_date=datetime(2026, 1, 1), template_searchpath=[SQL]):
    BashOperator(task_id="script", bash_command="scripts/hello.sh")
    Reads(task_id="sql", sql="q.sql")
    Reads.partial(task_id="mapped").expand(sql=["q.sql", "part.sql"])

    @task(templates_exts=[".sql"])
    def by_ext(text):
        return text

    by_ext(text="q.sql")
    PythonOperator(
        task_id="dict", python_callable=lambda templates_dict: templates_dict["q"],
        templates_dict={"q": "q.sql"}, templates_exts=[".sql"],
    )

    @task
    def opens():
        return (Path(__file__).parent / "data" / "a.json").read_text()

    @task
    def imports():
        from later import VALUE
        return VALUE

    opens(), imports()
"""


def lay(folder: Folder, *, first: str = "1") -> None:
    folder.write("scripts/hello.sh", "echo hello {{ dag.dag_id }}")
    folder.write("sql/q.sql", "select {% include 'part.sql' %} as n")
    folder.write("sql/part.sql", f"{first}\n")
    folder.write("data/a.json", f"[{first}]")
    folder.write("later.py", f"VALUE = {first}\n")


@pytest.fixture
async def folder(server: str, tmp_path: Path) -> AsyncIterator[Folder]:
    home = tmp_path / "home"
    async with stack(server, home, place=airflow_place(home)) as here:
        (tmp_path / "dags").mkdir()
        yield Folder(here, tmp_path / "dags", "companions")


async def values(here: Stack, dag_id: str) -> dict[str, object]:
    run = await here.tidemill.runs.trigger(dag_id)
    details: RunDetails = await here.finished(dag_id, run.run_id)
    assert details.state is RunState.SUCCESS, [(task.key, task.error) for task in details.tasks]
    unmapped = [task for task in details.tasks if task.key == task.task_id]
    return {task.task_id: await here.result_of(details, task.task_id) for task in unmapped}


@needs_airflow
async def test_every_form_of_airflow_finds_its_file(folder: Folder) -> None:
    lay(folder)
    folder.write("reads.py", AIRFLOW)
    await folder.begin()
    assert (await folder.look())["reads.py"].error is None
    await folder.here.tidemill.dags.pause("reads", False)
    found = await values(folder.here, "reads")
    sql = "select 1 as n"
    assert found == {
        "script": "hello reads", "sql": sql, "by_ext": sql, "dict": sql, "opens": "[1]", "imports": 1,
    }  # fmt: skip


async def test_a_file_that_only_run_time_asks_for_is_there_and_its_change_counts(folder: Folder) -> None:
    lay(folder)
    folder.write("reads_own.py", OWN)
    await folder.begin()
    files = await folder.look()
    assert (files["reads_own.py"].error, files["reads_own.py"].parses) == (None, 1)
    await folder.here.tidemill.dags.pause("reads_own", False)
    assert await values(folder.here, "reads_own") == {"opens": "[1]", "imports": 1, "script": "hello reads_own"}
    lay(folder, first="2")
    await folder.look()
    found = await values(folder.here, "reads_own")
    assert (found["opens"], found["imports"]) == ("[2]", 2)


def test_large_files_and_keys_are_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "LINKED_ABOVE", 10)
    root = tmp_path / "dags"
    root.mkdir()
    for name, text in (("a.py", "pass"), ("large.csv", "x" * 11), ("spark.keytab", "k"), (".hidden", "h")):
        (root / name).write_text(text)
    tree = Tree(root)
    names = tree.companions("a.py")
    assert names == ["a.py", "large.csv", "spark.keytab"]
    kept = Snapshots((tmp_path / "kept").as_uri(), tmp_path / "laid")
    snapshot = kept.keep(root, names, links=[name for name in names if tree.is_linked(name)])
    laid = kept.lay_out(snapshot)
    assert {path.name: path.is_symlink() for path in laid.iterdir()} == {
        "a.py": False, "large.csv": True, "spark.keytab": True, LINKS: False,
    }  # fmt: skip
    assert (laid / "large.csv").read_text() == "x" * 11
    assert len(kept.blobs_of([snapshot])) == 2
    laid.chmod(0o755)
    (laid / "large.csv").unlink()
    (laid / "large.csv").symlink_to("/etc/passwd")
    assert (kept.lay_out(snapshot) / "large.csv").read_text() == "x" * 11, "what somebody has changed is made anew"
    (laid / "large.csv").unlink()
    again = kept.lay_out(snapshot)
    assert (again / "large.csv").is_symlink(), "what somebody has changed is laid out anew"


def test_of_a_live_folder_data_is_linked_and_the_home_of_workers_passed_over(tmp_path: Path) -> None:
    for name in ("a.py", "q.sql", "out.csv", "home/a.log", "home/snapshots/x/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    tree = Tree(tmp_path, home=str(tmp_path / "home"), is_live=True)
    assert tree.dag_files() == ["a.py"]
    assert tree.companions("a.py") == ["a.py", "out.csv", "q.sql"]
    assert [name for name in tree.companions("a.py") if tree.is_linked(name)] == ["out.csv"]
    before = tree.digest("a.py", [COMPANIONS])
    (tmp_path / "out.csv").write_text("what a task has written")
    assert Tree(tmp_path, home=str(tmp_path / "home"), is_live=True).digest("a.py", [COMPANIONS]) == before


def test_of_too_many_files_fewer_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_COMPANIONS", 6)
    (tmp_path / "team").mkdir()
    (tmp_path / "ignored").mkdir()
    (tmp_path / "team" / "a.py").write_text("pass")
    (tmp_path / "team" / "q.sql").write_text("1")
    for number in range(4):
        (tmp_path / "ignored" / f"{number}.txt").write_text("")
    assert len(Tree(tmp_path).companions("team/a.py")) == 6
    (tmp_path / "ignored" / "more.txt").write_text("")
    assert Tree(tmp_path).companions("team/a.py") == ["team/a.py", "team/q.sql"], "as ignore files are not there"
    (tmp_path / ".airflowignore").write_text("ignored/\n")
    (tmp_path / "beside.sql").write_text("")
    assert Tree(tmp_path).companions("team/a.py") == ["beside.sql", "team/a.py", "team/q.sql"]


def test_a_change_of_another_dag_file_is_none_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("pass")
    (tmp_path / "b.py").write_text("from tidemill import DAG")
    before = Tree(tmp_path).digest("a.py", [COMPANIONS])
    (tmp_path / "b.py").write_text("from tidemill import DAG, task")
    assert Tree(tmp_path).digest("a.py", [COMPANIONS]) == before
    (tmp_path / "q.sql").write_text("1")
    assert Tree(tmp_path).digest("a.py", [COMPANIONS]) != before
