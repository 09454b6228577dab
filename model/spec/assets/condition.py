"""Which assets a DAG waits for: all of, any of, in any depth (Airflow: AssetAll, AssetAny)."""

from collections.abc import Callable, Iterator
from typing import Annotated, Literal

from pydantic import Field

from ...base import Model
from .identity import Asset, AssetAlias, AssetRef


class AssetAll(Model):
    """Holds when every one does; empty, always."""

    kind: Literal["all"] = "all"
    of: tuple["Condition", ...] = ()
    """The conditions: assets, aliases, references, or groups of them."""


class AssetAny(Model):
    """Holds when one does; empty, never."""

    kind: Literal["any"] = "any"
    of: tuple["Condition", ...] = ()
    """The conditions: assets, aliases, references, or groups of them."""


Leaf = Asset | AssetAlias | AssetRef
Condition = Annotated[Asset | AssetAlias | AssetRef | AssetAll | AssetAny, Field(discriminator="kind")]
"""What a DAG waits for."""


def holds(condition: Condition, is_ready: Callable[[Leaf], bool]) -> bool:
    """Whether *condition* holds where *is_ready* tells of its assets, aliases and references."""
    match condition:
        case AssetAll():
            return all(holds(part, is_ready) for part in condition.of)
        case AssetAny():
            return any(holds(part, is_ready) for part in condition.of)
        case _:
            return is_ready(condition)


def leaves(condition: Condition) -> Iterator[Leaf]:
    """The assets, aliases and references of *condition*, from the left."""
    if isinstance(condition, AssetAll | AssetAny):
        for part in condition.of:
            yield from leaves(part)
    else:
        yield condition


def assets_in(condition: Condition) -> list[Asset]:
    """The assets that *condition* names as such, each once."""
    found = {leaf.key: leaf for leaf in leaves(condition) if isinstance(leaf, Asset)}
    return [*found.values()]


def aliases_in(condition: Condition) -> list[str]:
    """The names of its aliases, each once."""
    return list(dict.fromkeys(leaf.name for leaf in leaves(condition) if isinstance(leaf, AssetAlias)))


def refs_in(condition: Condition) -> list[AssetRef]:
    """Its references."""
    return [leaf for leaf in leaves(condition) if isinstance(leaf, AssetRef)]


def in_words(condition: Condition) -> str:
    """*condition* for people: `a & (b | c)`."""
    match condition:
        case AssetAll() | AssetAny():
            sign = " & " if condition.kind == "all" else " | "
            return f"({sign.join(map(in_words, condition.of))})"
        case AssetRef():
            return condition.name or condition.uri or ""
        case _:
            return condition.name
