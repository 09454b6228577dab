"""Numbers, durations and dates at their edges: each is refused with its name, or leads to one sound decision."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import bash
from tidemill.model.base import LONGEST_DURATION
from tidemill.model.dag.state import DagState
from tidemill.model.dag.ticks import coming_runs
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.task_instances import poke_delay, retry_delay
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.model.spec.params import param_problem

NUMBERS = [0, -1, 1, 1e-9, 0.1, 1e6, 1e12, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), 2**63, 10**400]
DURATIONS = [*NUMBERS, "PT0S", "P3650D", "P3651D", "-P1D", "P99999999D", "P1000000000000D", "soon"]
DATES = ["0001-01-01T00:00:00+05:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-05:00", "9999-12-31T23:59:59Z", 0]
OF_TASKS = {
    "retries": NUMBERS, "retry_delay": DURATIONS, "max_retry_delay": DURATIONS, "execution_timeout": DURATIONS,
    "retry_exponential_backoff": NUMBERS, "priority_weight": NUMBERS, "pool_slots": NUMBERS, "start_date": DATES,
    "end_date": DATES, "sla": DURATIONS, "max_starts": NUMBERS, "max_active_tis_per_dag": NUMBERS,
}  # fmt: skip
OF_SENSORS = {"poke_interval": DURATIONS, "timeout": DURATIONS, "max_wait": DURATIONS}
SCHEDULES = [*NUMBERS, "@daily", "0 0 29 2 *", "@yearly", "@once", "@continuous"]
OF_DAGS = {
    "max_active_runs": NUMBERS, "max_active_tasks": NUMBERS, "dagrun_timeout": DURATIONS, "deadline": DURATIONS,
    "catchup": [True],
    "heartbeat_timeout": DURATIONS, "jitter": DURATIONS, "start_date": DATES, "end_date": DATES, "schedule": SCHEDULES,
}  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    def some(fields: dict[str, list[Any]]) -> dict[str, Any]:
        names = draw(st.sets(st.sampled_from(sorted(fields)), max_size=2))
        return {name: draw(st.sampled_from(fields[name])) for name in sorted(names)}

    sensor = {"kind": "bash_sensor", "task_id": "waits", "command": "true", "exponential_backoff": draw(st.booleans())}
    backoff = {"retry_exponential_backoff": draw(st.sampled_from([True, 1e300, 0.5]))}
    task = bash("works", "true", **{**backoff, **some(OF_TASKS)})
    return {"dag_id": "d", "tasks": [task, {**sensor, **some(OF_SENSORS), **some(OF_TASKS)}], **some(OF_DAGS)}


@given(documents(), st.sampled_from([1, 2, 100, 10_000, 10**9]))
def test_what_is_not_refused_is_decided(document: dict[str, Any], n: int) -> None:
    try:
        spec = read_dag(document)
    except InvalidInputError:
        return
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for task in spec.tasks:
        assert timedelta() <= retry_delay(task, n, "seed") <= LONGEST_DURATION
        assert now + retry_delay(task, n, "seed") > now - timedelta(1)
    assert timedelta() < poke_delay(spec.by_id["waits"], n) <= LONGEST_DURATION  # type: ignore[arg-type]
    question = DagState(spec=spec, registered_at=now).question(now)
    if question is not None:
        coming_runs(question)
    assert DagSpec.model_validate_json(spec.model_dump_json()) == spec


def test_what_is_running_already_is_not_refused_for_what_it_had_before() -> None:
    spec = DagSpec.model_validate({"dag_id": "d", "tasks": [bash("a", "true", retry_delay="P99999D")]})
    assert spec.tasks[0].retry_delay == LONGEST_DURATION


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("date", "2026-02-28", "2026-02-30"),
        ("date-time", "2026-02-28T12:00:00+01:00", "2026-02-28T12:00:00"),
        ("date-time", "2026-02-28T12:00:00.5Z", "2026-02-28"),
        ("duration", "P1DT2H", "two days"),
        ("email", "a@b.example", "nobody"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
        ("regex", "a+", "("),
    ],
)
def test_formats_of_params_are_checked(kind: str, good: str, bad: str) -> None:
    param = {"value": None, "schema": {"type": ["string", "null"], "format": kind}}
    assert (param_problem(param, good), param_problem(param, None)) == (None, None)
    assert kind in str(param_problem(param, bad))
