"""`tidemill init`: a project to begin with."""

from pathlib import Path
from typing import Annotated

import typer

from .output import console, fail

FILES = {
    "dags/first.py": '''"""A first DAG: what is said each day is counted."""

from datetime import datetime

from tidemill import DAG, BashOperator, task

with DAG("first", schedule="@daily", start_date=datetime(2026, 1, 1), tags=["example"]):
    hello = BashOperator("hello", bash_command="echo the day is {{ ds }}")

    @task
    def count(text: str) -> int:
        return len(text.split())

    count(hello.output)
''',
    "dags/.airflowignore": "# Files and folders that hold no DAGs, a pattern a line.\n",
    "tests/test_dags.py": '''"""Every DAG file can be imported, and the first DAG does what it is to do."""

from datetime import UTC, datetime

from tidemill import load_dags


def test_all_dags_can_be_imported() -> None:
    assert "first" in load_dags("dags")


def test_words_are_counted() -> None:
    run = load_dags("dags/first.py")["first"].test(logical_date=datetime(2026, 1, 1, tzinfo=UTC))
    assert run.state == "success"
''',
    ".github/workflows/dags.yml": '''name: dags
on: [push, pull_request]
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "3.12"}
      # Tidemill is on no package index yet: name your wheel, or the address of its repository.
      - run: pip install "$TIDEMILL" pytest
        env: {TIDEMILL: "git+https://git.example.com/tidemill.git"}
      - run: tidemill dags validate dags
      - run: pytest
''',
    ".gitignore": ".tidemill/\n__pycache__/\n",
}  # fmt: skip


SPARK = {
    "dags/first_spark.py": '''"""Spark SQL each day, on the Spark Connect server that `tidemill dev` keeps warm."""

from datetime import datetime

from tidemill import DAG, spark_sql

with DAG("first_spark", schedule="@daily", start_date=datetime(2026, 1, 1), tags=["example"]):
    spark_sql("squares", "SELECT id, id * id AS square FROM range(10)", conn_id="connect")
''',
}
"""Where Spark is installed: a DAG that fails at once is no beginning."""


def init(
    folder: Annotated[Path, typer.Argument(help="The folder of the project; made where it is not there.")],
) -> None:
    """Begin a project: a DAG, where Spark is installed another for it, a test, and files for git and CI.

    Nothing that is there is changed.
    """
    from ..spark.presence import lacks_for_spark

    files = FILES if lacks_for_spark() is not None else {**FILES, **SPARK}
    taken = [name for name in files if (folder / name).exists()]
    if taken:
        fail(f"{folder} has {', '.join(taken)} already. Name another folder")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        console.print(f"made {folder / name}")
    where = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    console.print(f"Next: {where}tidemill dev dags", soft_wrap=True)
