"""Answers what a task asks about its DAG and about runs, from their workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Protocol, TypeVar, cast

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ...model.dag.views import DagView
from ...model.interfaces.asset import AssetInterface
from ...model.interfaces.run import RunInterface
from ...model.run.attempts import TaskAttempt, dag_path
from ...model.run.facts import Question, RunSummary
from ...model.run.identity import RunIdentity, beginnings_of_runs
from ...model.run.messages import XComQuestion
from ...model.run.task_instances import TaskInstance
from ...model.run.views import RunView, TaskView
from ...model.spec.dag import DagSpec, enclosing
from ...model.states import RunState, TaskState
from ..dag_handle import DagHandle, DagNotFoundError
from ..workflow_caller import WorkflowCaller, is_busy
from .key_values import KeyValues
from .run_starts import RunStarts
from .xcom_store import XComStore

T = TypeVar("T")
ANSWER_TIMEOUT, FETCHED_TIMEOUT, PATIENCE = 8.0, 60.0, timedelta(seconds=2)
"""Heartbeats of the task that asks wait as long; it asks again where its question can be answered later."""
GIVEN_UP_AFTER = 90.0
"""In seconds, as long as a task asks again."""
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

    def trigger(self, attempt: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
        """Starts a run, once for each try: that it `exists` already by somebody else, or an `error`, or nothing."""


@dataclass
class LookupProxy:
    """Where a worker's attempts can ask of runs; None: in a process without a client."""

    lookup: Answers | None = None

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer, or why there is none."""
        if self.lookup is None:
            return {"answer": [] if question["about"] == "runs" else {}}
        return self.lookup.answer(question)

    def trigger(self, attempt: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
        """Starts a run for a try."""
        if self.lookup is None:
            return {"error": "no run can be started from here. Have a worker run the task"}
        return self.lookup.trigger(attempt, wanted)


class _UnansweredError(Exception):
    """There is no answer; perhaps one `later`."""

    def __init__(self, reason: str, *, later: bool) -> None:
        super().__init__(reason)
        self.later = later


@dataclass(frozen=True)
class RunLookup:
    """Asks with the worker's client, from the threads of activities."""

    client: Client
    loop: asyncio.AbstractEventLoop
    results: XComStore
    key_values: KeyValues
    _under_way: dict[str, Future[Any]] = field(default_factory=dict)
    """Questions whose answer takes longer than somebody waits for at a time."""

    @cached_property
    def _caller(self) -> WorkflowCaller:
        return WorkflowCaller(self.client, PATIENCE)

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer, or why there is none, and whether there may be one `later`."""
        about = f"{question['about']} of {question['dag_id']!r} cannot be asked for"
        query = Question.model_validate(question)
        try:
            return {"answer": self._answer_in_time(query.model_dump_json(), lambda: self._answer(query))}
        except _UnansweredError as error:
            return {"error": f"{about}: {error}", "later": error.later}

    def trigger(self, attempt: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
        """Starts a run, once for each try, however often this is asked for."""
        starts, of = RunStarts(self._caller, self.key_values), TaskAttempt.model_validate(attempt)
        try:
            return self._answer_in_time(
                f"{of.uuid} {wanted['dag_id']} {wanted['run_id']}", lambda: starts.start(of, wanted)
            )
        except _UnansweredError as error:
            return {"error": f"DAG {wanted['dag_id']!r} cannot be triggered: {error}", "later": error.later}

    def _answer_in_time(self, key: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What comes of *work*. It goes on where that takes long, and who asks again waits for the same."""
        pending = self._under_way.pop(key, None)
        if pending is None:  # given up when nobody asks any more: what is begun then would surprise
            pending = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work(), GIVEN_UP_AFTER), self.loop)
        try:
            return cast("T", pending.result(ANSWER_TIMEOUT))
        except TimeoutError as error:
            if not pending.done():
                self._under_way[key] = pending
                pending.add_done_callback(lambda _: self.loop.call_soon_threadsafe(self._forget_later, key, pending))
            raise _UnansweredError("it takes long", later=not pending.done()) from error
        except Exception as error:
            raise _UnansweredError(str(error) or type(error).__name__, later=is_busy(error)) from error

    def _forget_later(self, key: str, pending: Future[Any]) -> None:
        self.loop.call_later(FETCHED_TIMEOUT, self._forget, key, pending)

    def _forget(self, key: str, pending: Future[Any]) -> None:
        if self._under_way.get(key) is pending:
            del self._under_way[key]

    async def _answer(self, question: Question) -> Any:
        answers: dict[str, Callable[[Question], Awaitable[Any]]] = {
            "dag": self._dag,
            "runs": self._runs,
            "states": self._states,
            "events": self._events,
            "consumed": self._consumed,
            "xcom": self._xcom,
            "asset": self._asset,
        }
        return await answers[question.about](question)

    async def _dag(self, question: Question) -> dict[str, Any]:
        handle = DagHandle(self._caller, question.dag_id)
        return of_dag(*await asyncio.gather(handle.spec(), handle.view()))

    async def _runs(self, question: Question) -> list[dict[str, Any]]:
        """All runs that the DAG knows; of one that is asked for alone also its interval and its conf."""
        found = await self._views(question)
        known = [self._known(view) for view in found]
        if question.run_id is not None and found:
            identity = await self._identity(found[0])
            if identity is None:
                return [known[0].model_dump(mode="json")]
            known = [known[0].model_copy(update=RunSummary.details_of(identity))]
        return [run.model_dump(mode="json") for run in known]

    async def _identity(self, run: RunView) -> RunIdentity | None:
        """What the run was made as; None where it has not begun, or Temporal has forgotten it."""
        try:
            return await self._caller.query(run.workflow_id, RunInterface.identity())
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None

    def _known(self, view: RunView) -> RunSummary:
        fields = view.model_dump(include=RunSummary.model_fields.keys() & RunView.model_fields.keys())
        return RunSummary.model_validate(fields)

    async def _states(self, question: Question) -> dict[str, Any]:
        """The task instances by their keys; those of a run that has not begun have no state, as in Airflow."""
        if question.of_workflow:
            return states_of((await self._caller.query(question.of_workflow, RunInterface.describe())).tasks)
        found: dict[str, Any] = {}
        for view in await self._views(question):
            found |= await self._states_in(question.dag_id, view)
        return found

    async def _states_in(self, dag_id: str, run: RunView) -> dict[str, Any]:
        try:
            return states_of((await self._caller.query(run.workflow_id, RunInterface.describe())).tasks)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND or run.state is RunState.FAILED:
                raise
        # It is queued; or Temporal has forgotten it, and its tasks were what the DAG remembers of it.
        state = TaskState.SUCCESS if run.state is RunState.SUCCESS else TaskState.NONE
        tasks = (await DagHandle(self._caller, dag_id).spec()).tasks
        return states_of([TaskInstance(task_id=task.task_id, state=state) for task in tasks])

    async def _xcom(self, question: Question) -> dict[str, Any]:
        """By map_index: what the instances of one task have left under a key."""
        wanted = XComQuestion(task_id=question.task_ids[0], key=question.key)
        found: dict[str, Any] = {}
        for workflow_id in await self._runs_with(question):
            found = await self._xcom_in(workflow_id, wanted)
            if found:
                break
        filled: dict[str, Any] = await asyncio.to_thread(self.results.filled, found, dag_path(question.dag_id))
        return filled

    async def _xcom_in(self, workflow_id: str, wanted: XComQuestion) -> dict[str, Any]:
        try:
            return await self._caller.query(workflow_id, RunInterface.xcom(wanted))
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return {}  # it has not begun, or Temporal has forgotten it

    async def _runs_with(self, question: Question) -> list[str]:
        """The workflows of the runs in which a result may be: the one that is meant, then those before it."""
        if question.of_workflow is not None and not question.include_prior_dates:
            of_dag = question.of_workflow.startswith(beginnings_of_runs(question.dag_id))
            return [question.of_workflow] if of_dag else []
        views = await self._views(question.model_copy(update={"run_id": None}))
        meant = [view for view in views if view.run_id == question.run_id]
        date = meant[0].logical_date if meant else question.until
        if not question.include_prior_dates or date is None:
            return [view.workflow_id for view in meant]
        before = [view for view in views if view.logical_date is not None and view.logical_date <= date]
        before.sort(key=lambda view: view.logical_date or date, reverse=True)
        return [view.workflow_id for view in before]

    async def _asset(self, question: Question) -> dict[str, Any]:
        """An asset by the id of its workflow; nothing where there is none."""
        try:
            found = await self._caller.query(question.key, AssetInterface.describe())
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return {}
        return found.model_dump(mode="json")

    async def _consumed(self, question: Question) -> list[dict[str, Any]]:
        """The events that a run was made for."""
        identity = await self._caller.query(question.key, RunInterface.identity())
        return [event.model_dump(mode="json") for event in identity.asset_events]

    async def _events(self, question: Question) -> list[dict[str, Any]]:
        """The last events of an asset; none where there is no such asset."""
        try:
            found = await self._caller.query(question.key, AssetInterface.events())
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return []
        return [event.model_dump(mode="json") for event in found]

    async def _views(self, question: Question) -> Sequence[RunView]:
        """The runs of a DAG; none of one that is not registered, as for a sensor that waits for it."""
        try:
            views = await DagHandle(self._caller, question.dag_id).runs()
        except DagNotFoundError:
            return []
        return [view for view in views if question.run_id in (None, view.run_id)]


def states_of(instances: Iterable[TaskView | TaskInstance]) -> dict[str, Any]:
    """What a task may ask of task instances, by their keys."""
    return {
        one.key: {
            "task_id": one.task_id,
            "map_index": one.map_index,
            "state": str(one.state),
            "try_number": one.try_number,
            "start_date": one.began.isoformat() if one.began is not None else None,
            "end_date": one.ended_at.isoformat() if one.ended_at is not None else None,
        }
        for one in instances
    }


def of_dag(spec: DagSpec, view: DagView | None = None) -> dict[str, Any]:
    """What a task may ask of a DAG; without a *view* it is of no server, and is not paused."""
    known, source = spec.model_dump(mode="json"), spec.source
    next_dagrun = view.next_dagrun if view is not None else None
    owners = dict.fromkeys(task.owner for task in spec.tasks if task.owner)
    return {
        **{name: known.get(name, DagSpec.model_fields[name].default) for name in OF_A_DAG},
        "owner": ", ".join(owners) or "airflow",
        "is_paused": view is not None and view.is_paused,
        "next_dagrun": next_dagrun.isoformat() if next_dagrun is not None else None,
        "bundle": source.bundle if source is not None else None,
        "bundle_version": source.snapshot if source is not None else None,
        "file": source.name if source is not None else None,
        "task_ids": [task.task_id for task in spec.tasks],
        "groups": _groups(spec),
    }


def _groups(spec: DagSpec) -> dict[str, list[str]]:
    """The tasks of each group, by its id and by the last part of it: groups may leave out those that they are in."""
    found: dict[str, list[str]] = {}
    for task in spec.tasks:
        for group in enclosing(task.group):
            for name in {group, group.rpartition(".")[2]}:
                found.setdefault(name, []).append(task.task_id)
    return found
