"""The short form of `make chaos`."""

from pathlib import Path

import pytest
from storm import Plan, storm

pytestmark = pytest.mark.thorough


@pytest.mark.timeout(1000)
async def test_nothing_is_lost_doubled_early_or_too_many_under_kills(tmp_path: Path) -> None:
    """Workers and the server are killed while DAGs catch up, tick, are triggered, backfilled and edited."""
    plan = Plan(kills=6, dags=4, ticks=6, backfill_days=5, triggers=4, files=2, seed=7, settle_within=600, callers=4)
    plan.asset_events = 4
    verdict, kills = await storm(plan, tmp_path)
    assert verdict.violations == []
    assert sum(kills.values()) == plan.kills
    assert (
        verdict.runs
        >= (plan.dags + plan.files) * plan.ticks + 2 * plan.backfill_days + plan.triggers + plan.callers + 1
    )
    assert verdict.dag_executions > plan.dags + 2  # continue-as-new was forced
