"""The written policy for patch markers (docs/upgrading.md), held against the last release."""

import ast
from pathlib import Path
from zipfile import ZipFile

from support import newest_wheel

ROOT = Path(__file__).parents[2]
NEVER_WRITTEN = {"keeps-conf-of-run"}
"""Markers for which the last release looks in histories of the one before alone."""


def test_what_the_last_release_decided_otherwise_for_the_one_before_is_gone() -> None:
    now, before = markers(sources_of_today()), markers(sources_of_the_last_release())
    assert not now["patched"] & before["patched"], "0.N+1 has no arm for histories of 0.N-1: workflow.deprecate_patch"


def test_a_marker_that_the_last_release_writes_is_known() -> None:
    now, before = markers(sources_of_today()), markers(sources_of_the_last_release())
    assert before["patched"] - NEVER_WRITTEN <= now["deprecate_patch"], "its histories could not be replayed"
    assert not before["deprecate_patch"] & (now["patched"] | now["deprecate_patch"]), "0.N+2 has nothing of it"


def test_markers_are_named_where_they_are_asked_for() -> None:
    """Else this file would not see them; but for the one by which a suggestion is looked for."""
    others = markers(sources_of_today())["others"]
    assert others == {"f'continue-as-new-suggested-{number}'"}


def sources_of_today() -> list[str]:
    return [path.read_text() for path in sorted((ROOT / "workflows").rglob("*.py"))]


def sources_of_the_last_release() -> list[str]:
    with ZipFile(newest_wheel()) as wheel:
        names = sorted(name for name in wheel.namelist() if "/workflows/" in name and name.endswith(".py"))
        return [wheel.read(name).decode() for name in names]


def markers(sources: list[str]) -> dict[str, set[str]]:
    """Return the names of markers by the function that is called with them, constants looked up."""
    trees = [ast.parse(source) for source in sources]
    constants = {
        target.id: node.value.value
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: dict[str, set[str]] = {"patched": set(), "deprecate_patch": set(), "others": set()}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in found:
                match node.args[0]:
                    case ast.Constant(value=str(name)):
                        found[node.func.attr].add(name)
                    case ast.Name(id=name) if name in constants:
                        found[node.func.attr].add(constants[name])
                    case other:
                        found["others"].add(ast.unparse(other))
    return found
