"""The short form of `make chaos-spark`."""

from pathlib import Path

import pytest
from spark_storm import Plan, spark_storm

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


@pytest.mark.timeout(900)
async def test_each_day_is_there_once_and_exactly_under_kills(tmp_path: Path) -> None:
    plan = Plan(kills=4, days=1, seed=3, pause=6.0, settle_within=600)
    result = await spark_storm(plan, tmp_path)
    assert result.violations == []
    assert sum(result.kills.values()) > 0
    assert result.applications >= len(plan.modes)
