"""The database of what never changes: its tables, and what is done where it fails."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Float,
    Index,
    LargeBinary,
    MetaData,
    RowMapping,
    String,
    Table,
)
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from ...activities.database import engine
from ...model.errors import InvalidInputError

T = TypeVar("T")
log = logging.getLogger(__name__)
THREADS = 4
ANSWER_TIMEOUT = 5.0
"""So long a page waits for what is kept, in seconds."""
AGAIN_AFTER = 10.0
"""So long it is not asked again when it has failed."""
TABLES = MetaData()
RUNS = Table(
    "tidemill_ended_runs",
    TABLES,
    Column("namespace", String, primary_key=True),
    Column("dag_id", String, primary_key=True),
    Column("run_id", String, primary_key=True),
    Column("run_after", Float, nullable=False),
    Column("ended_at", Float, nullable=False),
    Column("version", String, nullable=False),
    Column("view", LargeBinary, nullable=False),
    Column("row", LargeBinary, nullable=False),
    Column("details", LargeBinary, nullable=False),
    Column("state", LargeBinary, nullable=False),
)
SPECS = Table(
    "tidemill_dag_versions",
    TABLES,
    Column("namespace", String, primary_key=True),
    Column("dag_id", String, primary_key=True),
    Column("version", String, primary_key=True),
    Column("kept_at", Float, nullable=False),
    Column("spec", LargeBinary, nullable=False),
)
DELETED = Table(
    "tidemill_deleted_runs",
    TABLES,
    Column("namespace", String, primary_key=True),
    Column("dag_id", String, primary_key=True),
    Column("run_id", String, primary_key=True),
    Column("deleted_at", Float, nullable=False),
)
"""So that a server that has asked for a run before it was deleted does not bring it back. "": all runs of the DAG."""
SWEPT = Table(
    "tidemill_archive",
    TABLES,
    Column("namespace", String, primary_key=True),
    Column("swept_until", Float, nullable=False),
)
Index("tidemill_ended_runs_by_date", RUNS.c.namespace, RUNS.c.run_after)
Index("tidemill_ended_runs_by_dag", RUNS.c.namespace, RUNS.c.dag_id, RUNS.c.run_after)


_patience: ContextVar[float | None] = ContextVar("patience", default=None)


@contextmanager
def patiently(seconds: float = 120.0) -> Iterator[None]:
    """Has what is asked within the block be asked in any case, and waited for so long: nobody looks at a page then."""
    token = _patience.set(seconds)
    try:
        yield
    finally:
        _patience.reset(token)


class ArchiveError(Exception):
    """The archive does not answer. The message says why."""


class Database:
    """A database. One that is disposable is passed over where it fails; an archive says so.

    One that hangs holds nobody up for longer than ANSWER_TIMEOUT, and is left alone for a while after it has failed.
    """

    def __init__(self, url: str, *, disposable: bool, tables: MetaData = TABLES) -> None:
        self._engine = engine(url, "TIDEMILL_ARCHIVE")
        self._tables = tables
        self._disposable = disposable
        self._file = _KeptFile(self._engine)
        self._threads = ThreadPoolExecutor(THREADS, "tidemill-archive")
        self._patient_threads = ThreadPoolExecutor(THREADS, "tidemill-archiver")  # no page waits behind these
        self.problem: str | None = None
        """Why it does not answer; None: it did when it was asked last."""
        self._again_at = 0.0

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """What *work* gives, in a thread of the database's own. Raises SQLAlchemyError, or TimeoutError."""
        patience = _patience.get()
        if patience is None and self.problem is not None and time.monotonic() < self._again_at:
            raise TimeoutError(self.problem)
        threads, seconds = (self._threads, ANSWER_TIMEOUT) if patience is None else (self._patient_threads, patience)
        try:
            future = asyncio.get_running_loop().run_in_executor(threads, self._on_its_file, work)
            found = await asyncio.wait_for(future, seconds)
        except TimeoutError:
            self._is_away(f"it has not answered within {seconds:g} s")
            raise TimeoutError(self.problem) from None
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            self._is_away(_first_line(error))
            raise
        self.problem = None
        return found

    def _on_its_file(self, work: Callable[[], T]) -> T:
        if self._file.is_another():
            log.warning("the file of %s was removed or replaced: it is begun anew", self._name)
            self._make_tables()
        return work()

    def _is_away(self, problem: str) -> None:
        self.problem, self._again_at = problem, time.monotonic() + AGAIN_AFTER

    async def begin(self) -> None:
        """Makes the tables where there are none. Raises InvalidInputError for an archive that cannot be used."""
        try:
            await asyncio.to_thread(self._make_tables)
        except SQLAlchemyError as error:
            reason = _first_line(error)
            if not self._disposable:
                raise InvalidInputError(
                    f"TIDEMILL_ARCHIVE: {self._name} cannot be used: {reason}. Correct it, or start it"
                ) from None
            log.warning("what never changes is not kept: %s", reason)

    def _make_tables(self) -> None:
        self._file.open()
        try:
            self._tables.create_all(self._engine)
        except SQLAlchemyError:  # once more, since another server may have made them at the same time
            self._tables.create_all(self._engine)

    def close(self) -> None:
        """Ends its connections."""
        for threads in (self._threads, self._patient_threads):
            threads.shutdown(wait=False, cancel_futures=True)
        self._engine.dispose()

    async def read(self, statement: Any) -> Sequence[RowMapping]:
        """The rows of a SELECT; none where a disposable database fails. Raises ArchiveError where an archive does."""

        def ask() -> Sequence[RowMapping]:
            with self._engine.connect() as there:
                return there.execute(statement).mappings().all()

        try:
            return await self._in_thread(ask)
        except (SQLAlchemyError, TimeoutError) as error:
            self._failed(error)
            return []

    async def change(self, work: Callable[[Connection], Any]) -> Any:
        """What *work* gives, in one transaction; None where a disposable database fails. Raises as `read` does."""

        def do() -> Any:
            with self._engine.begin() as there:
                return work(there)

        try:
            return await self._in_thread(do)
        except IntegrityError:  # another server has just written the same
            return None
        except (SQLAlchemyError, TimeoutError) as error:
            self._failed(error)
            return None

    def _failed(self, error: Exception) -> None:
        reason = _first_line(error)
        if not self._disposable:
            raise ArchiveError(f"the archive does not answer: {reason}") from error
        log.warning("what is kept of ended runs cannot be used: %s", reason)

    @property
    def _name(self) -> str:
        """What it is called without what may be secret in its URL."""
        url = self._engine.url
        return f"{url.drivername}://{f'{url.host}:{url.port}' if url.host else ''}/{url.database or ''}"


class _KeptFile:
    """The file of a SQLite database, which somebody may remove while connections go on with it, unseen."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        is_file = engine.dialect.name == "sqlite" and engine.url.database
        self._path = Path(str(engine.url.database)) if is_file else None
        self._opened: tuple[int, int] | None = None
        self._one_at_a_time = threading.Lock()

    def open(self) -> None:
        """Makes the file where there is none, ends connections to another, and has new ones made to this.

        Keeps results of all DAGs from tasks of another user. What SQLite puts beside the file is as the file.
        """
        with self._one_at_a_time:
            if self._path is None:
                return
            with suppress(OSError):  # one that cannot be written is told when the tables are made
                self._path.touch(mode=0o600, exist_ok=True)
            if (found := self._found()) != self._opened:
                self._engine.dispose()
                self._opened = found

    def is_another(self) -> bool:
        """Whether it is not the file that was opened any more."""
        return self._opened is not None and self._found() != self._opened

    def _found(self) -> tuple[int, int] | None:
        with suppress(OSError):
            if self._path is not None:
                found = self._path.stat()
                return found.st_dev, found.st_ino
        return None


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
