"""Checks what tidemill stands on, and says the remedy for what is missing."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version

from temporalio.api.workflowservice.v1 import GetClusterInfoRequest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from ...activities.spark.command import spark_home
from ...activities.worker_context import find_java
from ...model.base import Model
from ...model.dag.row import DagRow
from ...model.errors import InvalidInputError
from ...model.run.planner import listing
from ..client import Tidemill
from ..service.connection import connect
from ..supervision.failing import FailingWorkflow, failing_workflows
from .dev import temporal_binary

LEAST_PYTHON = (3, 11)
LEAST_JAVA = 17
LISTING_TIMEOUT = 60.0
LATE = timedelta(minutes=5)
"""A run that is later than this is not just on its way; clocks differ, and lists lag."""
TESTED_RELEASES, TESTED_STORE = ("1.29", "1.30", "1.31", "1.32"), "sqlite"
"""Of the Temporal services that the tests run on: the last by `make test`, the others by `make temporal`."""


class Check(Model):
    """One thing looked at: what was found, and what to do if it is not enough, or not what the tests run on."""

    name: str
    ok: bool
    found: str
    remedy: str | None = None
    is_optional: bool = False
    """Whether an installation without it is in order: what needs it says so."""


def check_python() -> Check:
    version = sys.version.split()[0]
    ok = sys.version_info[:2] >= LEAST_PYTHON
    return Check(name="Python", ok=ok, found=version, remedy=None if ok else "Install Python 3.11 or later")


def check_java() -> Check:
    remedy = "Install a Java 17 runtime or a later one (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME"
    java = find_java()
    if java is None:
        return Check(name="Java", ok=False, found="not found", remedy=f"For Spark: {remedy}", is_optional=True)
    output = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    number = int(version[2] or 0) if version and version[1] == "1" else int(version[1]) if version else 0
    ok = number >= LEAST_JAVA
    return Check(name="Java", ok=ok, found=f"{number} at {java}", remedy=None if ok else remedy)


def check_spark() -> Check:
    try:
        home = spark_home()
    except ApplicationError as error:
        return Check(name="Spark", ok=False, found="not found", remedy=error.message, is_optional=True)
    ok = (home / "bin" / "spark-submit").is_file()
    remedy = None if ok else "Unset SPARK_HOME to use pip's pyspark, or point it at a Spark installation"
    return Check(name="Spark", ok=ok, found=f"{_version_of_spark()} at {home}", remedy=remedy)


def _version_of_spark() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return "not pip's"


def check_server(*, needed: bool) -> Check:
    """The embedded server of `tidemill dev`; *needed* where no other service answers."""
    try:
        return Check(name="Temporal CLI", ok=True, found=temporal_binary())
    except FileNotFoundError as error:
        return Check(name="Temporal CLI", ok=not needed, found="not found", remedy=str(error) if needed else None)


async def check_temporal() -> Check:
    remedy = "Start one with `tidemill dev`, or set TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and TEMPORAL_API_KEY"
    try:
        client = await connect()
        await client.count_workflows()
    except (ConnectionError, InvalidInputError, RPCError) as error:
        return Check(name="Temporal service", ok=False, found=str(error), remedy=remedy)
    release, store = await _kind_of(client)
    address = client.service_client.config.target_host
    return temporal_check(f"{address}, namespace {client.namespace}", release, store)


async def _kind_of(client: Client) -> tuple[str, str]:
    """The service's release, and what it stores on; nothing where it keeps that to itself."""
    try:
        service = await client.workflow_service.get_cluster_info(GetClusterInfoRequest())
    except RPCError:
        return "", ""
    return service.server_version, service.persistence_store


def temporal_check(found: str, release: str, store: str) -> Check:
    """A service that answers, and whether the tests run on its like."""
    kind = f"release {release or 'unknown'} on {store or 'a store that it does not name'}"
    tested = release.rpartition(".")[0] in TESTED_RELEASES and store == TESTED_STORE
    note = (
        f"tidemill's tests run on releases {TESTED_RELEASES[0]} to {TESTED_RELEASES[-1]} on {TESTED_STORE} only: try "
        "your DAGs here before you rely on it (docs/temporal.md)"
    )
    return Check(name="Temporal service", ok=True, found=f"{found}, {kind}", remedy=None if tested else note)


def runs_check(rows: Sequence[DagRow], now: datetime) -> Check:
    """Whether each DAG that may make runs has made those that were due a while before *now*."""
    active = [(row.makes_run_at, row.dag_id) for row in rows if row.status == "active"]
    late = sorted(dag_id for at, dag_id in active if at is not None and at < now - LATE)
    if not late:
        return Check(name="Runs", ok=True, found=f"{len(rows)} DAGs, none is late")
    remedy = (
        "Ask one why: tidemill dags explain DAG_ID. Nobody polls: tidemill health. After code was rolled back, or the "
        "service restored from a copy: tidemill doctor --repair"
    )
    found = f"{len(late)} of {len(rows)} DAGs should have made a run by now: {listing(late)}"
    return Check(name="Runs", ok=False, found=found, remedy=remedy)


def workflows_check(failing: Sequence[FailingWorkflow]) -> Check:
    """Whether workers can carry out the code of each workflow; *failing* are those that they cannot."""
    if not failing:
        return Check(name="Workflows", ok=True, found="no workflow task fails")
    remedy = (
        "The worker's log has the error. Start workers of the release that these go on with; after that: tidemill "
        "doctor --repair, else they go on within ten minutes"
    )
    found = f"the code of {len(failing)} workflows fails: {listing([each.workflow_id for each in failing])}"
    return Check(name="Workflows", ok=False, found=found, remedy=remedy)


async def check_runs() -> list[Check]:
    """Both of the namespace; nothing where there is no way to it."""
    try:
        async with asyncio.timeout(LISTING_TIMEOUT):
            tidemill = await Tidemill.connect()
            rows, _ = await tidemill.dags.list()
            failing = await failing_workflows(tidemill.client)
    except TimeoutError:
        problem = f"the DAGs could not be listed within {LISTING_TIMEOUT:g} s"
        return [Check(name="Runs", ok=False, found=problem, remedy="Look whether workers poll: tidemill health")]
    except InvalidInputError as error:
        return [Check(name="Settings", ok=False, found="cannot be used", remedy=str(error))]
    except (ConnectionError, RPCError, RuntimeError):
        return []
    return [runs_check(rows, datetime.now(UTC)), workflows_check(failing)]


async def all_checks() -> list[Check]:
    service = await check_temporal()
    found = [check_python(), check_java(), check_spark(), check_server(needed=not service.ok), service]
    return [*found, *(await check_runs() if service.ok else [])]
