"""A worker process: the plugin, settings, and an orderly end."""

import asyncio
import contextlib
import logging
import os
import pwd
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Interceptor, Worker, WorkerDeploymentConfig

from ...activities.processes.users import RunAs
from ...activities.secrets import backends, mask_names
from ...activities.worker_context import WorkerContext
from ...model.errors import InvalidInputError
from ..client import Tidemill
from ..plugin import TidemillPlugin
from ..service.connection import connect
from ..settings.airflow import notices_of_environment, of_environment
from ..settings.reading import Settings
from ..supervision.lost_workers import REPORTS
from .health import health_server
from .telemetry import telemetry

LOST_AFTER = 5.0
log = logging.getLogger(__name__)


def plugin_for(settings: Settings) -> TidemillPlugin:
    place = WorkerContext(
        home=settings.home.resolve(),
        dags_folder=settings.dags_folder.absolute() if settings.dags_folder is not None else None,
        spark_master=settings.spark_master,
        spark_conf=settings.spark_conf,
        spark_connections=settings.spark_connections,
        spark_memory=settings.spark_memory_mb,
        spark_drivers=settings.max_spark_drivers,
        spark_slots=settings.max_concurrent_spark,
        keeps_failed_output=settings.keep_failed_output,
        xcom_url=settings.xcom_url,
        log_url=settings.log_url,
        base_url=settings.base_url,
        names_runs_by_run_after=settings.run_ids_from == "run_after",
        log_format=settings.log_format,
        log_limit=settings.log_limit_mb * 2**20,
        environment=settings.task_environment,
        dags_are_paused_at_creation=settings.dags_are_paused_at_creation,
        preload=settings.preload,
        fork_memory=settings.fork_memory_mb,
        airflow_python=settings.airflow_python,
        airflow_pythons=settings.airflow_pythons,
        run_as=user_of(settings.run_as),
        run_as_users={
            bundle: user
            for bundle, name in settings.run_as_users.items()
            if (user := user_of(name, "TIDEMILL_RUN_AS_USERS")) is not None
        },
        network=network_of(settings),
        masked_names=settings.masked_names,
        heartbeat=timedelta(seconds=settings.heartbeat_seconds),
        drain=timedelta(seconds=settings.drain_seconds),
        grace=timedelta(seconds=settings.grace_seconds),
    )
    return TidemillPlugin(
        worker_context=place,
        pins_runs=settings.deployment_name is not None,
        parallelism=settings.parallelism,
        lost_after=lost_after_of(settings),
    )


def lost_after_of(settings: Settings) -> timedelta | None:
    """How long any worker may be silent before it is taken for lost; None: nobody looks.

    By default where workers share a store, through which one that is only cut off is told to end its tasks.
    """
    seconds = settings.lost_after_seconds
    if seconds is None and settings.xcom_url is not None:
        seconds = LOST_AFTER
    return timedelta(seconds=seconds) if seconds else None


def make_worker(client: Client, settings: Settings, interceptors: Sequence[Interceptor] = ()) -> Worker:
    """A worker for *settings*; *client* must have the plugin."""
    return Worker(
        client,
        task_queue=settings.task_queue,
        max_concurrent_activities=settings.max_concurrent_activities,
        max_cached_workflows=settings.max_cached_workflows,
        interceptors=interceptors,
        deployment_config=deployment_of(settings),
    )


def deployment_of(settings: Settings) -> WorkerDeploymentConfig | None:
    """Runs stay with the version that they began with; everything else goes on with the current one."""
    if settings.deployment_name is None:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(settings.deployment_name, settings.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
    )


def network_of(settings: Settings) -> Path | None:
    """The network namespace for tasks. Raises InvalidInputError if there is none, or it would hold nobody back."""
    path = settings.task_network
    if path is None:
        return None
    if not path.exists():
        raise InvalidInputError(f"TIDEMILL_TASK_NETWORK = {path}: it is not there. Make it: ip netns add {path.name}")
    if os.geteuid() != 0:
        raise InvalidInputError(f"TIDEMILL_TASK_NETWORK = {path}: only root may enter it. Run the worker as root")
    if settings.run_as is None:
        raise InvalidInputError(
            f"TIDEMILL_TASK_NETWORK = {path}: tasks that are root leave it as they like. Set TIDEMILL_RUN_AS, too"
        )
    return path


def user_of(name: str | None, setting: str = "TIDEMILL_RUN_AS") -> RunAs | None:
    """The user *name*. Raises InvalidInputError if there is none, or the worker may not become it."""
    if name is None:
        return None
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise InvalidInputError(f"{setting} = {name!r}: there is no such user on this host. Name another") from None
    if os.geteuid() not in (0, user.pw_uid):
        raise InvalidInputError(f"{setting} = {name!r}: only root may become another user. Run the worker as root")
    return RunAs(user.pw_uid, user.pw_gid)


@asynccontextmanager
async def running_worker(settings: Settings, address: str | None = None) -> AsyncIterator[Tidemill]:
    """A worker as long as the block, and the way in to what it works on."""
    mask_names(settings.masked_names)
    backends()  # one that cannot be made is told now, and not by the first task
    for notice in notices_of_environment(of_environment(os.environ), settings.model_fields_set.__contains__):
        log.warning(notice)
    overrides = {"target_host": address} if address is not None else {}
    lost_after = lost_after_of(settings)
    reports_every = lost_after / REPORTS if lost_after is not None else None
    async with telemetry(settings.metrics_address, reports_every) as seen:
        client = await connect(plugin_for(settings), runtime=seen.runtime, **overrides)
        async with (
            make_worker(client, settings, seen.interceptors),
            health_server(settings.health_address, client.service_client.check_health),
        ):
            yield Tidemill(client, settings.task_queue)


async def until_stopped(max_wait: timedelta | None = None) -> None:
    """Waits for SIGINT or SIGTERM, no longer than *max_wait*."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), max_wait.total_seconds() if max_wait is not None else None)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError):
                loop.remove_signal_handler(number)
