"""Answers what a task asks about its DAG and about runs, from their workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ...model.asset.events import AssetEvent
from ...model.run.facts import KnownRun, Question
from ...model.run.identity import RunIdentity, dag_workflow_id
from ...model.run.state import DagRunState
from ...model.run.views import RunDetails, RunView
from ...model.spec.dag import DagSpec
from .xcom_store import XComStore

T = TypeVar("T")
ANSWER_WITHIN, ASKED_WITHIN = 8.0, timedelta(seconds=5)
"""Heartbeats of the task that asks wait as long."""
OF_A_DAG = (
    "description",
    "tags",
    "start_date",
    "end_date",
    "timezone",
    "catchup",
    "max_active_runs",
    "max_active_tasks",
)


class Answers(Protocol):
    """Who knows of runs."""

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer, or why there is none."""


@dataclass
class FactsAccess:
    """Where a worker's attempts can ask of runs; None: in a process without a client."""

    run_facts: Answers | None = None

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer, or why there is none."""
        if self.run_facts is None:
            return {"answer": [] if question["about"] == "runs" else {}}
        return self.run_facts.answer(question)


@dataclass(frozen=True)
class RunFacts:
    """Asks with the worker's client, from the threads of activities."""

    client: Client
    loop: asyncio.AbstractEventLoop
    results: XComStore

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer, or why there is none."""
        asked = asyncio.run_coroutine_threadsafe(self._answer(Question.model_validate(question)), self.loop)
        try:
            return {"answer": asked.result(ANSWER_WITHIN)}
        except Exception as error:
            return {"error": f"{question['about']} of {question['dag_id']!r} cannot be asked for: {error}"}
        finally:
            asked.cancel()

    async def _answer(self, question: Question) -> Any:
        answers: dict[str, Callable[[Question], Awaitable[Any]]] = {
            "dag": self._dag,
            "runs": self._runs,
            "states": self._states,
            "results": self._results,
            "events": self._events,
            "consumed": self._consumed,
        }
        return await answers[question.about](question)

    async def _dag(self, question: Question) -> dict[str, Any]:
        return of_dag(await self._ask(dag_workflow_id(question.dag_id), "spec", DagSpec))

    async def _runs(self, question: Question) -> list[dict[str, Any]]:
        """All runs that the DAG knows; of one that is asked for alone also its interval."""
        found = await self._views(question)
        known = [self._known(view) for view in found]
        if question.run_id is not None and found:
            identity = await self._ask(found[0].workflow_id, "identity", RunIdentity)
            if (interval := identity.data_interval) is not None:
                dates = {"data_interval_start": interval.start, "data_interval_end": interval.end}
                known = [known[0].model_copy(update=dates)]
        return [run.model_dump(mode="json") for run in known]

    def _known(self, view: RunView) -> KnownRun:
        fields = view.model_dump(include=KnownRun.model_fields.keys() & RunView.model_fields.keys())
        return KnownRun.model_validate({**fields, "run_type": str(view.run_type)})

    async def _states(self, question: Question) -> dict[str, Any]:
        details = [await self._ask(view.workflow_id, "describe", RunDetails) for view in await self._views(question)]
        return {
            task.key: {
                "task_id": task.task_id,
                "map_index": task.map_index,
                "state": str(task.state),
                "try_number": task.try_number,
                "start_date": task.started_at.isoformat() if task.started_at is not None else None,
                "end_date": task.ended_at.isoformat() if task.ended_at is not None else None,
            }
            for run in details
            for task in run.tasks
        }

    async def _results(self, question: Question) -> dict[str, Any]:
        """By task: its result; of a mapped one the list of them. Tasks that left none are left out."""
        views = await self._views(question)
        if not views:
            return {}
        state = await self._ask(views[0].workflow_id, "whole_state", DagRunState)
        found = {task_id: _result(state, task_id, question.key) for task_id in question.task_ids}
        left = {task_id: value for task_id, value in found.items() if value is not None}
        filled: dict[str, Any] = await asyncio.to_thread(self.results.filled, left)
        return filled

    async def _consumed(self, question: Question) -> list[dict[str, Any]]:
        """The events that a run was made for."""
        identity = await self._ask(question.key, "identity", RunIdentity)
        return [event.model_dump(mode="json") for event in identity.asset_events]

    async def _events(self, question: Question) -> list[dict[str, Any]]:
        """The last events of an asset; none where there is no such asset."""
        try:
            found = await self._ask(question.key, "events", list[AssetEvent])
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return []
        return [event.model_dump(mode="json") for event in found]

    async def _views(self, question: Question) -> Sequence[RunView]:
        views = await self._ask(dag_workflow_id(question.dag_id), "runs", list[RunView])
        return [view for view in views if question.run_id in (None, view.run_id)]

    async def _ask(self, workflow_id: str, query: str, kind: type[T]) -> T:
        handle = self.client.get_workflow_handle(workflow_id)
        answer: T = await handle.query(query, result_type=kind, rpc_timeout=ASKED_WITHIN)
        return answer


def of_dag(spec: DagSpec) -> dict[str, Any]:
    """What a task may ask of a DAG."""
    known = spec.model_dump(mode="json")
    owners = dict.fromkeys(task.owner for task in spec.tasks if task.owner)
    return {
        **{name: known.get(name, DagSpec.model_fields[name].default) for name in OF_A_DAG},
        "owner": ", ".join(owners) or "airflow",
        "task_ids": [task.task_id for task in spec.tasks],
    }


def _result(state: DagRunState, task_id: str, key: str) -> Any:
    made = [instance.xcom.get(key) for instance in state.of_task(task_id)]
    mapped = any(instance.map_index >= 0 for instance in state.of_task(task_id))
    return made if mapped else next(iter(made), None)
