"""One-line changes of the deciding code, made by machine."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

from .recompiled import Source

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
TEXTS = frozenset({"note", "refuse", "warning", "info", "deprecate_patch", "set_current_details"})
"""Calls that only say something, or that mark a history."""
ABOUT_TEXT = ("why", "reason", "explain", "text", "table", "__str__", "__repr__", "describe", "listing", "remark")
"""Parts of names of functions that only make words."""


@dataclass(frozen=True)
class Mutation:
    """One change: the *number*-th that can be made in its module."""

    module: str
    line: int
    number: int
    what: str
    """The line as it is and as it would be."""

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.what}"


class _Change:
    """One change, and how it is made and taken back in a tree."""

    def __init__(self, node: ast.AST, name: str, value: object) -> None:
        self.node, self.name, self.value = node, name, value

    def swap(self) -> None:
        now = getattr(self.node, self.name)
        setattr(self.node, self.name, self.value)
        self.value = now


def mutations(client: Source) -> list[Mutation]:
    """All changes of a module."""
    tree = client.tree()
    found = []
    for number, (change, statement) in enumerate(_changes(tree)):
        before = _shown(statement)
        change.swap()
        after = _shown(statement)
        change.swap()
        line = getattr(change.node, "lineno", statement.lineno)
        found.append(Mutation(client.name, line, number, f"{before}  =>  {after}"))
    return found


def mutated(client: Source, number: int) -> ast.Module:
    """The tree of a module with its *number*-th change made."""
    tree = client.tree()
    change, _ = [*_changes(tree)][number]
    change.swap()
    return tree


def _shown(statement: ast.stmt) -> str:
    head = copy.copy(statement)
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        if isinstance(getattr(head, name, None), list):
            setattr(head, name, [])
    text = ast.unparse(head) if not isinstance(statement, ast.Try) else "try:"
    return " ".join(text.split())[:110]


def _changes(tree: ast.Module) -> Iterator[tuple[_Change, ast.stmt]]:
    """Every change that can be made, with the statement that it is in."""
    for function in _functions(tree):
        if any(part in function.name for part in ABOUT_TEXT):
            continue
        for holder, name, index, statement in _statements(function):
            yield from ((change, statement) for change in _of_statement(holder, name, index, statement))
            for node in _expressions(statement):
                yield from ((change, statement) for change in _of_expression(node))


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node)


def _statements(node: ast.AST) -> Iterator[tuple[ast.AST, str, int, ast.stmt]]:
    for name, value in ast.iter_fields(node):
        for index, each in enumerate(value if isinstance(value, list) else []):
            if isinstance(each, ast.stmt):
                yield node, name, index, each
            if isinstance(each, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield from _statements(each)


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement, without those of statements inside of it, of texts and of what is raised."""
    if isinstance(statement, ast.Raise | ast.Assert) or _only_says(statement):
        return
    todo: list[ast.AST] = [
        child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr | ast.withitem)
    ]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.JoinedStr):
            continue
        yield node
        todo += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _only_says(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    name = getattr(call.func, "attr", "") if isinstance(call, ast.Call) else ""
    return name in TEXTS


def _of_statement(holder: ast.AST, name: str, index: int, statement: ast.stmt) -> Iterator[_Change]:
    """The statement is left out."""
    if isinstance(statement, ast.Expr) and (isinstance(statement.value, ast.Constant) or _only_says(statement)):
        return
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    keeps = isinstance(statement, ast.Assign | ast.AugAssign) and any(
        isinstance(each, ast.Attribute | ast.Subscript) for each in targets
    )
    if keeps or isinstance(statement, ast.Expr | ast.Delete | ast.Continue | ast.Break):
        body = list(getattr(holder, name))
        body[index] = ast.copy_location(ast.Pass(), statement)
        yield _Change(holder, name, body)


def _of_expression(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            yield _Change(node, "ops", [COMPARISONS[type(op)]()])
        case ast.BoolOp(op=op, values=values):
            yield _Change(node, "op", ast.Or() if isinstance(op, ast.And) else ast.And())
            for left_out in range(len(values)):
                left = values[:left_out] + values[left_out + 1 :]
                yield _Change(node, "values", left if len(left) > 1 else 2 * left)  # one alone is no BoolOp
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _Change(node, "operand", ast.copy_location(ast.UnaryOp(ast.Not(), operand), operand))
        case ast.IfExp(body=body, orelse=orelse):
            yield _Change(node, "body", orelse)
            yield _Change(node, "orelse", body)
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            yield _Change(node, "op", OPERATORS[type(op)]())
        case ast.Constant(value=bool() as value):
            yield _Change(node, "value", not value)
        case ast.Constant(value=int() as value):
            yield _Change(node, "value", value + 1)
        case ast.Name(id=known) if known in NAMES:
            yield _Change(node, "id", NAMES[known])
        case ast.comprehension(ifs=[_, *_] as ifs):
            for left_out in range(len(ifs)):
                yield _Change(node, "ifs", ifs[:left_out] + ifs[left_out + 1 :])
        case _:
            pass
