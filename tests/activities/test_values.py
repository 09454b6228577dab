"""What a function may return: what it becomes on its way to the next task, or that its task fails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tidemill.activities.work.function import checked
from tidemill.model.errors import InvalidInputError


@dataclass
class Point:
    x: int = 1


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (None, None),
        (2**70, 2**70),
        (1.5, 1.5),
        ("ü🙂\x00", "ü🙂\x00"),
        (b"ab", "ab"),
        (date(2026, 1, 1), "2026-01-01"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        (time(1), "01:00:00"),
        (timedelta(days=1), "P1D"),
        (Decimal("1.50"), "1.50"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("/a"), "/a"),
        ((1, 2), [1, 2]),
        ({1}, [1]),
        ({1: 2}, {"1": 2}),
        ({date(2026, 1, 1): 1}, {"2026-01-01": 1}),
        (Point(), {"x": 1}),
    ],
)
def test_a_value_arrives(value: Any, arrives: Any) -> None:
    assert checked({"found": value}) == {"found": arrives}
    assert checked({"found": [{"deep": value}]}) == {"found": [{"deep": arrives}]}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, b"\xff", object(), range(3), {"deep": [math.nan]}])
def test_or_its_task_fails(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="the task's result is not JSON"):
        checked({"found": value})
