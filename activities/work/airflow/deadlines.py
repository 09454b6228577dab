"""Deadlines of DAGs that are written for Airflow, and what is called when one is missed."""

import asyncio
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from ....model.run.attempts import TaskAttempt


def deadlines_of(dag: Any) -> list[Any]:
    """Return the DAG's DeadlineAlerts, of which there may be one, several or none."""
    given = dag.deadline or ()
    return [*given] if isinstance(given, list | tuple) else [given]


def call_missed(dag: Any, attempt: TaskAttempt, run: Mapping[str, Any]) -> None:
    """Call the callback of the alert that *attempt* is about, as Airflow's triggerer or executor would."""
    called = attempt.callback
    assert called is not None  # noqa: S101
    callback = deadlines_of(dag)[called.number].callback
    function = _imported(callback.path)
    context = {"dag_run": to_jsonable_python(dict(run)), "deadline": {"deadline_time": called.reason}}
    more = {"context": context} if _takes_context(function) else {}
    result = function(**callback.kwargs, **more)
    if inspect.isawaitable(result):
        asyncio.run(_awaited(result))
    elif hasattr(result, "notify") and callable(result):  # a notifier, which is made before it is called
        result(context)


async def _awaited(result: Any) -> Any:
    return await result


def _imported(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def _takes_context(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(one.name == "context" or one.kind is one.VAR_KEYWORD for one in parameters)
