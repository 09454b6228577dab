"""Writes docs/contract.md from tests/data/contract.json: `make docs`. Fails where a test or a page is gone."""

import ast
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "tests" / "data" / "contract.json"
PAGE = ROOT / "docs" / "contract.md"
HEAD = """# The contract, row by row

What users of Airflow's scheduler may expect, and which test would fail without it. The ids are those of the
requirements that were collected before the first release: S0 to S4 from documents about Airflow's scheduler, N from
its users. Made by `make docs` from `tests/data/contract.json`; a test fails when a test or a page that is named here is
gone. {counts}
"""
TITLES = {
    "held": ("Held by tests", "tests"),
    "replaced": ("Answered otherwise, by a decision", "where"),
    "partial": ("Not all of it, yet", "what is missing"),
    "missing": ("Not there yet", "what is missing"),
}


def rows() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(ROWS.read_text())
    return found


def gone(row: dict[str, Any]) -> list[str]:
    """The tests and pages of *row* that are not there."""
    tests = [name for name in row.get("tests", ()) if not _is_there(name)]
    return tests + [page for page in row.get("decision", ()) if not (ROOT / page).exists()]


def _is_there(test: str) -> bool:
    path, _, name = test.partition("::")
    return (ROOT / path).exists() and name in _run_by_make_test(ROOT / path)


@cache
def _run_by_make_test(path: Path) -> set[str]:
    """The names of the tests of a file, without those that are skipped always, or belong to `make chaos`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = {ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list}
            if not marks & {"pytest.mark.skip", "pytest.mark.long", "pytest.mark.xfail"}:
                found.add(node.name)
    return found


def page() -> str:
    """The page as it should be."""
    known = rows()
    counts = {status: sum(row["status"] == status for row in known.values()) for status in TITLES}
    told = ", ".join(f"{counts[status]} {words}" for status, words in (
        ("held", "rows are held by tests"), ("replaced", "are answered otherwise"),
        ("partial", "hold in part"), ("missing", "are not there yet"),
    ))  # fmt: skip
    parts = [HEAD.format(counts=f"{told[0].upper()}{told[1:]}.")]
    for status, (title, column) in TITLES.items():
        lines = [f"## {title}", "", f"| | behaviour | {column} |", "|---|---|---|"]
        lines += [_line(name, row) for name, row in known.items() if row["status"] == status]
        parts.append("\n".join([*lines, ""]))
    return "\n".join(parts)


def _line(name: str, row: dict[str, Any]) -> str:
    match row["status"]:
        case "held":
            last = "<br>".join(_link(test) for test in row.get("tests", ()))
        case "replaced":
            last = "<br>".join(f"[{Path(page).stem}]({Path(page).relative_to('docs')})" for page in row["decision"])
        case _:
            last = row["missing"].replace("|", "\\|")
    return f"| {name} | {row['text'].replace('|', '&#124;')} | {last} |"


def _link(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[{name}](../{path})"


def main() -> None:
    lost = {name: found for name, row in rows().items() if (found := gone(row))}
    if lost:
        sys.exit("\n".join(f"{name}: {', '.join(found)} is not there" for name, found in lost.items()))
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
