"""What never changes, in a database: runs that have ended, and versions of DAGs. Each is asked of Temporal once, and
known after Temporal has forgotten it.

What they hold is written as Temporal's own histories are: with the client's codec, so encrypted where those are.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import (
    Column,
    ColumnElement,
    Engine,
    Float,
    Index,
    LargeBinary,
    MetaData,
    RowMapping,
    String,
    Table,
    create_engine,
    delete,
    event,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError
from temporalio.api.common.v1 import Payload
from temporalio.client import Client

from ...model.errors import InvalidInputError
from ...model.run.row import RunRow
from ...model.run.state import DagRunState
from ...model.run.views import RunDetails, RunView
from ...model.spec.dag import DagSpec
from ...worker.listing import UNREADABLE

T = TypeVar("T")
EXACTLY = timedelta(milliseconds=1)
ROUGHLY = timedelta(seconds=5)
"""A run and its DAG each note the run's end, so far apart at most."""
WAIT_FOR_LOCK = 30
"""How long one server waits for another that writes to the same SQLite file, in seconds."""
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
    Column("spec", LargeBinary, nullable=False),
)
SWEPT = Table(
    "tidemill_archive",
    TABLES,
    Column("namespace", String, primary_key=True),
    Column("swept_until", Float, nullable=False),
)
Index("tidemill_ended_runs_by_date", RUNS.c.namespace, RUNS.c.run_after)
Index("tidemill_ended_runs_by_dag", RUNS.c.namespace, RUNS.c.dag_id, RUNS.c.run_after)


@dataclass(frozen=True)
class EndedRun:
    """All that is known of a run that has ended."""

    view: RunView
    details: RunDetails
    state: DagRunState


class EndedRuns:
    """Those of the client's namespace. *most*: so many are kept, the newest; None: all of them."""

    def __init__(self, url: str, client: Client, most: int | None = None) -> None:
        self._engine = _engine(url)
        self._converter = client.data_converter
        self._namespace = client.namespace
        self._most = most
        self._kept = 0

    async def begin(self) -> None:
        """Makes the tables where there are none. Raises InvalidInputError for a database that cannot be used."""
        try:
            await asyncio.to_thread(TABLES.create_all, self._engine)
        except SQLAlchemyError as error:
            raise InvalidInputError(
                f"the database {self._engine.url.render_as_string()} cannot be used: {_first_line(error)}. "
                "Correct TIDEMILL_ARCHIVE"
            ) from None

    def close(self) -> None:
        self._engine.dispose()

    async def keep(self, ended: EndedRun) -> None:
        """Keeps a run, in the place of what was known of an earlier end of it."""
        await self.keep_all([ended])

    async def keep_all(self, ended: Sequence[EndedRun]) -> None:
        """The same of many."""
        for spec in {(one.state.spec.dag_id, one.state.spec.version): one.state.spec for one in ended}.values():
            await self.keep_spec(spec)
        values = [await self._values(one) for one in ended if one.view.ended_at is not None]
        await asyncio.to_thread(self._keep, values)

    async def _values(self, ended: EndedRun) -> dict[str, Any]:
        view, details, state = ended.view, ended.details, ended.state
        row = RunRow(
            dag_id=details.run.dag_id,
            counts=_counts(details),
            **view.model_dump(exclude={"queued_at", "reason", "partition_key", "run_type"}),
            run_type=str(view.run_type),
        )
        return {
            "namespace": self._namespace,
            "dag_id": details.run.dag_id,
            "run_id": view.run_id,
            "run_after": view.run_after.timestamp(),
            "ended_at": (view.ended_at or view.run_after).timestamp(),
            "version": state.spec.version,
            "view": await self._written(view),
            "row": await self._written(row),
            "details": await self._written(details),
            "state": await self._written(state.model_dump(mode="json", exclude={"spec"})),
        }

    def _keep(self, runs: Sequence[dict[str, Any]]) -> None:
        for values in runs:
            sooner = RUNS.c.ended_at <= values["ended_at"] + ROUGHLY.total_seconds()
            mine = self._of(RUNS, values["dag_id"]) & (RUNS.c.run_id == values["run_id"])
            # Another server may just have written the same, or a later end.
            with suppress(IntegrityError), self._engine.begin() as there:
                there.execute(delete(RUNS).where(mine & sooner))
                there.execute(insert(RUNS).values(**values))
            self._kept += 1
            if self._most is not None and self._kept % 100 == 1:
                self._forget_oldest(self._most)

    def _forget_oldest(self, most: int) -> None:
        with self._engine.begin() as there:
            mine = RUNS.c.namespace == self._namespace
            edge = select(RUNS.c.run_after).where(mine).order_by(RUNS.c.run_after.desc()).offset(most).limit(1)
            if (found := there.execute(edge).scalar()) is not None:
                there.execute(delete(RUNS).where(mine & (RUNS.c.run_after <= found)))

    def _of(self, table: Table, dag_id: str) -> ColumnElement[bool]:
        return (table.c.namespace == self._namespace) & (table.c.dag_id == dag_id)

    async def has(self, dag_id: str, run_id: str, ended_at: datetime) -> bool:
        """Whether that end of the run is kept."""
        found = await self._row(dag_id, run_id, RUNS.c.ended_at)
        return found is not None and _is_near(found["ended_at"], ended_at, EXACTLY)

    async def find(
        self, dag_id: str, run_id: str, ended_at: datetime | None = None, within: timedelta = EXACTLY
    ) -> EndedRun | None:
        """The run, as it was when it ended at *ended_at*, else at last; None if that is not here.

        None, too, if it was written by a later release or with another codec.
        """
        found = await self._row(dag_id, run_id, *RUNS.c)
        if found is None or (ended_at is not None and not _is_near(found["ended_at"], ended_at, within)):
            return None
        try:
            spec = await self.spec(dag_id, found["version"])
            state = await self._read(found["state"], dict)
            return EndedRun(
                view=await self._read(found["view"], RunView),
                details=await self._read(found["details"], RunDetails),
                state=DagRunState.model_validate({**state, "spec": spec}),
            )
        except UNREADABLE:
            return None

    async def keep_spec(self, spec: DagSpec) -> None:
        """Keeps a version of a DAG."""
        mine = self._of(SPECS, spec.dag_id) & (SPECS.c.version == spec.version)
        if await self._ask(select(SPECS.c.version).where(mine)):
            return
        values = {"namespace": self._namespace, "dag_id": spec.dag_id, "version": spec.version}
        with suppress(IntegrityError):  # another server has just written the same
            await asyncio.to_thread(self._change, insert(SPECS).values(**values, spec=await self._written(spec)))

    async def spec(self, dag_id: str, version: str) -> DagSpec | None:
        """A version of a DAG that one of the runs has had."""
        wanted = self._of(SPECS, dag_id) & (SPECS.c.version == version)
        found = await self._ask(select(SPECS.c.spec).where(wanted))
        return await self._read(found[0]["spec"], DagSpec) if found else None

    async def runs(self, dag_id: str, most: int) -> list[RunView]:
        """The runs of a DAG, the newest first, *most* at most."""
        wanted = select(RUNS.c.view).where(self._of(RUNS, dag_id)).order_by(RUNS.c.run_after.desc()).limit(most)
        return await self._all([found["view"] for found in await self._ask(wanted)], RunView)

    async def rows(self, most: int) -> list[RunRow]:
        """The runs of all DAGs, the newest first."""
        mine = RUNS.c.namespace == self._namespace
        wanted = select(RUNS.c.row).where(mine).order_by(RUNS.c.run_after.desc()).limit(most)
        return await self._all([found["row"] for found in await self._ask(wanted)], RunRow)

    async def forget(self, dag_id: str, run_id: str | None = None) -> None:
        """Forgets a run, or all of a DAG."""
        mine = self._of(RUNS, dag_id)
        where = mine if run_id is None else mine & (RUNS.c.run_id == run_id)
        await asyncio.to_thread(self._change, delete(RUNS).where(where))
        if run_id is None:
            await asyncio.to_thread(self._change, delete(SPECS).where(self._of(SPECS, dag_id)))

    async def swept_until(self) -> datetime | None:
        """Until which moment all ends of runs are kept; None: from no time."""
        found = await self._ask(select(SWEPT.c.swept_until).where(SWEPT.c.namespace == self._namespace))
        return datetime.fromtimestamp(found[0]["swept_until"], UTC) if found else None

    async def set_swept_until(self, until: datetime) -> None:
        """Notes that all ends until then are kept."""
        values = {"namespace": self._namespace, "swept_until": until.timestamp()}
        try:
            await asyncio.to_thread(self._change, insert(SWEPT).values(**values))
        except IntegrityError:
            mine = SWEPT.c.namespace == self._namespace
            await asyncio.to_thread(self._change, update(SWEPT).where(mine).values(**values))

    async def count(self) -> int:
        """How many runs are kept."""
        found = await self._ask(select(func.count().label("n")).where(RUNS.c.namespace == self._namespace))
        return int(found[0]["n"])

    def _change(self, statement: Any) -> None:
        with self._engine.begin() as there:
            there.execute(statement)

    async def _row(self, dag_id: str, run_id: str, *columns: Any) -> RowMapping | None:
        wanted = self._of(RUNS, dag_id) & (RUNS.c.run_id == run_id)
        found = await self._ask(select(*columns).where(wanted))
        return found[0] if found else None

    async def _ask(self, statement: Any) -> Sequence[RowMapping]:
        def ask() -> Sequence[RowMapping]:
            with self._engine.connect() as there:
                return there.execute(statement).mappings().all()

        return await asyncio.to_thread(ask)

    async def _written(self, value: Any) -> bytes:
        [payload] = await self._converter.encode([value])
        return payload.SerializeToString()

    async def _read(self, written: bytes, kind: type[T]) -> T:
        [value] = await self._converter.decode([Payload.FromString(written)], [kind])
        found: T = value
        return found

    async def _all(self, written: list[bytes], kind: type[T]) -> list[T]:
        found = []
        for one in written:
            await asyncio.sleep(0)  # reading needs no waiting: others on this loop have their turn
            with suppress(*UNREADABLE):
                found.append(await self._read(one, kind))
        return found


def _engine(url: str) -> Engine:
    """Raises InvalidInputError for a URL that is none, and where a driver is not installed."""
    try:
        found = make_url(url)
        if found.drivername in ("postgresql", "postgres"):
            found = found.set(drivername="postgresql+psycopg")
        made = create_engine(found, pool_pre_ping=True)
    except (ArgumentError, ValueError):
        raise InvalidInputError(
            "TIDEMILL_ARCHIVE is no URL of a database. Write sqlite:////folder/runs.db or postgresql://user@host/name"
        ) from None
    except ImportError as error:
        raise InvalidInputError(
            f"TIDEMILL_ARCHIVE needs what is not installed ({error}). For PostgreSQL: "
            "pip install 'tidemill[postgresql]'"
        ) from None
    if made.dialect.name == "sqlite":
        event.listen(made, "connect", _for_many_servers)
    return made


def _for_many_servers(connection: Any, _: Any) -> None:
    """Readers do not wait for a writer, nor writers for long."""
    connection.execute(f"PRAGMA busy_timeout = {WAIT_FOR_LOCK * 1000}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _is_near(kept: float, asked: datetime, within: timedelta) -> bool:
    return abs(kept - asked.timestamp()) <= within.total_seconds()


def _counts(details: RunDetails) -> dict[str, int]:
    found: dict[str, int] = {}
    for task in details.tasks:
        found[str(task.state)] = found.get(str(task.state), 0) + 1
    return found


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
