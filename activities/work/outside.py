"""Finds out whether a DAG file reads what is outside of its folder of DAG files: a kept copy of the folder lacks that.

By what is opened and imported while it is read, and by what its text works out from `__file__` for later.
"""

import ast
import importlib.util
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

MAX_NAMED = 3


class OpenedOutside:
    """Hears which files are opened below the folder above *root*, and not below *root*."""

    def __init__(self, root: Path) -> None:
        self._inside = f"{root}{os.sep}"
        self._project = f"{root.parent}{os.sep}"
        installed = {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, *(path for path in sys.path if path)}
        installed |= _of_airflow(root)
        self._others = tuple(f"{os.path.realpath(path)}{os.sep}" for path in installed)
        self._files = {os.path.realpath(path) for path in installed}
        self._found: set[str] = set()

    def hear(self, path: str) -> None:
        """Take note of *path*, which was opened: absolute, and normal."""
        if path.startswith(self._project) and not path.startswith(self._inside):
            self._found.add(path)

    @property
    def names(self) -> list[str]:
        """What a copy would lack, from the folder above the root; a few of them, in order.

        Neither what is hidden, such as an environment or a cache, nor what is on Python's path for every file.
        """
        names = []
        for path in sorted({_source_of(path) for path in self._found}):
            name = path.removeprefix(self._project)
            is_hidden = any(part.startswith(".") for part in Path(name).parts)
            if not is_hidden and not self._is_others(os.path.realpath(path)) and Path(path).is_file():
                names.append(name)
        return names[:MAX_NAMED]

    def _is_others(self, path: str) -> bool:
        return path in self._files or path.startswith(self._others)


def _of_airflow(root: Path) -> set[str]:
    """What Airflow itself reads while any file is read."""
    named = os.environ.get("AIRFLOW_HOME")
    if not named:
        return set()
    home = Path(named).resolve()
    if not root.is_relative_to(home):
        return {str(home)}
    return {str(home / name) for name in ("airflow.cfg", "config", "logs", "plugins")}


def _source_of(path: str) -> str:
    """The file that *path* was compiled from: of a module that is known already, only that is opened."""
    try:
        return importlib.util.source_from_cache(path)
    except ValueError:
        return path


def leaves_its_folder(text: str, depth: int) -> bool:
    """Return whether *text*, *depth* folders below the root, works out a path above the root from `__file__`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    known: dict[str, int] = {}
    max_levels = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            max_levels = max(max_levels, _levels(node, known) or 0)
        if isinstance(node, ast.Assign) and (levels := _levels(node.value, known)) is not None:
            known |= {target.id: levels for target in node.targets if isinstance(target, ast.Name)}
    return max_levels > depth + 1


def _levels(node: ast.expr, known: dict[str, int]) -> int | None:
    """How many folders above the file the path is that *node* stands for; None where it is none of these."""
    match node:
        case ast.Name(id="__file__"):
            return 0
        case ast.Name(id=name):
            return known.get(name)
        case ast.Attribute(value=value, attr="parent"):
            return _more(_levels(value, known), 1)
        case ast.Subscript(value=ast.Attribute(value=value, attr="parents"), slice=ast.Constant(value=int(number))):
            return _more(_levels(value, known), number + 1)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _more(_levels(left, known), _ups(right))
        case ast.Call(func=ast.Attribute(value=value, attr="resolve" | "absolute" | "expanduser")):
            return _levels(value, known)
        case ast.Call(func=func, args=[first, *rest]):
            return _of_call(
                func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", ""), first, rest, known
            )
        case _:
            return None


def _of_call(name: str, first: ast.expr, rest: list[ast.expr], known: dict[str, int]) -> int | None:
    match name:
        case "dirname":
            return _more(_levels(first, known), 1)
        case "join" | "Path" | "abspath" | "realpath" | "normpath" | "str" | "fspath":
            return _more(_levels(first, known), sum(map(_ups, rest)))
        case _:
            return None


def _ups(node: Any) -> int:
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return text.split("/").count("..")


def _more(levels: int | None, further: int) -> int | None:
    return None if levels is None else levels + further
