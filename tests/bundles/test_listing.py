"""What is found in a folder, and what counts as the content of a file: from texts alone, nothing is imported."""

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tidemill.activities.bundles.listing import Tree, listed
from tidemill.activities.bundles.snapshots import Snapshots


def files(root: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def asked(root: Path, cache: Path) -> dict[str, str]:
    question = {"root": str(root), "syntax": "glob", "extras": {}, "cache": str(cache)}
    return dict(listed(question)["files"])


def test_imports_of_every_shape_are_followed(tmp_path: Path) -> None:
    files(
        tmp_path,
        dag="import one, pkg.two as t\ndef f():\n    from pkg import (\n        three,  # so\n        four,\n    )\n",
        one="from pkg.deep import five",
        pkg__two="",
        pkg__three="",
        pkg__four="",
        pkg__deep__five="from .. import six\nfrom ....outside import x",
        pkg__six="",
        unused="",
    )
    found = Tree(tmp_path).closure("dag.py")
    wanted = ["dag", "one", "pkg/two", "pkg/three", "pkg/four", "pkg/deep/five", "pkg/six"]
    assert found == {f"{name}.py" for name in wanted}


def test_a_module_that_comes_later_changes_what_imports_it(tmp_path: Path) -> None:
    root, cache = tmp_path / "dags", tmp_path / "cache"
    files(root, a="from helpers import x", b="")
    before = asked(root, cache)
    files(root, helpers="x = 1")
    after = asked(root, cache)
    assert after["a.py"] != before["a.py"]
    assert after["b.py"] == before["b.py"]
    (root / "helpers.py").unlink()
    assert asked(root, cache) == before


def test_a_very_large_file_is_known_by_what_is_the_same_on_every_host(tmp_path: Path) -> None:
    """It has no blocks, costs nothing to make, and would take a thread of the worker for seconds."""
    digests = []
    for name, end in (("one", b"a"), ("other", b"a"), ("third", b"b")):
        path = tmp_path / name / "large"
        path.parent.mkdir()
        with path.open("wb") as file:
            file.truncate(300 * 2**20)
            file.seek(-1, os.SEEK_END)
            file.write(end)
        os.utime(path, (len(digests), len(digests)))
        digests.append(Tree(tmp_path / name).fact("large")[0])
    assert digests[0] == digests[1] != digests[2]


def test_one_bad_entry_is_told_and_hides_no_other(tmp_path: Path) -> None:
    files(tmp_path, good="")
    (tmp_path / "itself").symlink_to("itself")
    (tmp_path / "half.zip").write_bytes(b"PK\x03\x04 half of it")
    (tmp_path / "folder").mkdir()
    files(tmp_path / "folder", also_good="")
    (tmp_path / "folder" / ".airflowignore").write_bytes(b"!\nna\xefve\n")
    tree = Tree(tmp_path)
    assert tree.dag_files() == ["folder/also_good.py", "good.py"]
    assert [warning.split()[0] for warning in tree.warnings] == ["folder/.airflowignore:", "itself", "half.zip"]


def test_a_snapshot_holds_nothing_from_outside_its_folder(tmp_path: Path) -> None:
    """Laid out again, it would be written over what is there."""
    root, outside = tmp_path / "dags", tmp_path / "job.py"
    files(root, a="x = 1")
    outside.write_text("old")
    snapshots = Snapshots(f"file://{tmp_path}/kept", tmp_path / "here")
    snapshot = snapshots.keep(root, ["a.py", str(outside), "../job.py"])
    outside.write_text("new")
    folder = snapshots.lay_out(snapshot)
    assert outside.read_text() == "new"
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["a.py"]


@pytest.mark.parametrize("hidden", ["sub", "."])
def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    """Nothing is known of what is in it, and nothing below it is taken for removed; of the root it is a problem."""
    root = tmp_path / "dags"
    (root / "sub").mkdir(parents=True)
    for name in ("a.py", "sub/b.py"):
        (root / name).write_text("x = 1")
    scandir = os.scandir

    def refusing(folder: Any) -> Any:
        if Path(folder) == root / hidden:
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refusing)
    answer = listed({"root": str(root), "syntax": "glob", "extras": {}, "cache": str(tmp_path / "cache.json")})
    if hidden == ".":
        assert answer == {"problem": f"{root}: cannot be listed: Permission denied. Let the worker's user read it"}
    else:
        assert (sorted(answer["files"]), answer["unreadable"]) == (["a.py"], ["sub"])
        assert answer["warnings"] == ["sub cannot be listed: Permission denied"]


def test_files_that_do_not_speak_of_dags_are_passed_over(tmp_path: Path) -> None:
    files(
        tmp_path,
        by_airflow="from airflow.sdk import DAG",
        by_tidemill="from TideMill import dag",
        company="from company import make_dag",
        script="import pyspark",
        broken="from airflow import DAG (",
    )
    for name, text in {"good.zip": "import airflow  # dag", "plain.zip": "import os"}.items():
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("inside.py", text)
    question = {"root": str(tmp_path), "syntax": "glob", "extras": {}, "cache": str(tmp_path / "cache")}
    for _ in range(2):  # the second time from what is kept
        found = listed({**question, "safe_mode": True})
        assert found["passed_over"] == ["company.py", "plain.zip/inside.py", "script.py"]
        left = sorted({*found["files"]} - {*found["passed_over"]})
        assert left == ["broken.py", "by_airflow.py", "by_tidemill.py", "good.zip/inside.py"]
        assert "company.py, plain.zip/inside.py, script.py" in found["warnings"][-1]
    assert len(listed(question)["files"]) == 7
