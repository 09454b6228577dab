"""Reading DAG files: whatever one does, it hurts only itself and is told."""

from datetime import timedelta
from pathlib import Path

import pytest
from tidemill.activities.dag_files import find_dag_files, parse_dag_file

GOOD = "from tidemill import DAG, EmptyOperator\nwith DAG('good') as d:\n    EmptyOperator(task_id='a')\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "file.py"
    path.write_text(text)
    return path


def test_a_good_file_gives_its_dags_and_where_they_are_from(tmp_path: Path) -> None:
    path = written(tmp_path, "print('noise')\n" + GOOD)
    parsed = parse_dag_file(path)
    assert parsed.error is None
    assert [(spec.dag_id, spec.source.path if spec.source else None) for spec in parsed.dags] == [("good", str(path))]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import sys; sys.exit(-1)", "SystemExit: it called sys.exit(-1)"),
        ("import os; print('bye'); os._exit(5)", "it ended with exit code 5"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "it was ended by signal 11"),
        ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("def (", "SyntaxError"),
        (GOOD.replace("task_id='a'", "task_id='a', retries=-1"), "DAG 'good': task 'a': retries = -1"),
    ],
)
def test_a_bad_file_is_told_apart(tmp_path: Path, text: str, told: str) -> None:
    parsed = parse_dag_file(written(tmp_path, text))
    assert parsed.error is not None
    assert told in parsed.error
    assert parsed.dags == ()


def test_an_endless_file_is_ended(tmp_path: Path) -> None:
    parsed = parse_dag_file(written(tmp_path, "while True: pass"), timedelta(seconds=3))
    assert parsed.error == "importing the file took more than 3 s. Move slow work into tasks"


def test_the_folder_is_searched_in_order(tmp_path: Path) -> None:
    for name in ("b.py", "a/c.py", ".hidden/d.py", "__pycache__/e.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("from tidemill import DAG")
    (tmp_path / "script.py").write_text("import os")
    assert find_dag_files(tmp_path) == [tmp_path / "a" / "c.py", tmp_path / "b.py"]
