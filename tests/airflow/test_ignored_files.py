"""`.airflowignore` is read as Airflow's own finder reads it: trees and ignore files of random shapes, by both."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest
from airflow_stack import PYTHON, needs_airflow
from tidemill.activities.bundles.listing import Tree

pytestmark = needs_airflow

TREES = 150
NAMES = ["a", "b", "dags", "test_x", "old", "x y"]
PATTERNS = {
    "glob": "a|a/|/a|a/b|/a/b.py|*.py|!b.py|!*.py|**/old|dags/**|!dags/a.py|test_*|[ab].py|a/**/b.py|!/dags/"
    "|old/ # comment|# comment||  | a.py|a.py |!a/|?.py|dags/*.py|/|!|\\!a",
    "regexp": "a|^a/|b\\.py$|old.*|dags/a|test_|# comment|x # comment||(|^dags$| a|/b|[ab]\\.py",
}
FINDS = """
import json, sys
from pathlib import Path
from airflow._shared.module_loading.file_discovery import find_path_from_directory

found = []
for root, syntax in json.load(sys.stdin):
    try:
        paths = find_path_from_directory(root, ".airflowignore", syntax)
        found.append(sorted(Path(path).relative_to(root).as_posix() for path in paths))
    except ValueError as error:
        found.append(str(error))
print(json.dumps(found))
"""


def grow(folder: Path, chance: random.Random, syntax: str, depth: int = 0) -> None:
    """Files, folders and ignore files below *folder*."""
    folder.mkdir()
    for name in chance.sample(NAMES, 4):
        (folder / f"{name}.py").write_text("")
    if chance.random() < (0.9 if depth == 0 else 0.5):
        lines = [chance.choice(PATTERNS[syntax].split("|")) for _ in range(chance.randint(1, 5))]
        (folder / ".airflowignore").write_text("\n".join(lines))
    for name in chance.sample(NAMES, 2) if depth < 3 else ():
        grow(folder / name, chance, syntax, depth + 1)


@pytest.mark.parametrize("syntax", ["glob", "regexp"])
def test_the_same_files_are_found(tmp_path: Path, syntax: str) -> None:
    roots = [tmp_path / str(number) for number in range(TREES)]
    for number, root in enumerate(roots):
        grow(root, random.Random(f"{syntax} {number}"), syntax)
    asked = json.dumps([(str(root), syntax) for root in roots])
    done = subprocess.run([str(PYTHON), "-c", FINDS], input=asked, capture_output=True, text=True, check=True)
    compared = 0
    for root, wanted in zip(roots, json.loads(done.stdout.splitlines()[-1]), strict=True):
        if isinstance(wanted, str):  # a pattern by which Airflow lists nothing at all: here it is a warning
            continue
        compared += 1
        ignored = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob(".airflowignore")}
        assert sorted(Tree(root, syntax=syntax).dag_files()) == wanted, ignored
    assert compared > TREES / 2
