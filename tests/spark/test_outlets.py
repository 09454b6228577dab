"""What a Spark application says of the assets that its task writes, in its result."""

from pathlib import Path
from typing import Any

import pytest
from spark_starts import start
from temporalio.exceptions import ApplicationError
from tidemill.activities.spark.outlets import with_outlet_events
from tidemill.model.run.task_instances import Outcome

OUTLETS = [{"kind": "asset", "name": "orders", "uri": "orders"}, {"kind": "alias", "name": "found"}]


def told(folder: Path, outlet_events: Any) -> list[tuple[str, str | None, dict[str, Any]]]:
    """The events that a result with *outlet_events* makes: asset, alias, extra."""
    attempt = start(folder, {}, application="x.py", outlets=OUTLETS).attempt
    outcome = with_outlet_events(attempt, Outcome(xcom={"return_value": {"outlet_events": outlet_events}}))
    return [(event.asset.name, event.alias, event.extra) for event in outcome.asset_events]


def test_a_result_says_more_of_its_assets_and_which_an_alias_stands_for(tmp_path: Path) -> None:
    assert told(tmp_path, {"orders": {"extra": {"rows": 1}}}) == [("orders", None, {"rows": 1})]
    found = {"assets": {"lake.new": {"rows": 2}, "lake.other": {}}}
    assert told(tmp_path, {"found": found}) == [("lake.new", "found", {"rows": 2}), ("lake.other", "found", {})]


@pytest.mark.parametrize("said", [
    ["orders"], {"orders": 1}, {"orders": {"rows": 1}}, {"found": {"assets": ["x"]}}, {"found": {"assets": {"": {}}}},
    {"nobody": {}}, {"orders": {"assets": {"x": {}}}}, {"found": {"assets": {"x": 1}}},
])  # fmt: skip
def test_what_it_cannot_say_fails_the_task(tmp_path: Path, said: Any) -> None:
    with pytest.raises(ApplicationError, match="the result's"):
        told(tmp_path, said)
