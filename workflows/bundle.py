"""One folder of DAG files for as long as it is watched: the only one to say what is parsed, and whose a DAG is.

Decisions are `model.bundle.state`; nothing is read, parsed or registered here, but by activities on a
task queue of their own.
"""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from temporalio import exceptions, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from ..activities.bundles.registering import (
    Compared,
    CompareQuestion,
    Registered,
    RegisterQuestion,
    TellQuestion,
)
from ..activities.names import ASK_AGAIN, FILES_SUFFIX
from ..model.bundle.data import BundleSettings, BundleView, FileView, Listing, ParsedDag, ParseResult
from ..model.bundle.state import BundleState
from ..model.interfaces.bundle import BundleInterface
from .alarm import Alarm
from .calls import cause_of

LISTING_TIMEOUT = timedelta(minutes=5)
PARSE_MARGIN = timedelta(minutes=1)
REGISTER_TIMEOUT = timedelta(minutes=10)
COMPARE_TIMEOUT = timedelta(minutes=1)
HEARTBEAT = timedelta(seconds=10)
LOST_WORKERS = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30), maximum_attempts=5
)
"""A file that takes its worker along is not tried for ever."""
UNTIL_IT_WORKS = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
REGISTERED_AT_ONCE = 4


@workflow.defn(name=BundleInterface.workflow, sandboxed=False)
class DagBundleWorkflow:
    """A bundle of DAG files: lists them, has those parsed that changed, and tells their DAGs."""

    @workflow.init
    def __init__(self, state: BundleState) -> None:
        self.state = state
        self._alarm = Alarm()
        self._listing = False
        self._look = True
        """Whether the folder is to be listed now."""
        self._listings = 0
        self._parsing: set[str] = set()
        self._registering: set[str] = set()
        self._telling = False
        self._comparing = False
        workflow.deprecate_patch("compares-and-doubts")
        self._under_way: set[asyncio.Task[None]] = set()

    @workflow.run
    async def run(self, _: BundleState) -> None:
        """Looks after the files, for ever."""
        while True:
            now = workflow.now()
            if not self._ripe:
                self._begin_what_is_due()
            elif not self._under_way and workflow.all_handlers_finished():
                self.state.executions += 1
                workflow.continue_as_new(self.state)
            wake = self.state.next_wake(now, self._parsing)
            await self._alarm.until(None if self._ripe else wake)

    @property
    def _ripe(self) -> bool:
        """Whether nothing more is begun, since the history is long: it goes on as new when all under way has ended."""
        return workflow.info().is_continue_as_new_suggested()

    def _begin_what_is_due(self) -> None:
        now = workflow.now()
        due = self.state.next_listing()
        if not self._listing and (self._look or due is None or due <= now):
            self._look, self._listing = False, True
            self._begin(self._list())
        for path in self.state.next_parses(now, self._parsing):
            self._parsing.add(path)
            self._begin(self._parse(path))
        for path, dag_ids in self.state.registrations(now, self._registering).items():
            if len(self._registering) < REGISTERED_AT_ONCE:
                self._registering.add(path)
                self._begin(self._register(path, dag_ids))
        compare_at = self.state.next_comparison()
        due_now = bool(self.state.to_compare()) and (compare_at is None or compare_at <= now)
        # What is read or registered just now is known better than any list knows it.
        quiet = not (self._comparing or self._registering or self._parsing or self.state.unparsed)
        if due_now and quiet:
            self._comparing = True
            self._begin(self._compare())
        if not self._telling and self.state.file_states(now):
            self._telling = True
            self._begin(self._tell())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.state.problem = f"a defect of tidemill: {type(error).__name__}: {error}"
        self._alarm.fire()

    # Work of activities

    async def _list(self) -> None:
        requested_at = workflow.now()
        try:
            listing: Listing = await self._ask(
                "tidemill.list_files",
                self.state.list_question(),
                Listing,
                LISTING_TIMEOUT,
                LOST_WORKERS,
            )
            self.state.take_listing(listing, workflow.now(), requested_at)
        except ActivityError as error:
            self.state.cannot_list(cause_of(error), workflow.now())
        finally:
            self._listing = False
            self._listings += 1

    async def _parse(self, path: str) -> None:
        question = self.state.parse_question(path)
        limit = self.state.settings.dag_file_processor_timeout + PARSE_MARGIN
        try:
            result: ParseResult = await self._ask(
                "tidemill.parse_file", question, ParseResult, limit, LOST_WORKERS, summary=path
            )
        except ActivityError as error:
            if not isinstance(error.cause, exceptions.TimeoutError):
                self.state.not_parsed(path, cause_of(error), workflow.now())
                return
            # Perhaps the file takes its workers along: until it changes it is not tried again.
            listed = self.state.files[path].listed if path in self.state.files else ""
            message = f"no worker has finished parsing it: {cause_of(error)}"
            result = ParseResult(digest=listed, error=message, seconds=0)
        finally:
            self._parsing.discard(path)
        self.state.parsed(path, result, workflow.now())

    async def _register(self, path: str, dag_ids: list[str]) -> None:
        dags = tuple(ParsedDag(dag_id=d, version=self.state.version_of(path, d)) for d in dag_ids)
        try:
            done: Registered = await self._ask(
                "tidemill.register_dags",
                RegisterQuestion(dags=dags),
                Registered,
                REGISTER_TIMEOUT,
                UNTIL_IT_WORKS,
                summary=path,
            )
        finally:
            self._registering.discard(path)
        for dag in dags:
            if dag.dag_id in done.undone:
                self.state.not_registered(dag.dag_id, done.undone[dag.dag_id], workflow.now())
            else:
                in_place = done.versions.get(dag.dag_id)
                self.state.registered(dag.dag_id, dag.version, done.errors[dag.dag_id], in_place)

    async def _compare(self) -> None:
        """Looks whether DAGs are what they were registered as: somebody may have ended or replaced one."""
        versions = self.state.to_compare()
        question = CompareQuestion(bundle=self.state.settings.name, versions=versions)
        compared = Compared()
        try:
            compared = await self._ask("tidemill.compare_dags", question, Compared, COMPARE_TIMEOUT, LOST_WORKERS)
        except ActivityError as error:  # nobody waits for a list that is away, or a worker that cannot make one
            workflow.logger.warning("DAGs of the bundle could not be looked at: %s", cause_of(error))
        finally:
            self._comparing = False
        self.state.compared(compared.strays, versions, workflow.now())

    async def _tell(self) -> None:
        states = self.state.file_states(workflow.now())
        try:
            await self._ask(
                "tidemill.tell_dags",
                TellQuestion(states=states),
                type(None),
                REGISTER_TIMEOUT,
                UNTIL_IT_WORKS,
            )
        finally:
            self._telling = False
        self.state.record_states(states)

    async def _ask(
        self,
        activity: str,
        question: Any,
        answer: type[Any],
        start_to_close_timeout: timedelta,
        policy: RetryPolicy,
        *,
        summary: str | None = None,
    ) -> Any:
        return await workflow.execute_activity(
            activity,
            question,
            result_type=answer,
            task_queue=workflow.info().task_queue + FILES_SUFFIX,
            start_to_close_timeout=start_to_close_timeout,
            heartbeat_timeout=HEARTBEAT,
            retry_policy=policy,
            summary=summary,
        )

    # Messages

    @workflow.signal
    def look(self) -> None:
        """Files may have changed: they are listed now, not when it is time."""
        self._look = True
        self._alarm.fire()

    @workflow.update
    async def refresh(self, paths: list[str]) -> BundleView:
        """Lists and parses now, changed or not: *paths*, or all if none are given. Answers when all is done."""
        await self._listed_now()
        self.state.force(paths or None)
        await self._settled(self._idle)
        return self.state.view()

    @workflow.update
    def confirm_removals(self) -> BundleView:
        """Believes the next listing, however many files are gone, and lists now."""
        self.state.confirm_removals()
        self.look()
        return self.state.view()

    @workflow.update
    async def look_now(self) -> list[FileView]:
        """Lists now, and waits until what has changed is parsed and registered."""
        await self._listed_now()
        await self._settled(self._idle)
        return self.state.file_views()

    @workflow.update
    def configure(self, settings: BundleSettings) -> BundleView:
        """Changes how the bundle is looked after. Its name stays."""
        self.state.configure(settings)
        self.look()
        return self.state.view()

    async def _listed_now(self) -> None:
        wanted = self._listings + (2 if self._listing else 1)  # one that is under way may have been too early
        self.look()
        await self._settled(lambda: self._listings >= wanted)

    async def _settled(self, reached: Callable[[], bool]) -> None:
        """Waits until *reached*; nobody who waits holds up that the bundle goes on as new."""
        self._alarm.fire()
        await workflow.wait_condition(lambda: reached() or self._ripe)
        if not reached():
            self._alarm.fire()
            message = "the bundle goes on in another execution of its workflow. Ask again"
            raise ApplicationError(message, type=ASK_AGAIN, non_retryable=True)

    def _idle(self) -> bool:
        unsent = self.state.registrations(workflow.now(), ()) or self.state.file_states(workflow.now())
        busy = self._parsing or self._registering or self._telling or self._comparing
        to_compare = self.state.compare_now and self.state.to_compare()
        return not (self.state.unparsed or unsent or busy or to_compare)

    # Questions

    @workflow.query
    def describe(self) -> BundleView:
        """How the bundle is: files, DAGs, errors, what is waiting."""
        return self.state.view()

    @workflow.query
    def files(self) -> list[FileView]:
        """Every file: when it was parsed last, how long that took, its DAGs, what is wrong with it."""
        return self.state.file_views()
