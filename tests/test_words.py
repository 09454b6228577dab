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
    return {word.lower() for part in name.split("_") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", part)}


def test_names_are_the_fields_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}: write {FORBIDDEN[word]}"
        for layer in LAYERS
        for path in sorted((ROOT / layer).rglob("*.py"))
        for name in definitions(path)
        for word in words(name) & {*FORBIDDEN}
    ]
    assert not found, "\n".join(found)
