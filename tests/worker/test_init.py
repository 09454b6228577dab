"""`tidemill init` makes a project whose DAGs are valid and whose tests pass, as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tidemill.model.errors import InvalidInputError

from tidemill import load_dags


def call(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False)


def test_a_new_project_is_valid_and_its_tests_pass(tmp_path: Path) -> None:
    made = call(tmp_path, "-m", "tidemill.worker", "init", "mine")
    assert "Next: cd mine && tidemill dev dags" in made.stdout, made.stderr
    checked = call(tmp_path / "mine", "-m", "tidemill.worker", "dags", "validate", "dags")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = call(tmp_path / "mine", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "2 passed" in tested.stdout, tested.stdout + tested.stderr
    again = call(tmp_path, "-m", "tidemill.worker", "init", "mine")
    assert (again.returncode, "dags/first.py" in again.stderr) == (1, True), again.stderr


def test_files_that_cannot_be_imported_are_named_together(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from tidemill import DAG\nwith DAG('same'): pass\n")
    (tmp_path / "b.py").write_text("from tidemill import DAG\nwith DAG('same'): pass\n")
    (tmp_path / "c.py").write_text("from tidemill import DAG\nraise KeyError('x')\n")
    with pytest.raises(InvalidInputError) as refused:
        load_dags(tmp_path)
    assert str(refused.value) == "b.py: DAG 'same' is there already; c.py: KeyError: 'x'"
    with pytest.raises(InvalidInputError, match="is not there"):
        load_dags(tmp_path / "none")
