"""What the activities of one worker share: where its files are, and how Spark is found."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..model.run.attempts import TaskAttempt
from ..model.run.task_instances import Failure
from ..model.spec.dag import DagSource
from ..model.spec.tasks import SparkOptions
from ..model.web_pages import task_page
from .attempts.beside_log import all_beside, is_plain_file
from .attempts.folder import AttemptFolder
from .attempts.key_values import KeyValues
from .attempts.leftovers import Leftovers
from .attempts.log import LIMIT_BYTES, AttemptLog, LogFormat
from .attempts.log_store import LogStore
from .attempts.run_lookup import LookupProxy
from .attempts.supervision import task_failure
from .attempts.under_way import UnderWay
from .attempts.xcom_store import XComStore
from .audit import AUDIT_FILE, AuditLog, Refusals
from .bundles.listing import Tree
from .bundles.snapshots import SnapshotDamagedError, Snapshots
from .masking import Masker
from .processes.call import MEMORY_MEGABYTES, ForkSettings
from .processes.children import Children
from .processes.forks import CodePlace, Forks
from .processes.users import RunAs
from .spark.driver_room import SUBMISSION_MEGABYTES, DriverRoom, drivers_of_host, memory_of_host
from .work.airflow_detection import INSTALL
from .work.dag_code import archive_of

MAX_SPARK_TASKS, FEWEST_SPARK_TASKS = 64, 8
CLIENT_MEGABYTES = 256
"""What a client of a Spark Connect server takes of its host."""
MAX_FOLDERS = 64
SETTLED_AFTER_SECONDS = 2.0
"""A file that was written within it may be written again without its times telling so."""


@dataclass(frozen=True)
class WorkerContext:
    """One worker's surroundings. `home` holds logs and attempts; a shared one lets workers share results."""

    home: Path
    dags_folder: Path | None = None
    spark_master: str | None = None
    """Where Spark tasks that name no master run; None: Spark's own default, else local[*]."""
    spark_conf: dict[str, str] = field(default_factory=dict)
    spark_connections: dict[str, SparkOptions] = field(default_factory=dict)
    """Where Spark tasks may run, by the conn_id that they give; `default` is for those that give none."""
    spark_memory: int | None = None
    """What drivers below this worker may take together, in MiB; None: most of the host's memory."""
    spark_drivers: int | None = None
    """How many drivers run below this worker at a time; None: two for each core."""
    spark_slots: int | None = None
    """How many Spark tasks this worker takes at a time, of those that have their driver below it, and of the others.

    0: none; None: as many as its memory and its cores have room for.
    """

    keeps_failed_output: bool = False
    """Whether what a failed try has written for `output=` stays, for somebody to look at."""

    xcom_url: str | None = None
    """Where large results are kept; None: below `home`."""
    log_url: str | None = None
    """Where logs go beside `home`; None: nowhere."""
    base_url: str | None = None
    """Where people reach the web; None: nothing links to it."""
    names_runs_by_run_after: bool = False
    """Whether runs of interval timetables are named by their run_after, as in Airflow 3.0 to 3.3."""
    log_format: LogFormat = LogFormat.TEXT
    log_limit: int = LIMIT_BYTES
    """The most bytes that the log of one attempt may have."""
    environment: tuple[str, ...] = ()
    """Patterns of environment variables that tasks get beside the usual ones."""
    dags_are_paused_at_creation: bool = False
    """Whether new DAGs are paused that do not say."""
    preload: tuple[str, ...] = ()
    """Modules that are imported once, for all tasks."""
    fork_memory: int = MEMORY_MEGABYTES
    """What may be held by processes that have imported a DAG file and wait for its next task, in MiB."""
    airflow_python: str | None = None
    """The interpreter that DAG files are imported by that import Airflow; None: this one, if it has Airflow."""
    airflow_pythons: Mapping[str, str] = field(default_factory=dict)
    """Those of bundles that have one of their own."""
    run_as: RunAs | None = None
    """The user that tasks run as; None: the worker's own."""
    run_as_users: Mapping[str, RunAs] = field(default_factory=dict)
    """Those of bundles that have one of their own."""
    network: Path | None = None
    """The network namespace that tasks are put into; None: the worker's own."""
    masked_names: tuple[str, ...] = ()
    """What has one of these in its name is a secret, beside what usually is."""
    heartbeat: timedelta = timedelta(milliseconds=500)
    """How often at most an activity's heartbeat is sent to Temporal: what a cancelled task hears of it by."""
    drain: timedelta = timedelta()
    """How long tasks may go on when the worker is asked to stop."""
    facts: LookupProxy = field(default_factory=LookupProxy)
    """Where tasks can ask about their DAG and about runs."""
    grace: timedelta = timedelta(seconds=5)
    """How long a task has between SIGTERM and SIGKILL."""

    @cached_property
    def results(self) -> XComStore:
        return XComStore(self.xcom_url or (self.home / "xcom").as_uri())

    @cached_property
    def key_values(self) -> KeyValues:
        return KeyValues.beside(self.results.url)

    @cached_property
    def refusals(self) -> Refusals:
        """What DAG files and tasks were refused here."""
        return Refusals(AuditLog(self.home / AUDIT_FILE))

    def refused_of(self, attempt: TaskAttempt) -> Callable[[str, str], None]:
        """Keeps what *attempt* is refused: an operation, and why."""
        return lambda operation, reason: self.refusals.add_of(attempt, f"task.{operation}", reason)

    @cached_property
    def submission_rooms(self) -> dict[str, DriverRoom]:
        return {}

    @cached_property
    def driver_room(self) -> DriverRoom:
        return DriverRoom(self.spark_memory or memory_of_host(), self.spark_drivers or drivers_of_host())

    def submission_room(self, master: str) -> DriverRoom:
        """What is left for spark-submit where it hands an application over to *master*, and waits for no driver.

        Those of a cluster that does not answer, which they ask for long, hold up no other cluster's.
        """
        room = self.driver_room
        max_submissions = max(1, min(room.drivers, room.megabytes // SUBMISSION_MEGABYTES))
        made = DriverRoom(max_submissions * SUBMISSION_MEGABYTES, max_submissions, "a submission")
        return self.submission_rooms.setdefault(master, made)

    @property
    def max_spark_tasks(self) -> int:
        """How many at a time whose driver is elsewhere: clients of Connect servers, and submissions."""
        if self.spark_slots is not None:
            return self.spark_slots
        megabytes = self.driver_room.megabytes
        # Drivers may have all of that, and 80 % of the host: with a fourth more for clients it is full.
        usual = max(FEWEST_SPARK_TASKS, megabytes // 4 // CLIENT_MEGABYTES)
        return max(1, min(MAX_SPARK_TASKS, usual, megabytes // CLIENT_MEGABYTES))

    @property
    def max_drivers(self) -> int:
        """How many at a time whose driver is below this worker: those that it has no room for wait for any worker.

        By default as many of Spark's default size as have memory.
        """
        room = self.driver_room
        limit = min(self.max_spark_tasks, room.drivers)
        if self.spark_slots is None and self.spark_drivers is None:
            limit = min(limit, room.megabytes // SparkOptions().driver_megabytes)
        return max(1, limit)

    def user_of(self, bundle: str | None) -> RunAs | None:
        """Who the code of *bundle* runs as; None: the worker's own user."""
        return self.run_as_users.get(bundle or "", self.run_as)

    def attempt_folder(self, attempt: TaskAttempt, part: str = "") -> AttemptFolder:
        """The folder of *attempt*; *part* names a part of its work that has results of its own."""
        bundle = attempt.source.bundle if attempt.source is not None else None
        return AttemptFolder.of(self.home, attempt, part, self.user_of(bundle))

    @cached_property
    def _children(self) -> Children:
        settings = ForkSettings(
            log=self.home / "logs" / "dag_files.log",
            memory_megabytes=self.fork_memory,
            preload=self.preload,
            environment=self.environment,
            network=self.network,
            masked_names=self.masked_names,
            fixed_environment={} if self.base_url is None else {"AIRFLOW__API__BASE_URL": self.base_url},
        )
        return Children(settings, self.home)

    def forks(self, bundle: str | None = None) -> Forks:
        """Those for code of *bundle*."""
        return self._children.of(self.user_of(bundle))

    def airflow_forks_of(self, bundle: str | None) -> Forks | None:
        """Those that have imported Airflow, for files of *bundle*; None where there is none."""
        python = self.airflow_pythons.get(bundle or "", self.airflow_python)
        python = python or (sys.executable if has_airflow() else None)
        return None if python is None else self._children.of(self.user_of(bundle), python)

    def forks_of(self, source: DagSource | None) -> Forks:
        """Whose children import the file *source*. Fails the task where it needs Airflow, and there is none."""
        if source is None or not source.imports_airflow:
            return self.forks(source.bundle if source is not None else None)
        if (forks := self.airflow_forks_of(source.bundle)) is None:
            raise task_failure(Failure(error_type="ModuleNotFoundError", message=INSTALL))
        return forks

    def close(self) -> None:
        """Ends every child."""
        self._children.close()

    @cached_property
    def under_way(self) -> UnderWay:
        return UnderWay(self.home)

    @cached_property
    def leftovers(self) -> Leftovers:
        return Leftovers(self.home)

    @cached_property
    def log_store(self) -> LogStore | None:
        return LogStore(self.log_url, self.home / "logs") if self.log_url is not None else None

    @contextmanager
    def log_at(self, path: Path, masker: Masker) -> Iterator[AttemptLog]:
        """The log at *path*, open as long as the block; afterwards it is complete wherever logs go."""
        store = self.log_store
        log = AttemptLog(path, masker, form=self.log_format, limit=self.log_limit)
        try:
            with store.following(path) if store is not None else nullcontext():
                yield log
        finally:
            log.close()
            self.upload_beside(path, with_log=True)

    def upload_beside(self, path: Path, *, with_log: bool) -> None:
        """Has what is beside the log at *path* where logs go, as it is now; *with_log*: the log, too."""
        if (store := self.log_store) is not None:
            for one in [*([path] if with_log and is_plain_file(path) else []), *all_beside(path)]:
                store.upload(one)

    def log_url_of(self, attempt: TaskAttempt) -> str:
        """Where people find the log of *attempt*: its page, else the file."""
        if self.base_url is not None:
            of = (attempt.run.dag_id, attempt.run.run_id, attempt.task.task_id)
            return task_page(self.base_url, *of, attempt.map_index, attempt.try_number)
        name = f"logs/{attempt.path}.log"
        return f"{self.log_url.rstrip('/')}/{attempt.path}.log" if self.log_url else (self.home / name).as_uri()

    @cached_property
    def snapshots(self) -> Snapshots:
        return Snapshots(f"{self.results.url.rstrip('/')}/_code", self.home / "snapshots")

    def code_of(self, attempt: TaskAttempt) -> CodePlace:
        """The DAG file that *attempt*'s DAG was read from, as it was then. Fails the task if this host lacks it."""
        source = attempt.source
        if source is None:
            raise task_failure(
                Failure(
                    error_type="InvalidInputError",
                    message=f"DAG {attempt.run.dag_id!r} was not registered from a file, so its Python functions "
                    "are not known. Register the file that defines it: tidemill dags register PATH",
                )
            )
        live = (Path(source.root),) if source.root is not None else ()
        kept = self._kept(source)
        if kept is not None and source.name is not None:
            return CodePlace(kept / source.name, (kept, *live))
        path = Path(source.path)
        if not (archive_of(path) or path).is_file():
            raise task_failure(
                Failure(
                    error_type="FileNotFoundError",
                    message=f"{path} is not on this worker's host. "
                    "Mount the DAG folder at the same path on every worker",
                )
            )
        return CodePlace(path, live, lambda: digest_of(path, live))

    def file_of(self, attempt: TaskAttempt, name: str) -> Path:
        """The file that the DAG calls *name*: as it was kept with the DAG's version, else as it is now."""
        places = [folder / name for folder in self.template_folders(attempt)]
        return next((place for place in places if place.is_file()), self.directory(attempt) / name)

    def template_folders(self, attempt: TaskAttempt) -> list[Path]:
        """Where template files and SQL are looked for: what was kept with the DAG's version, then what is there now."""
        source, bases = attempt.source, [self.directory(attempt)]
        if source is not None and source.name is not None and (kept := self._kept(source)) is not None:
            bases.insert(0, folder_of(kept / source.name))
        return [*bases, *(base / path for path in attempt.template_searchpath for base in bases)]

    def _kept(self, source: DagSource) -> Path | None:
        if source.snapshot is None:
            return None
        try:
            return self.snapshots.lay_out(source.snapshot)
        except FileNotFoundError:
            message = self.snapshots.missing(f"version {source.snapshot} of {source.path}")
            raise task_failure(Failure(error_type="FileNotFoundError", message=message)) from None
        except SnapshotDamagedError as error:
            message = f"{error}. Register the DAG again, so that its code is kept anew"
            raise task_failure(Failure(error_type="SnapshotDamaged", message=message, retryable=False)) from None

    def directory(self, attempt: TaskAttempt) -> Path:
        """Where relative paths of *attempt* are looked up: beside its DAG file, or its kept copy where that is all."""
        source = attempt.source
        if source is not None and (live := folder_of(Path(source.path))).is_dir():
            return live
        if source is not None and source.name is not None and (kept := self._kept(source)) is not None:
            return folder_of(kept / source.name)
        return self.dags_folder or Path.cwd()


def has_airflow() -> bool:
    """Whether Airflow is installed beside tidemill; a folder that is only called so does not count."""
    found = find_spec("airflow")
    return found is not None and found.origin is not None


_known_of: dict[Path, dict[str, Any]] = {}
"""What was found of files, by their folder: each call of a task asks for it."""


def digest_of(path: Path, roots: tuple[Path, ...]) -> str:
    """Of the DAG file at *path* and of the local modules that it imports, as they are now."""
    whole = archive_of(path) or path
    root = next((root for root in roots if whole.is_relative_to(root)), whole.parent)
    tree = Tree(root, _known_of.get(root))
    digest = tree.digest(path.relative_to(root).as_posix())
    if root not in _known_of and len(_known_of) >= MAX_FOLDERS:
        _known_of.clear()
    _known_of[root] = {**_known_of.get(root, {}), **tree.settled_facts(SETTLED_AFTER_SECONDS)}
    return digest


def folder_of(path: Path) -> Path:
    """The folder of a DAG file, or of the archive that it is in."""
    return (archive_of(path) or path).parent


def find_java() -> Path | None:
    """The `java` that Spark will use: of JAVA_HOME, else of PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and (java := Path(home, "bin", "java")).is_file():
        return java
    found = shutil.which("java")
    return Path(found).resolve() if found else None
