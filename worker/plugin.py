"""Adds tidemill to a Temporal worker or client of your own.

    plugin = TidemillPlugin()
    client = await Client.connect("localhost:7233", plugins=[plugin])
    worker = Worker(client, task_queue="tidemill", workflows=[Mine])

A plugin given to the client reaches its workers too. Giving it to the worker alone leaves the
client's data converter as it is, and tidemill's models need theirs: so the client is the place.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from weakref import WeakSet

from temporalio.client import Client
from temporalio.plugin import SimplePlugin
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerConfig, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from ..activities.airflow_triggers import TriggerActivities
from ..activities.attempts.run_lookup import RunLookup
from ..activities.bundles.files import FileActivities
from ..activities.bundles.registering import RegisterActivities, tell_dags
from ..activities.holders import find_holders
from ..activities.names import (
    CALLS_SUFFIX,
    DRIVERS_SUFFIX,
    FILES_SUFFIX,
    FOLLOWING_SUFFIX,
    SPARK_SUFFIX,
    TRIGGERS_SUFFIX,
    WATCHING_SUFFIX,
    control_queue,
)
from ..activities.notifying import NotifyActivities
from ..activities.other_dags import OtherDagsActivities
from ..activities.runs import find_conf, find_ended_runs, find_run, load_run, revise_run
from ..activities.spark.activity import SparkActivities
from ..activities.spark.output import OutputActivities
from ..activities.spark.temporal_access import TemporalAccess
from ..activities.tasks import task_activities
from ..activities.timetables import TimetableActivities
from ..activities.waiting import WaitingActivities
from ..activities.watching.activity import WatchActivities
from ..activities.watching.other_namespaces import OtherNamespaces
from ..activities.worker_context import WorkerContext
from ..model.base import build_models
from ..workflows.kinds import workflow_kinds
from ..workflows.parallelism import ParallelismInterceptor
from .service.converter import with_models
from .supervision.fence import Fence
from .supervision.listening_runner import ListeningRunner
from .supervision.lost_starts import look_after_lost_starts
from .supervision.lost_workers import look_after_lost_workers
from .supervision.repair import repair_after_a_rollback
from .supervision.store_watch import CachedWorkflows, StoreWatch

PASSED_THROUGH = (
    "tidemill",
    "croniter",
    "dateutil",
    "jinja2",
    "jsonschema",
    "markupsafe",
    "pendulum",
    "psutil",
    "pydantic",
    "pydantic_core",
    "pytz",
    "referencing",
    "rpds",
    "tzdata",
)
"""Modules that workflows share with the worker instead of importing them anew for every workflow."""

MAX_ACTIVITIES = 100
CONTROL_THREADS = 4
FILE_THREADS = 8
MAX_FOLLOWED = 200
MAX_CALLS = 200
MAX_WATCHED = 200
MAX_TRIGGERS = 1000
STOP_TIMEOUT = timedelta(seconds=60)


class TidemillPlugin(SimplePlugin):
    """Workflows, activities, data converter and sandbox settings of tidemill.

    *pins_runs*: for workers with a deployment; runs stay with the build that they began with. *parallelism*: how many
    tasks run at a time over all DAGs and workers; give the same to each worker. *lost_after*: how long a worker may be
    silent before its tasks begin elsewhere, if its runtime reports that often; None: `heartbeat_timeout` decides.
    """

    def __init__(
        self,
        home: Path | str = ".tidemill",
        *,
        worker_context: WorkerContext | None = None,
        pins_runs: bool = False,
        parallelism: int | None = None,
        lost_after: timedelta | None = None,
    ) -> None:
        place = worker_context or WorkerContext(home=Path(home).resolve())

        self._spark_activities = SparkActivities(place)
        self._watch_activities = WatchActivities(place)
        self._trigger_activities = TriggerActivities(place)
        self.place = place
        _ = place.driver_room, place.submission_rooms  # made before many threads ask for them
        self._lost_after = lost_after
        self._cached = CachedWorkflows()
        self._making_beside = False
        self._beside: WeakSet[Worker] = WeakSet()
        """The small workers beside each worker: of any name, what they are is known by themselves."""

        super().__init__(
            "tidemill",
            data_converter=with_models,
            workflows=workflow_kinds(pins_runs=pins_runs),
            activities=[
                *task_activities(place),
                NotifyActivities(place).notify,
                self._spark_activities.run,
                self._spark_activities.publish_table,
            ],
            workflow_runner=_with_shared_modules,
            interceptors=[ParallelismInterceptor(parallelism)] if parallelism is not None else [],
        )

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:  # noqa: A002
        """Runs small workers beside *worker*, each for work that must not wait behind other work.

        One answers the questions of workflows, one runs Spark tasks, one follows what clusters run, one looks at DAG
        files, and one for events of assets; a worker without activities has only the first.
        """
        if worker in self._beside:
            await next(worker)
            return
        loop = asyncio.get_running_loop()
        self._spark_activities.temporal = TemporalAccess(worker.client, loop)
        self._watch_activities.other_namespaces = OtherNamespaces(worker.client, loop)
        self.place.facts.lookup = RunLookup(worker.client, loop, self.place.results, self.place.key_values)
        beside = self._workers_beside(worker)
        _stop_together(worker, beside)
        build_models()
        warming = asyncio.create_task(asyncio.to_thread(self.place.forks().start))
        watching = [
            asyncio.create_task(StoreWatch(worker, self._cached).run()),
            asyncio.create_task(repair_after_a_rollback(worker.client, worker.task_queue)),
            asyncio.create_task(look_after_lost_starts(worker.client, self.place.under_way)),
        ]
        fence = self._fence(worker.client)
        if self._lost_after is not None:
            watching.append(asyncio.create_task(look_after_lost_workers(worker.client, self._lost_after, fence)))
        try:
            async with AsyncExitStack() as running:
                running.enter_context(self.place.under_way.kept())
                for other in beside:
                    await running.enter_async_context(other)
                await super().run_worker(worker, next)
        finally:  # only now: until then, one of them may still let its tasks finish
            for watch in watching:
                watch.cancel()
            if fence is not None:
                await fence.leave()
            await warming
            await asyncio.to_thread(self.place.close)

    def _fence(self, client: Client) -> Fence | None:
        """None where workers share no store, or nobody looks for lost ones."""
        if self._lost_after is None or self.place.xcom_url is None:
            return None
        seconds, grace = self._lost_after.total_seconds(), self.place.grace.total_seconds()
        return Fence(self.place.xcom_url, client.identity, seconds, grace)

    def _workers_beside(self, worker: Worker) -> list[Worker]:
        self._making_beside = True
        try:
            made = [self._control_worker(worker), self._calls_worker(worker)]
            if not worker.config().get("no_remote_activities"):
                made += [self._files_worker(worker), self._watching_worker(worker), self._triggers_worker(worker)]
                if self.place.max_spark_tasks:
                    made += [self._spark_worker(worker), self._drivers_worker(worker), self._following_worker(worker)]
        finally:
            self._making_beside = False
        for other in made:
            self._beside.add(other)
        return made

    def _control_worker(self, worker: Worker) -> Worker:
        timetables, waiting = TimetableActivities(self.place), WaitingActivities(self.place)
        others = OtherDagsActivities(self.place)
        return Worker(
            worker.client,
            task_queue=control_queue(worker.task_queue),
            activities=[
                timetables.ask_backfill,
                timetables.ask_backfill_part,
                timetables.ask_timetable,
                timetables.ask_trigger,
                timetables.ask_triggers,
                waiting.find_moment,
                waiting.render_attempt,
                find_conf,
                find_run,
                find_ended_runs,
                load_run,
                # Of runs that a release before has begun; from now on they have a queue of their own.
                others.poke_external_task,
                others.trigger_dag,
                revise_run,
            ],
            activity_executor=ThreadPoolExecutor(CONTROL_THREADS, thread_name_prefix="tidemill-control"),
            max_concurrent_activities=CONTROL_THREADS,
            interceptors=worker.config().get("interceptors", ()),
            deployment_config=worker.config().get("deployment_config"),
        )

    def _calls_worker(self, worker: Worker) -> Worker:
        others = OtherDagsActivities(self.place)
        activities: list[Callable[..., object]] = [
            others.poke_external_task,
            others.trigger_dag,
            revise_run,
            find_holders,
        ]
        return self._worker_beside(worker, CALLS_SUFFIX, activities, MAX_CALLS)

    def _files_worker(self, worker: Worker) -> Worker:
        files, register = FileActivities(self.place), RegisterActivities(self.place)
        activities: list[Callable[..., object]] = [
            files.list_files,
            files.parse_file,
            register.register_dags,
            register.compare_dags,
            tell_dags,
        ]
        return self._worker_beside(worker, FILES_SUFFIX, activities, FILE_THREADS)

    def _watching_worker(self, worker: Worker) -> Worker:
        return self._worker_beside(worker, WATCHING_SUFFIX, [self._watch_activities.watch], MAX_WATCHED)

    def _triggers_worker(self, worker: Worker) -> Worker:
        return self._worker_beside(worker, TRIGGERS_SUFFIX, [self._trigger_activities.watch], MAX_TRIGGERS)

    def _spark_worker(self, worker: Worker) -> Worker:
        return self._worker_beside(worker, SPARK_SUFFIX, self._spark_work, self.place.max_spark_tasks)

    def _drivers_worker(self, worker: Worker) -> Worker:
        return self._worker_beside(worker, DRIVERS_SUFFIX, self._spark_work, self.place.max_drivers)

    @property
    def _spark_work(self) -> list[Callable[..., object]]:
        return [self._spark_activities.run, self._spark_activities.publish_table]

    def _following_worker(self, worker: Worker) -> Worker:
        spark = self._spark_activities
        following: list[Callable[..., object]] = [spark.watch, spark.end, OutputActivities(self.place).publish]
        return self._worker_beside(worker, FOLLOWING_SUFFIX, following, MAX_FOLLOWED)

    def _worker_beside(
        self, worker: Worker, suffix: str, activities: list[Callable[..., object]], max_activities: int
    ) -> Worker:
        config = worker.config()
        return Worker(
            worker.client,
            task_queue=worker.task_queue + suffix,
            activities=activities,
            activity_executor=ThreadPoolExecutor(max_activities, thread_name_prefix=f"tidemill{suffix}"),
            max_concurrent_activities=max_activities,
            graceful_shutdown_timeout=config.get("graceful_shutdown_timeout", timedelta()),
            interceptors=config.get("interceptors", ()),
            deployment_config=config.get("deployment_config"),
            max_heartbeat_throttle_interval=self.place.heartbeat,
            default_heartbeat_throttle_interval=self.place.heartbeat,
        )

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """Adds what tidemill needs; what the worker's owner has set stays, apart from too slow heartbeats."""
        if self._making_beside:
            return config
        config = super().configure_worker(config)
        runner = config.get("unsandboxed_workflow_runner") or UnsandboxedWorkflowRunner()
        config["unsandboxed_workflow_runner"] = ListeningRunner(runner, self._cached.hear)
        # Threads that stop by themselves: an exception thrown into one could leave a process behind.
        if config.get("activity_executor") is None:
            max_activities = config.get("max_concurrent_activities") or MAX_ACTIVITIES
            config["max_concurrent_activities"] = max_activities
            config["activity_executor"] = ThreadPoolExecutor(max_activities, thread_name_prefix="tidemill")
        # By default the SDK holds heartbeats back for 80 % of their timeout: progress and cancellation would lag.
        config["max_heartbeat_throttle_interval"] = self.place.heartbeat
        config["default_heartbeat_throttle_interval"] = self.place.heartbeat
        if not config.get("graceful_shutdown_timeout"):
            config["graceful_shutdown_timeout"] = self.place.drain + 2 * self.place.grace
        # The workers beside it stop with it, and may take as long.
        config["plugin_shutdown_timeout"] = config["graceful_shutdown_timeout"] + STOP_TIMEOUT
        return config


def _stop_together(worker: Worker, beside: list[Worker]) -> None:
    """Has *beside* stop polling when *worker* does: what is begun on a worker that drains would not be seen through."""
    stop = worker.shutdown

    async def shutdown() -> None:
        stopping = [asyncio.create_task(other.shutdown()) for other in beside]
        await stop()
        await asyncio.gather(*stopping)

    worker.shutdown = shutdown  # type: ignore[method-assign]


def _with_shared_modules(runner: WorkflowRunner | None) -> WorkflowRunner:
    if runner is None:
        runner = SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default)
    if isinstance(runner, SandboxedWorkflowRunner):
        return replace(runner, restrictions=runner.restrictions.with_passthrough_modules(*PASSED_THROUGH))
    return runner
