"""What things are called: the field's words, so that who knows Airflow, Temporal and Spark can guess a name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAYERS = ("model", "activities", "kinds", "workflows", "worker", "api")
FORBIDDEN = {
    "told": "say what it is: a reason, a report, a message, reported",
    "said": "say what it is: a reason, a message, recorded",
    "asked": "a query, a request, requested",
    "news": "an update, a message",
    "ring": "wake, fire",
    "way": "a mode, a path",
    "ways": "modes, paths",
    "here": "local, current, of this process",
    "most": "MAX_..., max_...",
    "within": "..._TIMEOUT, timeout",
}
"""By the word, what to write instead, in all names; what travels between releases keeps its name as an alias."""
PHRASES = (
    "under_way",
    "UnderWay",
    "at_most",
    "most_at_once",
    "within_limit",
    "within_budget",
    "within_pushed",
    "within_time",
    "due_within",
)
"""Names in which the words mean what they mean in English."""


def definitions(path: Path) -> Iterator[str]:
    """The names that the module at *path* gives: its own, and all in it."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs) and node.name is not None:
            yield node.name


def words(name: str) -> set[str]:
    for phrase in PHRASES:
        name = name.replace(phrase, "")
    return plain(name)


def test_names_are_the_fields_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}: write {FORBIDDEN[word]}"
        for layer in LAYERS
        for path in sorted((ROOT / layer).rglob("*.py"))
        for name in definitions(path)
        for word in words(name) & {*FORBIDDEN}
    ]
    assert not found, "\n".join(found)


ROLES = {
    "above", "after", "ask", "before", "begun", "below", "counts", "driver", "each", "encrypted", "ended", "facts",
    "held", "instance", "kept", "later", "look", "main", "one", "other", "parts", "results", "self", "there", "ticks",
    "user", "world",
}  # fmt: skip
"""What an argument may be called for its part in a function, beside what it is."""


def test_what_does_something_is_named_after_its_class() -> None:
    """An argument or attribute that is a class of the house, and no plain data, shares a word with the class.

    Who looks for the uses of a class finds them by its name.
    """
    trees = {path: ast.parse(path.read_text()) for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))}
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}: {kind}"
        for path, tree in trees.items()
        for line, name, kind in annotated(tree)
        if kind in bases and not is_data(kind, bases) and name.strip("_") and not plain(name) & plain(kind)
        if not plain(name) & ROLES
    ]
    assert not found, "\n".join(found)


def plain(name: str) -> set[str]:
    return {word.lower() for part in name.split("_") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", part)}


def annotated(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield the arguments, attributes and variables that are annotated with one class, with their line and that."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and (kind := class_of(node.annotation)) is not None:
            yield node.lineno, node.arg, kind
        elif isinstance(node, ast.AnnAssign) and (kind := class_of(node.annotation)) is not None:
            name = node.target
            yield node.lineno, name.id if isinstance(name, ast.Name) else getattr(name, "attr", ""), kind


def class_of(annotation: ast.expr | None) -> str | None:
    """Return the class that *annotation* names, also in quotes or as one of it and None."""
    match annotation:
        case ast.Constant(value=str(text)) if text.isidentifier():
            return text
        case ast.Name(id=name):
            return name
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return class_of(left)
        case _:
            return None


def is_data(kind: str, bases: dict[str, list[str]]) -> bool:
    """Return whether a class is a model, an enumeration, or a protocol."""
    data = {"Model", "Record", "BaseModel", "StrEnum", "Enum", "IntEnum", "Protocol", "NamedTuple", "Exception"}
    return kind in data or any(is_data(base, bases) for base in bases.get(kind, ()))
