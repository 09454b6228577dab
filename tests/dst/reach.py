"""Which statements and branches of the deciding code a seed runs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .recompiled import Source, functions_of, put

HITS = "__reached__"
"""The name under which a module finds where it counts."""


@dataclass(frozen=True, order=True)
class Place:
    """A statement of a function; with a negative line, the way past an `if` that has no `else`."""

    module: str
    line: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line}" if self.line > 0 else f"{self.module}:{-self.line} (passed by)"


class _Counting:
    """Adds to each statement of each function that it was reached."""

    def __init__(self, module: str, places: list[Place]) -> None:
        self._module, self._places = module, places

    def change(self, node: ast.AST, *, inside: bool = False) -> None:
        """Changes all below *node*, which is *inside* a function or not."""
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and inside and value and isinstance(value[0], ast.stmt):
                setattr(node, name, self._counted(value))
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST):
                    self.change(each, inside=inside)
        if isinstance(node, ast.If) and not node.orelse and inside:
            node.orelse = [self._mark(-node.lineno, node)]

    def _counted(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in body:
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            found += [statement] if is_text else [self._mark(statement.lineno, statement), statement]
        return found

    def _mark(self, line: int, at: ast.stmt) -> ast.stmt:
        self._places.append(Place(self._module, line))
        [mark] = ast.parse(f"{HITS}[{len(self._places) - 1}] = 1").body
        for node in ast.walk(mark):
            ast.copy_location(node, at)
        return mark


class Reach:
    """Counts, in this process, what of *sources* is reached; from now on, and until `stop`."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.places: list[Place] = []
        trees = []
        for source in sources:
            tree = source.tree()
            _Counting(source.name, self.places).change(tree)
            trees.append(tree)
        self._hits = bytearray(len(self.places))
        self._restoring: list[Callable[[], None]] = []
        for source, tree in zip(sources, trees, strict=True):
            functions = functions_of(source.path)
            for same in functions.values():
                for function in same:
                    function.__globals__[HITS] = self._hits
            self._restoring.append(put(tree, source.path, functions))

    def taken(self) -> set[Place]:
        """What was reached since the last question."""
        found = {place for place, hit in zip(self.places, self._hits, strict=True) if hit}
        self._hits[:] = bytes(len(self._hits))
        return found

    def stop(self) -> None:
        """Puts the code back."""
        for restore in self._restoring:
            restore()
