"""Filters, orders and pages against plain references."""

import asyncio
import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidemill.api.read import cache
from tidemill.api.read.cache import Cache
from tidemill.api.read.filters import begins, contains, cursor_page, like, matches, ordered, page
from tidemill.api.read.graph import reached
from tidemill.model.errors import InvalidInputError

TEXT = st.text("aB_%|. ", max_size=6)


@dataclass(frozen=True)
class Item:
    name: str
    n: int | None
    state: str | None


ITEMS = st.lists(
    st.builds(Item, TEXT, st.none() | st.integers(0, 5), st.sampled_from(["failed", "success", None])), max_size=12
)
BOUND = st.none() | st.integers(0, 5)
KEYS: dict[str, Any] = {"name": lambda item: item.name, "n": lambda item: item.n}


@given(TEXT, TEXT)
def test_like_is_that_of_sql(text: str, pattern: str) -> None:
    parts = {"%": ".*", "_": "."}
    expression = "".join(parts.get(letter, re.escape(letter)) for letter in pattern)
    assert like(text, pattern) == (re.fullmatch(expression, text, re.DOTALL) is not None)


def test_patterns_that_would_take_ages_do_not() -> None:
    assert not like("a" * 2_000, "%a" * 200 + "b")


@given(
    ITEMS, st.none() | st.integers(0, 5), st.none() | st.integers(0, 5), st.lists(st.sampled_from(["failed", "none"]))
)
def test_filters_are_comparisons(items: list[Item], low: int | None, high: int | None, states: list[str]) -> None:
    wanted = {"n_gte": low, "n_lt": high, "state": states, "limit": 3, "order_by": ["n"]}
    found = [item for item in items if matches(item, wanted, {})]
    expected = [
        item
        for item in items
        if (low is None or (item.n is not None and item.n >= low))
        and (high is None or (item.n is not None and item.n < high))
        and (not states or (item.state or "none") in states)
    ]
    assert found == expected


def test_patterns_are_airflows() -> None:
    assert contains("Daily_report", "REPORT")
    assert contains("daily", "x | ail")
    assert contains("anything", "~")
    assert not contains(None, "~")
    assert contains("a-b", "a_b")
    assert begins("daily_report", "daily_")
    assert not begins("Daily", "daily")
    assert begins("b", "a|b")
    assert matches(Item("daily", 1, None), {"title_pattern": "AIL"}, {"title": lambda item: item.name})


@given(ITEMS, st.lists(st.sampled_from(["name", "-name", "n", "-n"]), max_size=3))
def test_orders_are_stable_and_put_what_has_no_value_last(items: list[Item], order_by: list[str]) -> None:
    found = ordered(items, order_by, KEYS)
    assert sorted(map(id, found)) == sorted(map(id, items))
    if order_by and order_by[0] in ("n", "-n"):
        values = [item.n for item in found]
        there = [value for value in values if value is not None]
        assert values == there + [None] * (len(values) - len(there))
        assert there == sorted(there, reverse=order_by[0] == "-n")


def test_an_order_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"order_by = 'x' is not known\. Known are: n, name"):
        ordered([], ["x"], KEYS)
    with pytest.raises(InvalidInputError, match="may have 10"):
        ordered([], ["n"] * 11, KEYS)


@given(st.integers(0, 30), st.integers(1, 7))
def test_pages_by_cursor_are_all_of_it_both_ways(n: int, limit: int) -> None:
    items = [*range(n)]
    part = cursor_page(items, limit, "", str)
    there = [part.items]
    while part.next_cursor is not None:
        part = cursor_page(items, limit, part.next_cursor, str)
        there.append(part.items)
    assert [one for some in there for one in some] == items
    back = [part.items]
    while part.previous_cursor is not None:
        part = cursor_page(items, limit, part.previous_cursor, str)
        back.append(part.items)
    assert back[-1][0:1] == items[0:1]
    assert page(items, limit, 3).items == items[3 : 3 + limit]


def test_a_cursor_goes_on_behind_its_item_though_others_have_come_before() -> None:
    part = cursor_page(["c", "b", "a"], 2, "", str)
    assert part.next_cursor is not None
    assert cursor_page(["e", "d", "c", "b", "a"], 2, part.next_cursor, str).items == ["a"]
    for cursor in ("x", "e30=", "bnVsbA=="):
        with pytest.raises(InvalidInputError, match="cursor is none"):
            cursor_page([], 1, cursor, str)


def test_the_tasks_around_one() -> None:
    ways = {"a": ["b"], "b": ["c", "d"], "c": [], "d": ["a"]}
    assert reached(ways, "a", None) == {"b", "c", "d", "a"}
    assert reached(ways, "a", 1) == {"b"}
    assert reached(ways, "a", 0) == set()


async def test_who_looks_at_once_asks_once() -> None:
    held, asked = Cache(max_entries=2), []

    async def ask() -> int:
        asked.append(1)
        await asyncio.sleep(0.05)
        return len(asked)

    assert await asyncio.gather(*(held.get(("x",), ask, 60) for _ in range(50))) == [1] * 50
    held.forget("x")
    assert await held.get(("x",), ask, 0) == 2
    assert await held.get(("x",), ask, 0) == 3  # it holds no longer

    async def fails() -> int:
        asked.append(1)
        raise LookupError

    for _ in range(2):
        with pytest.raises(LookupError):
            await held.get(("y",), fails, 60)
    assert len(asked) == 5


async def test_what_takes_long_is_given_as_it_was_while_it_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    held, answers, gate = Cache(), iter(range(10)), asyncio.Event()

    async def ask() -> int:
        await gate.wait()
        return next(answers)

    gate.set()
    monkeypatch.setattr(cache, "PATIENCE", 60)
    assert [await held.get("x", ask, 0, 60) for _ in range(3)] == [0, 1, 2], "what is answered at once is new"
    monkeypatch.setattr(cache, "PATIENCE", 0.01)
    gate.clear()
    assert [await held.get("x", ask, 0, 60) for _ in range(3)] == [2, 2, 2]
    gate.set()
    monkeypatch.setattr(cache, "PATIENCE", 60)
    assert await held.get("x", ask, 0, 60) == 3

    async def fails() -> int:
        raise LookupError

    assert await held.get("x", fails, 0, 60) == 3, "a listing that fails takes nothing away"
