"""Filters, orders and pages of lists: pure functions over what is answered, by the names of Airflow's parameters.

A filter that is ignored shows wrong facts: each parameter of a list is applied here, or refused.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import ge, gt, le, lt
from typing import Any, TypeVar

from ...model.errors import InvalidInputError
from ..refusals import BadRequestError

T = TypeVar("T")
COMPARED: dict[str, Callable[[Any, Any], bool]] = {"_gte": ge, "_gt": gt, "_lte": le, "_lt": lt}
NOT_FILTERS = {"limit", "offset", "cursor", "order_by"}
MAX_ORDERS = 10
LONGEST_PATTERN = 300
LONGEST_VALUE = 2000
"""So far a text is looked at: what it takes grows with both lengths."""
NOTHING = "none"
"""What a filter calls the state of a task that has none."""
Get = Callable[[Any], Any]


def matches(item: Any, filters: Mapping[str, Any], fields: Mapping[str, Get]) -> bool:
    """Whether *item* is one that *filters* want. *fields* says where a parameter looks, where its name does not."""
    return all(
        _matches(item, name, wanted, fields)
        for name, wanted in filters.items()
        if wanted is not None and wanted != [] and name not in NOT_FILTERS
    )


def _matches(item: Any, name: str, wanted: Any, fields: Mapping[str, Get]) -> bool:
    for suffix, compare in COMPARED.items():
        if name.endswith(suffix):
            value = _value(item, name.removesuffix(suffix), fields)
            return value is not None and compare(value, wanted)
    if name.endswith("_prefix_pattern"):
        return begins(_value(item, name.removesuffix("_prefix_pattern"), fields), wanted)
    if name.endswith("_pattern"):
        return contains(_value(item, name.removesuffix("_pattern"), fields), wanted)
    value = _value(item, name, fields)
    if isinstance(wanted, list):
        return (NOTHING if value is None else value) in wanted
    return bool(value == wanted)


def _value(item: Any, name: str, fields: Mapping[str, Get]) -> Any:
    return fields[name](item) if name in fields else getattr(item, name)


def contains(value: str | None, pattern: str) -> bool:
    """SQL's `ILIKE '%pattern%'`, with `~` for anything and `|` between alternatives."""
    if pattern == "~":
        return value is not None
    if len(pattern) > LONGEST_PATTERN:
        raise InvalidInputError(f"a pattern has {len(pattern):,} letters, and may have {LONGEST_PATTERN}. Shorten it")
    terms = [term.strip() for term in pattern.split("|") if term.strip()] if "|" in pattern else [pattern]
    return value is not None and any(like(value[:LONGEST_VALUE].lower(), f"%{term.lower()}%") for term in terms)


def like(text: str, pattern: str) -> bool:
    """SQL's LIKE: `%` is any text, `_` any letter. In time that grows with the product of both lengths."""
    reached = {0}
    for letter in pattern:
        if not reached:
            return False
        if letter == "%":
            reached = set(range(min(reached), len(text) + 1))
        else:
            reached = {n + 1 for n in reached if n < len(text) and letter in ("_", text[n])}
    return len(text) in reached


def begins(value: str | None, pattern: str) -> bool:
    """Whether *value* begins as *pattern* says, where signs at its end do not count; `|` between alternatives."""
    if value is None:
        return False
    terms = [term.strip() for term in pattern.split("|") if term.strip()] if "|" in pattern else [pattern]
    return any(value.startswith(_bare(term)) for term in terms)


def _bare(term: str) -> str:
    while term and not term[-1].isalnum():
        term = term[:-1]
    return term


def ordered(items: Iterable[T], order_by: Sequence[str], keys: Mapping[str, Get]) -> list[T]:
    """*items* by *order_by*: names, with `-` before those that go down. What has no value comes last.

    Equal ones are as they were given, in the order of their making; turned round where the first name goes down.
    Raises BadRequestError for a name that is no key.
    """
    if len(order_by) > MAX_ORDERS:
        raise InvalidInputError(f"order_by has {len(order_by)} names, and may have {MAX_ORDERS}. Leave some out")
    found = [*items]
    if order_by and order_by[0].startswith("-"):
        found.reverse()
    for name in reversed(order_by):
        key = keys.get(name.lstrip("-"))
        if key is None:
            raise BadRequestError(f"order_by = {name!r} is not known. Known are: {', '.join(sorted(keys))}")
        there = [item for item in found if key(item) is not None]
        there.sort(key=key, reverse=name.startswith("-"))
        found = there + [item for item in found if key(item) is None]
    return found


@dataclass(frozen=True)
class Page:
    """A part of a list, and how to get the parts beside it."""

    items: list[Any]
    total: int
    next_cursor: str | None = None
    previous_cursor: str | None = None


def page(items: Sequence[Any], limit: int, offset: int) -> Page:
    """The part from *offset* on."""
    return Page([*items[offset : offset + limit]], len(items))


def cursor_page(items: Sequence[Any], limit: int, cursor: str, name: Callable[[Any], str]) -> Page:
    """The part that *cursor* means; an empty one means the first. *name* tells items from each other.

    A cursor holds the item that stands at the edge, so that the parts fit when items are added meanwhile.
    Raises BadRequestError for a cursor that is none.
    """
    names = [name(item) for item in items]
    start = 0
    if cursor:
        edge, before, position = _read_cursor(cursor)
        at = names.index(edge) if edge in names else min(position, len(names))
        start = max(0, at - limit) if before else (at + 1 if edge in names else at)
    part = [*items[start : start + limit]]
    end = start + len(part)
    return Page(
        part,
        len(items),
        next_cursor=_write_cursor(names[end - 1], before=False, position=end) if end < len(items) and part else None,
        previous_cursor=_write_cursor(names[start], before=True, position=start) if start > 0 and part else None,
    )


def _write_cursor(edge: str, *, before: bool, position: int) -> str:
    return urlsafe_b64encode(json.dumps([edge, before, position]).encode()).decode()


def _read_cursor(cursor: str) -> tuple[str, bool, int]:
    try:
        edge, before, position = json.loads(urlsafe_b64decode(cursor.encode()))
        return str(edge), bool(before), int(position)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadRequestError("cursor is none that was given here. Leave it empty for the first page") from error


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """How long something took; None if it has not begun or goes on (as in Airflow)."""
    return None if start is None or end is None else (end - start).total_seconds()
