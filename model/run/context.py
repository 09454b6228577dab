"""What a task sees of its run: Airflow's template variables, and `ti` for results of other tasks."""

import json
import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import dateutil
import dateutil.parser
import dateutil.relativedelta
import pendulum

from ..errors import InvalidInputError
from ..spec.references import RETURN_VALUE, XCOM_REFERENCE, is_xcom_reference
from .attempts import TaskAttempt

CONTEXT_NAMES = frozenset(
    {
        "conf", "dag_run", "data_interval_end", "data_interval_start", "ds", "ds_nodash", "logical_date", "macros",
        "params", "run_id", "task", "task_instance", "ti", "ts", "ts_nodash", "ts_nodash_with_tz", "dag",
        "task_instance_key_str", "test_mode", "inlets", "outlets",
    }
)  # fmt: skip
"""The names that a task function may take as arguments without being given them."""

_context: ContextVar[dict[str, Any] | None] = ContextVar("tidemill_context", default=None)


class TaskInstanceView:
    """`ti`: what a task may ask about itself, and the results of others."""

    def __init__(self, attempt: TaskAttempt) -> None:
        self.dag_id = attempt.run.dag_id
        self.run_id = attempt.run.run_id
        self.task_id = attempt.task.task_id
        self.try_number = attempt.try_number
        self.max_tries = attempt.task.retries
        self.map_index = attempt.map_index
        self.task = attempt.task
        self.state = "running"
        self.pushed: dict[str, Any] = {}
        self._xcom = attempt.xcom

    def xcom_push(self, key: str, value: Any) -> None:
        """Keeps *value* (JSON) for tasks downstream, under *key*."""
        self.pushed[key] = value

    def xcom_pull(self, task_ids: str | list[str] | None = None, key: str = RETURN_VALUE, default: Any = None) -> Any:
        """The value that a task upstream returned or pushed; for a list of tasks, a list of values."""
        if task_ids is None or isinstance(task_ids, list):
            wanted = self._xcom if task_ids is None else task_ids
            found = [self._xcom.get(task_id, {}).get(key, default) for task_id in wanted]
            return next((v for v in found if v is not None), default) if task_ids is None else found
        return self._xcom.get(task_ids, {}).get(key, default)


def context(attempt: TaskAttempt) -> dict[str, Any]:
    """The template variables of *attempt*, by Airflow's names; dates are pendulum's, in UTC.

    A run without a logical date has no `ds`, `ts` or data interval, as in Airflow.
    """
    run, ti = attempt.run, TaskInstanceView(attempt)
    values: dict[str, Any] = {
        "conf": run.conf,
        "dag": SimpleNamespace(dag_id=run.dag_id),
        "dag_run": SimpleNamespace(
            dag_id=run.dag_id,
            run_id=run.run_id,
            run_type=str(run.run_type),
            logical_date=_pendulum(run.logical_date),
            run_after=_pendulum(run.run_after),
            data_interval_start=_pendulum(run.data_interval.start if run.data_interval is not None else None),
            data_interval_end=_pendulum(run.data_interval.end if run.data_interval is not None else None),
            state="running",
            conf=run.conf,
        ),
        "inlets": [],
        "macros": MACROS,
        "outlets": [],
        "params": attempt.params,
        "run_id": run.run_id,
        "task": attempt.task,
        "task_instance": ti,
        "task_instance_key_str": _key_str(attempt),
        "test_mode": False,
        "ti": ti,
    }
    if run.logical_date is not None:
        date = _pendulum(run.logical_date)
        assert date is not None  # noqa: S101
        values |= {
            "logical_date": date,
            "ds": date.strftime("%Y-%m-%d"),
            "ds_nodash": date.strftime("%Y%m%d"),
            "ts": date.isoformat(),
            "ts_nodash": date.strftime("%Y%m%dT%H%M%S"),
            "ts_nodash_with_tz": date.isoformat().replace("-", "").replace(":", ""),
        }
    if run.data_interval is not None:
        values["data_interval_start"] = _pendulum(run.data_interval.start)
        values["data_interval_end"] = _pendulum(run.data_interval.end)
    return values


def resolve(value: Any, xcom: dict[str, dict[str, Any]]) -> Any:
    """*value* with references to results replaced by the results."""
    if is_xcom_reference(value):
        task_id, key = value[XCOM_REFERENCE], value["key"]
        results = xcom.get(task_id, {})
        if key in results or key == RETURN_VALUE:
            return results.get(key)
        found = results.get(RETURN_VALUE)
        if isinstance(found, dict) and key in found:  # multiple outputs: one returned dict
            return found[key]
        raise InvalidInputError(
            f"task {task_id!r} left no result called {key!r}. It left: {', '.join(results) or 'none'}"
        )
    if isinstance(value, dict):
        return {name: resolve(part, xcom) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [resolve(part, xcom) for part in value]
    return value


def get_current_context() -> dict[str, Any]:
    """The context of the task that is running. Raises RuntimeError outside of one (as in Airflow)."""
    current = _context.get()
    if current is None:
        raise RuntimeError("get_current_context() is only for the inside of a running task. Call it there")
    return current


@contextmanager
def running(values: dict[str, Any]) -> Iterator[None]:
    """Makes *values* what `get_current_context` answers."""
    token = _context.set(values)
    try:
        yield
    finally:
        _context.reset(token)


def ds_add(ds: str, days: int) -> str:
    """The date *days* after *ds*, both as YYYY-MM-DD."""
    return (datetime.strptime(ds, "%Y-%m-%d") + timedelta(days=days)).strftime("%Y-%m-%d")


def ds_format(ds: str, input_format: str, output_format: str) -> str:
    return datetime.strptime(ds, input_format).strftime(output_format)


def datetime_diff_for_humans(dt: datetime, since: datetime | None = None) -> str:
    """How long ago *dt* was, in words; with *since*, how far it is from there."""
    return pendulum.instance(dt).diff_for_humans(None if since is None else pendulum.instance(since))


MACROS = SimpleNamespace(
    datetime=datetime,
    datetime_diff_for_humans=datetime_diff_for_humans,
    dateutil=dateutil,
    ds_add=ds_add,
    ds_format=ds_format,
    json=json,
    random=random.random,
    timedelta=timedelta,
    uuid=uuid,
)
"""Airflow's `macros`."""


def _key_str(attempt: TaskAttempt) -> str:
    """Airflow's task_instance_key_str."""
    date = attempt.run.logical_date
    day = attempt.run.run_id if date is None else date.strftime("%Y%m%d")
    return f"{attempt.run.dag_id}__{attempt.task.task_id}__{day}"


def _pendulum(value: datetime | None) -> pendulum.DateTime | None:
    return None if value is None else pendulum.instance(value)
