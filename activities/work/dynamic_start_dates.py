"""Start dates that move each time that a file is read: found in its text, for a date does not tell its origin."""

import ast
from collections.abc import Iterator
from pathlib import Path

MOVES = ("now", "utcnow", "today", "days_ago")


def moving_start_dates(path: Path) -> list[str]:
    """A notice for each `start_date` of the file at *path* that is worked out from the time of day."""
    if not path.is_file():  # it is in an archive
        return []
    return [
        f"line {value.lineno}: start_date = {ast.unparse(value)} moves each time that the file is read, so no interval "
        "may ever end after it. Give a fixed date, such as datetime(2026, 1, 1)"
        for value in sorted(_start_dates(ast.parse(path.read_bytes())), key=lambda value: value.lineno)
        if any(isinstance(part, ast.Call) and _name(part.func) in MOVES for part in ast.walk(value))
    ]


def _start_dates(tree: ast.AST) -> Iterator[ast.expr]:
    """Those of DAGs wherever they are made; others, which may be a query's, only outside of functions."""
    everywhere = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) in ("DAG", "dag")]
    for node in {*everywhere, *_outside_of_functions(tree)}:
        if isinstance(node, ast.Call):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "start_date")
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "start_date":
                    yield value


def _outside_of_functions(tree: ast.AST) -> Iterator[ast.AST]:
    ahead = [tree]  # a list, for a long chain of `>>` is deeper than Python calls itself
    while ahead:
        for node in ast.iter_child_nodes(ahead.pop()):
            yield node
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                ahead.append(node)


def _name(function: ast.expr) -> str | None:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
