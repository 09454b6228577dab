"""From how Airflow's Task SDK says that a task has ended to what its run is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ....model.asset.outlets import OutletEvent
from ....model.run.attempts import TaskAttempt
from ....model.run.deferrals import Deferral
from ....model.run.task_instances import Failure, Outcome
from ....model.spec.references import RETURN_VALUE
from ....model.states import TaskState
from ...processes.answers import Failed, Performed
from ..failures import describe_failure
from .task_report import TaskReport

OF_A_MOMENT = "airflow.providers.standard.triggers.temporal.DateTimeTrigger"
"""The one trigger that waits for nothing but a moment: TimeDeltaTrigger is written as it, too."""


def result_of(
    attempt: TaskAttempt, report: TaskReport, error: BaseException | None, started: datetime
) -> Performed | Failed:
    """An outcome, or a failure."""
    end = report.end or {"type": "none"}
    match end["type"], end.get("state"):
        case ("SucceedTask", _):
            return Performed(outcome=_succeeded(report, end, started))
        case ("TaskState", "skipped" | "removed"):
            return Performed(outcome=Outcome(state=TaskState.SKIPPED, started_at=started, xcom=report.results))
        case ("RescheduleTask", _):
            return Performed(outcome=_rescheduled(report, end, started))
        case ("DeferTask", _):
            return Performed(outcome=_deferred(attempt, report, end, started))
        case ("AwaitInputTask", _):
            return Performed(outcome=_awaiting(attempt, report, end, started))
        case _:
            return _failed(attempt, report, end, error, started)


def _succeeded(report: TaskReport, end: dict[str, Any], started: datetime) -> Outcome:
    return Outcome(
        started_at=started,
        xcom=report.results,
        mapped_length=report.lengths.get(RETURN_VALUE),
        skips=tuple(dict.fromkeys(report.skips)),
        asset_events=_events(end),
        map_label=report.map_label,
    )


def _events(end: dict[str, Any]) -> tuple[OutletEvent, ...]:
    """What the task has said of its outlets; keys of one asset are one event with several."""
    found: dict[str, OutletEvent] = {}
    for entry in end.get("outlet_events") or ():
        key = {name: entry["dest_asset_key"][name] for name in ("name", "uri")}
        alias = entry.get("source_alias_name")
        keys = (entry["partition_key"],) if entry.get("partition_key") is not None else ()
        event = OutletEvent.model_validate(
            {
                "asset": {**key, "extra": entry.get("dest_asset_extra") or {}},
                "alias": alias,
                "extra": entry["extra"] or {},
            }
        )
        name = repr((key, alias, entry["extra"]))
        before = found.get(name)
        together = (*before.partition_keys, *keys) if before is not None else keys
        found[name] = event.model_copy(update={"partition_keys": together})
    return tuple(found.values())


def _rescheduled(report: TaskReport, end: dict[str, Any], started: datetime) -> Outcome:
    return Outcome(
        state=TaskState.UP_FOR_RESCHEDULE,
        started_at=started,
        wake_at=end["reschedule_date"],
        xcom=report.results,
        note="not yet",
    )


def _deferred(attempt: TaskAttempt, report: TaskReport, end: dict[str, Any], started: datetime) -> Outcome:
    deferral = Deferral(
        next_method=end["next_method"],
        next_kwargs=end.get("next_kwargs") or {},
        trigger=end["classpath"],
        trigger_kwargs=end.get("trigger_kwargs") or {},
        timeout_at=_timeout(end.get("trigger_timeout")),
        since=_since(attempt, started),
        **_moment(end),
    )
    note = f"waits for {end['classpath'].rpartition('.')[2]}"
    return Outcome(state=TaskState.DEFERRED, started_at=started, deferral=deferral, xcom=report.results, note=note)


def _moment(end: dict[str, Any]) -> dict[str, Any]:
    """Where the trigger waits for a moment alone: that, and what it would say then."""
    from airflow.sdk.module_loading import import_string
    from airflow.sdk.serde import deserialize, serialize

    if end["classpath"] != OF_A_MOMENT:
        return {}
    kwargs: Any = deserialize(end.get("trigger_kwargs") or {})
    try:
        moment = import_string(OF_A_MOMENT)(**kwargs).moment
    except Exception:  # no moment: its trigger says so
        return {}
    return {
        "moment": moment.astimezone(UTC),
        "event": serialize(moment),
        "ends_task": bool(kwargs.get("end_from_trigger")),
    }


def _awaiting(attempt: TaskAttempt, report: TaskReport, end: dict[str, Any], started: datetime) -> Outcome:
    deferral = Deferral(
        next_method=end["next_method"],
        next_kwargs=end.get("next_kwargs") or {},
        timeout_at=_timeout(end.get("timeout")),
        form=report.form,
        since=_since(attempt, started),
    )
    subject = report.form.subject if report.form is not None else ""
    return Outcome(
        state=TaskState.AWAITING_INPUT, started_at=started, deferral=deferral, xcom=report.results, note=subject
    )


def _since(attempt: TaskAttempt, started: datetime) -> datetime:
    """When the try began, however often it has waited since."""
    return attempt.resume.since if attempt.resume is not None and attempt.resume.since is not None else started


def _timeout(after: Any) -> datetime | None:
    if after is None:
        return None
    return datetime.now(UTC) + (after if isinstance(after, timedelta) else _read_duration(after))


def _read_duration(written: Any) -> timedelta:
    from pydantic import TypeAdapter

    return TypeAdapter(timedelta).validate_python(written)


def _failed(
    attempt: TaskAttempt, report: TaskReport, end: dict[str, Any], error: BaseException | None, started: datetime
) -> Failed:
    failure = describe_failure(error) if error is not None else _unsaid(report, end)
    delay = end.get("retry_delay_seconds")
    failure = failure.model_copy(
        update={
            # Airflow says of a last try, too, that it has failed for good: that is no reason against a clear.
            "retryable": end["type"] == "RetryTask" or attempt.try_number > attempt.max_tries,
            "retry_delay": timedelta(seconds=delay) if delay is not None else None,
            "xcom": report.results,
            "map_label": report.map_label,
        }
    )
    return Failed(failure=failure, started_at=started)


def _unsaid(report: TaskReport, end: dict[str, Any]) -> Failure:
    if report.other_run is not None:
        return Failure(error_type="TaskFailed", message=report.other_run)
    return Failure(error_type="TaskFailed", message=f"the task has ended without a reason ({end['type']})")
