"""What the activities of one worker share: where its files are, and how Spark is found."""

import os
import shutil
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..model.attempts import TaskAttempt
from ..model.dag import DagSource
from ..model.task_instances import Failure
from ..model.tasks import SparkOptions
from .bundles.snapshots import Snapshots
from .dag_import import archive_of
from .driver_memory import MemoryBudget, budget_of_host
from .fork_servers import CodePlace, ForkServers
from .supervision import task_failed
from .xcom_store import XComStore

MOST_SPARK_TASKS = 32


@dataclass(frozen=True)
class Workplace:
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
    spark_slots: int | None = None
    """How many Spark tasks this worker takes at a time; 0: none; None: as many drivers as fit into the memory."""

    xcom_url: str | None = None
    """Where large results are kept; None: below `home`."""

    @cached_property
    def results(self) -> XComStore:
        return XComStore(self.xcom_url or (self.home / "xcom").as_uri())

    @cached_property
    def memory(self) -> MemoryBudget:
        return MemoryBudget(self.spark_memory or budget_of_host())

    @property
    def most_spark_tasks(self) -> int:
        if self.spark_slots is not None:
            return self.spark_slots
        return max(1, min(MOST_SPARK_TASKS, self.memory.megabytes // SparkOptions().driver_megabytes))

    @cached_property
    def servers(self) -> ForkServers:
        return ForkServers(self.home)

    @cached_property
    def snapshots(self) -> Snapshots:
        return Snapshots(f"{self.results.url.rstrip('/')}/_code", self.home / "snapshots")

    def code_of(self, attempt: TaskAttempt) -> CodePlace:
        """The DAG file that *attempt*'s DAG was read from, as it was then. Fails the task if this host lacks it."""
        source = attempt.source
        if source is None:
            raise task_failed(
                Failure(
                    error_type="InvalidInputError",
                    message=f"DAG {attempt.run.dag_id!r} was not registered from a file, so its Python functions "
                    "are not known. Register the file that defines it: tidemill dags register PATH",
                )
            )
        live = (Path(source.root),) if source.root is not None else ()
        kept = self._kept(source)
        if kept is not None and source.name is not None:
            return CodePlace(kept / source.name, (kept, *live), is_kept=True)
        path = Path(source.path)
        if not (archive_of(path) or path).is_file():
            raise task_failed(
                Failure(
                    error_type="FileNotFoundError",
                    message=f"{path} is not on this worker's host. "
                    "Mount the DAG folder at the same path on every worker",
                )
            )
        return CodePlace(path, live)

    def file_of(self, attempt: TaskAttempt, name: str) -> Path:
        """The file that the DAG calls *name*: as it was kept with the DAG's version, else as it is now."""
        if attempt.source is not None and attempt.source.name is not None:
            kept = self._kept(attempt.source)
            if kept is not None and (found := kept / Path(attempt.source.name).parent / name).is_file():
                return found
        return self.directory(attempt) / name

    def _kept(self, source: DagSource) -> Path | None:
        if source.snapshot is None:
            return None
        try:
            return self.snapshots.lay_out(source.snapshot)
        except FileNotFoundError:
            told = self.snapshots.missing(f"version {source.snapshot} of {source.path}")
            raise task_failed(Failure(error_type="FileNotFoundError", message=told)) from None

    def directory(self, attempt: TaskAttempt) -> Path:
        """Where relative paths of *attempt* are looked up: beside its DAG file, or its kept copy where that is all."""
        source = attempt.source
        if source is not None and (live := folder_of(Path(source.path))).is_dir():
            return live
        if source is not None and source.name is not None and (kept := self._kept(source)) is not None:
            return folder_of(kept / source.name)
        return self.dags_folder or Path.cwd()


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
