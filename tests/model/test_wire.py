"""What travels between processes of two releases, and what people write."""

import json
from typing import Any

import pytest
from pydantic import ValidationError
from temporalio.exceptions import ApplicationError
from tidemill.model.asset.state import AssetState
from tidemill.model.base import Model
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.dag.backfill_walk import BATCH, BackfillQuestion
from tidemill.model.dag.inputs import read_start
from tidemill.model.dag.records import RunRecord, short_past
from tidemill.model.dag.state import DagState
from tidemill.model.errors import InvalidInputError
from tidemill.model.pool.state import LeaseRequest, PoolSettings, PoolState
from tidemill.model.run.attempts import TaskAttempt
from tidemill.model.run.messages import DagUpdate, RunReport, TasksEnded
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.model.spec.timetables import CronTrigger
from tidemill.model.states import TaskState
from tidemill.worker.service.converter import TidemillPayloadConverter

CONVERTER = TidemillPayloadConverter()
DAG: dict[str, Any] = {
    "dag_id": "a",
    "tasks": [{"kind": "bash", "task_id": "x", "command": "true"}],
    "schedule": "@daily",
    "start_date": "2024-01-01T00:00:00Z",
}
RUN = {
    "dag_id": "a",
    "run_id": "r",
    "run_type": "manual",
    "triggered_by": "cli",
    "run_after": "2024-01-01T00:00:00Z",
    "logical_date": None,
    "data_interval": None,
}
INSTANT = "2024-01-01T00:00:00Z"
LEASE = {"lease_id": "l", "holder": "run:a:r", "key": "x", "date": INSTANT}


def later(document: Any) -> Any:
    """*document* as a later release may write it: with another field in every object that has names of its own."""
    if isinstance(document, dict):
        known = {key: later(value) for key, value in document.items()}
        return {**known, "of_a_later_release": {"n": 1}} if NAMED & document.keys() else known
    return [later(value) for value in document] if isinstance(document, list) else document


NAMED = {"dag_id", "task_id", "kind", "key", "number", "lease_id", "settings", "slots"}


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (DagSpec, read_dag(DAG).model_dump(mode="json")),
        (DagState, {"spec": read_dag(DAG).model_dump(mode="json"), "registered_at": INSTANT, "key": 1}),
        (TaskAttempt, {"run": RUN, "task": DAG["tasks"][0], "try_number": 1, "key": 1}),
        (RunReport, {"key": "r", "state": "success", "ended_at": INSTANT, "reason": "done"}),
        (TasksEnded, {"key": "r", "states": {"x": "success"}}),
        (DagUpdate, {"number": 1, "is_paused": False}),
        (PoolState, {"name": "p", "settings": {"slots": 1}, "waiting": {"l": LEASE}}),
        (LeaseRequest, LEASE),
    ],
)
def test_what_another_release_has_added_is_carried_along(model: type[Model], document: dict[str, Any]) -> None:
    sent = later(document)
    assert sent != document
    read = CONVERTER.from_payloads([CONVERTER.to_payload(sent)], [model])[0]
    again = json.loads(CONVERTER.to_payload(read).data)
    assert missing(sent, again) == []


def missing(wanted: Any, found: Any, path: str = "") -> list[str]:
    """Where *found* lacks a field of a later release that *wanted* has."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        lacking = [path] if "of_a_later_release" in wanted and "of_a_later_release" not in found else []
        return lacking + [
            m for key in wanted if key in found for m in missing(wanted[key], found[key], f"{path}/{key}")
        ]
    if isinstance(wanted, list) and isinstance(found, list):
        return [m for n, (w, f) in enumerate(zip(wanted, found, strict=True)) for m in missing(w, f, f"{path}[{n}]")]
    return []


@pytest.mark.parametrize(
    "document",
    [
        {**DAG, "scedule": 1},
        {**DAG, "tasks": [{**DAG["tasks"][0], "retrys": 1}]},
        {**DAG, "params": {}, "Catchup": True},
    ],
)
def test_what_a_person_misspells_in_a_dag_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        read_dag(document)
    with pytest.raises(InvalidInputError):
        read_start([document], read_dag(DAG).start_date)  # type: ignore[arg-type]


def test_what_a_person_misspells_in_python_is_refused() -> None:
    with pytest.raises(ValidationError, match="zone"):
        CronTrigger(expression="@daily", zone="UTC")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("request_type", "document"),
    [
        (PoolSettings, {"slots": 1, "slot": 2}),
        (BackfillRequest, {"from_date": INSTANT, "to_date": INSTANT, "max_runs": 1}),
    ],
)
def test_a_request_with_a_field_that_is_not_known_fails_for_good(
    request_type: type[Model], document: dict[str, Any]
) -> None:
    with pytest.raises(ApplicationError) as refused:
        CONVERTER.from_payloads([CONVERTER.to_payload(document)], [request_type])
    assert refused.value.non_retryable
    assert request_type.__name__ in refused.value.message


def test_what_cannot_be_read_fails_the_task_and_not_the_workflow() -> None:
    """A kind of task that only a later release knows: its workers will take the run up again."""
    spec = read_dag(DAG).model_dump(mode="json")
    unknown = {**spec, "tasks": [{"kind": "quantum", "task_id": "x"}]}
    with pytest.raises(ValidationError):
        CONVERTER.from_payloads([CONVERTER.to_payload(unknown)], [DagSpec])


def test_the_record_of_a_large_run_names_only_what_differs() -> None:
    past = {f"t{n}": TaskState.SUCCESS for n in range(1000)} | {"t7": TaskState.FAILED}
    fields = {"run_id": "r", "run_type": "manual", "state": "failed", "logical_date": None, "run_after": INSTANT}
    times = {"queued_at": INSTANT, "started_at": None, "ended_at": INSTANT}
    record = RunRecord.model_validate({**fields, **times, **short_past(past)})
    assert len(record.model_dump_json()) < 500
    assert record.all_past(past) == past
    small = {"a": TaskState.SUCCESS, "b": TaskState.FAILED}
    assert short_past(small) == {"past": small}, "what the release before writes, as it writes it"


def travels(value: Any) -> Any:
    return json.loads(CONVERTER.to_payloads([value])[0].data)


def test_a_field_that_has_got_another_name_travels_by_the_name_that_earlier_releases_know() -> None:
    state = DagState.model_validate({"spec": DAG, "registered_at": INSTANT, "news": 3, "ticks_asked_at": INSTANT})
    assert (state.last_update, travels(state)["news"]) == (3, 3)
    assert travels(state)["ticks_asked_at"] == INSTANT
    asked = {"timetable": {"kind": "null"}, "request": {"from_date": INSTANT, "to_date": INSTANT}, "now": INSTANT}
    query = BackfillQuestion.model_validate({**asked, "most": 7})
    assert (query.limit, travels(query)["most"]) == (7, 7)
    assert not {"limit", "most"} & travels(query.model_copy(update={"limit": BATCH})).keys(), "it is the default"
    late = AssetState.model_validate({"asset": {"name": "a"}, "told_late": True})
    assert (late.lateness_sent, travels(late)["told_late"]) == (True, True)
