"""Functions of the product with other code in them: counted line by line, or with one line changed.

The code of a function is replaced where the function is, so that a process that has everything imported tries another
change at once, whoever has imported the function.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

PACKAGE = "tidemill"
DECIDING = (
    "model.asset", "model.bundle", "model.dag", "model.pool", "model.run", "model.states", "workflows",
)  # fmt: skip
"""The modules that decide, by the beginnings of their names."""


@dataclass(frozen=True)
class Source:
    """A module of the product as it is on disk."""

    name: str
    """Such as `model.run.engine`."""
    path: str
    text: str

    def tree(self) -> ast.Module:
        return ast.parse(self.text)


def deciding_sources() -> list[Source]:
    """The modules that decide and that this process has imported, by name."""
    found = []
    for name, module in sorted(sys.modules.items()):
        short = name.removeprefix(f"{PACKAGE}.")
        path = getattr(module, "__file__", None)
        if name != short and path and short.startswith(DECIDING):
            found.append(Source(short, path, Path(path).read_text()))
    return found


def functions_of(path: str) -> dict[tuple[str, int], list[FunctionType]]:
    """The functions of a module, by qualified name and first line. Several: a wrapper may share its code."""
    found: dict[tuple[str, int], list[FunctionType]] = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename == path:
            found.setdefault((each.__code__.co_qualname, each.__code__.co_firstlineno), []).append(each)
    return found


def outer_codes(code: CodeType) -> Iterator[CodeType]:
    """The codes of functions that stand in a module or in a class of it, not in another function."""
    for const in code.co_consts:
        if not isinstance(const, CodeType):
            continue
        if const.co_flags & 0x2:  # CO_NEWLOCALS: a function; a class body has not
            yield const
        else:
            yield from outer_codes(const)


def put(tree: ast.Module, path: str, functions: dict[tuple[str, int], list[FunctionType]]) -> Callable[[], None]:
    """Gives the *functions* of a module the code of *tree*. Returns what puts theirs back."""
    before: list[tuple[FunctionType, CodeType]] = []
    for code in outer_codes(compile(ast.fix_missing_locations(tree), path, "exec")):
        for function in functions.get((code.co_qualname, code.co_firstlineno), ()):
            if function.__code__.co_freevars == code.co_freevars:
                before.append((function, function.__code__))
                function.__code__ = code

    def restore() -> None:
        for function, code in before:
            function.__code__ = code

    return restore
