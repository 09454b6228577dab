"""Whatever is sent to the operations, as their schema describes it and not: a clear answer, and no defect."""

from contextlib import suppress
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from web_stack import Web

pytestmark = pytest.mark.thorough

EXAMPLES = 2
"""For each operation, and as many of what its schema does not allow."""


@pytest.mark.timeout(900)
def test_no_operation_has_a_defect_for_any_input(web: Web) -> None:
    """What changes something is about things that are not there, so that everything stays for the other tests."""
    schema = schemathesis.openapi.from_url(f"{web.url}/openapi.json")
    real = {"dag_id": "web_daily", "dag_run_id": web.failed_run, "run_id": web.failed_run, "task_id": "fails"}
    before = web.get("/api/v2/dags?limit=1000").json()["total_entries"]
    statuses: dict[int, int] = {}

    def call(case: Any, use_real: bool) -> None:
        if use_real and case.method == "GET":
            case.path_parameters = {**(case.path_parameters or {}), **_known(case.path_parameters, real)}
        try:
            response = case.call(base_url=web.url, timeout=60)
        except (ValueError, UnicodeError):  # what no HTTP client can send
            return
        statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
        told = f"{case.method} {case.formatted_path}: {response.status_code} {response.text[:300]}"
        assert (
            response.status_code in (200, 201, 204, 303)
            or 400 <= response.status_code < 500
            or (response.status_code in (501, 503, 504))
        ), told
        assert "Traceback" not in response.text, told
        if response.status_code >= 400:
            assert set(response.json()) == {"detail"}, told

    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            cases = operation.as_strategy(generation_mode=mode)
            with suppress(Unsatisfiable):  # an operation without parameters has no wrong ones
                _tried(cases, call)
    assert statuses[200] > 40
    assert statuses[404] > 40
    assert statuses[422] > 40
    assert web.get("/api/v2/dags?limit=1000").json()["total_entries"] == before


def _tried(cases: Any, call: Any) -> None:
    settings = hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    settings(given(cases, st.booleans())(call))()


def _known(names: dict[str, Any] | None, real: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in real.items() if name in (names or {})}
