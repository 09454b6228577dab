"""What never changes, in a database: runs that have ended, and versions of DAGs. Each is asked of Temporal once, and
known after Temporal has forgotten it.

What they hold is written as Temporal's own histories are: with the client's codec, so encrypted where those are.
"""

import asyncio
import logging
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, RowMapping, Table, delete, func, insert, select, update
from temporalio.api.common.v1 import Payload
from temporalio.client import Client

from ...model.run.row import RunRow, short_reason
from ...model.run.state import DagRunState
from ...model.run.views import RunDetails, RunView
from ...model.spec.dag import DagSpec
from .database import DELETED, RUNS, SPECS, SWEPT, Database

T = TypeVar("T")
log = logging.getLogger(__name__)
EXACTLY = timedelta(milliseconds=1)
ROUGHLY = timedelta(seconds=5)
"""A run and its DAG each note the run's end, so far apart at most."""
VERSIONS_KEPT = timedelta(days=30)
"""How long versions stay in a database that does not keep all."""
TIDIED_EVERY = 100
OF_VIEW = {"state", "started_at", "ended_at", "workflow_id"}
"""What the line of a run has from its view: how it has ended."""
NUL = "\0"
"""What is in no id, and no database takes."""


@dataclass(frozen=True)
class EndedRun:
    """All that is known of a run that has ended."""

    view: RunView
    details: RunDetails
    state: DagRunState


class RunArchive:
    """Those of the client's namespace. *max_runs*: so many are kept, the newest; None: all, as an archive does."""

    def __init__(self, url: str, client: Client, max_runs: int | None = None) -> None:
        self._database = Database(url, disposable=max_runs is not None)
        self._converter = client.data_converter
        self._namespace = client.namespace
        self._max_runs = max_runs
        self._kept = 0
        self._versions: set[tuple[str, str]] = set()
        """Those that this server knows to be kept."""

    async def begin(self) -> None:
        """Makes the tables where there are none. Raises InvalidInputError for an archive that cannot be used."""
        await self._database.begin()

    def close(self) -> None:
        """Ends the connections to the database."""
        self._database.close()

    @property
    def problem(self) -> str | None:
        """Why the database does not answer; None: it did when it was asked last."""
        return self._database.problem

    async def keep(self, ended: EndedRun) -> None:
        """Keeps a run, in the place of what was known of an earlier end of it; unless it has been deleted since."""
        await self.keep_spec(ended.state.spec)
        values = await self._values(ended)
        await self._database.change(lambda there: self._keep(there, values))
        self._kept += 1
        if self._max_runs is not None and self._kept % TIDIED_EVERY == 1:
            await self._tidy(self._max_runs)

    async def _values(self, ended: EndedRun) -> dict[str, Any]:
        view, details, state = ended.view, ended.details, ended.state
        row = RunRow(
            dag_id=details.run.dag_id,
            counts=Counter(str(task.state) for task in details.tasks),
            **details.run.shown,
            **view.model_dump(include=OF_VIEW),
            reason=short_reason(view.reason) if view.reason is not None else None,
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

    def _keep(self, there: Connection, values: dict[str, Any]) -> None:
        dag_id, run_id, ended_at = values["dag_id"], values["run_id"], values["ended_at"]
        deleted = self._of(DELETED, dag_id) & DELETED.c.run_id.in_([run_id, ""]) & (DELETED.c.deleted_at >= ended_at)
        if there.execute(select(DELETED.c.run_id).where(deleted)).first() is not None:
            return
        mine = self._of(RUNS, dag_id) & (RUNS.c.run_id == run_id)
        known = there.execute(select(RUNS.c.ended_at).where(mine)).scalar()
        if known is None:
            there.execute(insert(RUNS).values(**values))
        elif known <= ended_at + ROUGHLY.total_seconds():
            there.execute(update(RUNS).where(mine).values(**values))

    async def _tidy(self, max_runs: int) -> None:
        """Forgets the oldest runs beyond *max_runs*, and versions that were kept long ago."""
        mine, old = RUNS.c.namespace == self._namespace, time.time() - VERSIONS_KEPT.total_seconds()

        def tidy(there: Connection) -> None:
            edge = select(RUNS.c.run_after).where(mine).order_by(RUNS.c.run_after.desc()).offset(max_runs).limit(1)
            if (found := there.execute(edge).scalar()) is not None:
                there.execute(delete(RUNS).where(mine & (RUNS.c.run_after <= found)))
            there.execute(delete(SPECS).where((SPECS.c.namespace == self._namespace) & (SPECS.c.kept_at < old)))

        await self._database.change(tidy)
        self._versions.clear()

    async def has(self, dag_id: str, run_id: str, ended_at: datetime) -> bool:
        """Whether that end of the run is kept."""
        found = await self._row(dag_id, run_id, RUNS.c.ended_at)
        return found is not None and _is_near(found["ended_at"], ended_at, EXACTLY)

    async def find(
        self, dag_id: str, run_id: str, ended_at: datetime | None = None, tolerance: timedelta = EXACTLY
    ) -> EndedRun | None:
        """The run, as it was when it ended at *ended_at*, else at last; None if that is not here.

        None, too, if it was written by a later release or with another codec.
        """
        found = await self._row(dag_id, run_id, *RUNS.c)
        if found is None or (ended_at is not None and not _is_near(found["ended_at"], ended_at, tolerance)):
            return None
        spec = await self.spec(dag_id, found["version"])
        state = await self._read(found["state"], dict)
        view = await self._read(found["view"], RunView)
        details = await self._read(found["details"], RunDetails)
        if spec is None or state is None or view is None or details is None:
            return None
        return EndedRun(view, details, DagRunState.model_validate({**state, "spec": spec}))

    async def keep_spec(self, spec: DagSpec) -> None:
        """Keeps a version of a DAG, in the place of one that cannot be read."""
        key = (spec.dag_id, spec.version)
        if key in self._versions or await self.spec(*key) is not None:
            self._versions.add(key)
            return
        values = {"namespace": self._namespace, "dag_id": spec.dag_id, "version": spec.version}
        written = {"kept_at": time.time(), "spec": await self._written(spec)}
        mine = self._of(SPECS, spec.dag_id) & (SPECS.c.version == spec.version)

        def keep(there: Connection) -> None:
            if not there.execute(update(SPECS).where(mine).values(**written)).rowcount:
                there.execute(insert(SPECS).values(**values, **written))

        await self._database.change(keep)

    async def spec(self, dag_id: str, version: str) -> DagSpec | None:
        """A version of a DAG; None if it is not here, or cannot be read."""
        wanted = self._of(SPECS, dag_id) & (SPECS.c.version == version)
        found = await self._database.read(select(SPECS.c.spec).where(wanted))
        return await self._read(found[0]["spec"], DagSpec) if found else None

    async def runs(self, dag_id: str, limit: int) -> list[RunView]:
        """The runs of a DAG, the newest first, at most *limit*."""
        wanted = select(RUNS.c.view).where(self._of(RUNS, dag_id)).order_by(RUNS.c.run_after.desc()).limit(limit)
        return await self._all([found["view"] for found in await self._database.read(wanted)], RunView)

    async def rows(self, limit: int) -> list[RunRow]:
        """The runs of all DAGs, the newest first."""
        mine = RUNS.c.namespace == self._namespace
        wanted = select(RUNS.c.row).where(mine).order_by(RUNS.c.run_after.desc()).limit(limit)
        return await self._all([found["row"] for found in await self._database.read(wanted)], RunRow)

    async def forget(self, dag_id: str, run_id: str) -> None:
        """Drops what is kept of a run, since it goes on."""
        mine = self._of(RUNS, dag_id) & (RUNS.c.run_id == run_id)
        await self._database.change(lambda there: there.execute(delete(RUNS).where(mine)))

    async def delete(self, dag_id: str, run_id: str = "") -> int:
        """Deletes a run, or all of a DAG, for good: what ended before now is not kept again. How many there were."""
        if NUL in dag_id + run_id:
            return 0
        mine = self._of(RUNS, dag_id)
        if run_id:
            mine &= RUNS.c.run_id == run_id
        marked = self._of(DELETED, dag_id) & (DELETED.c.run_id == run_id)
        values = {"namespace": self._namespace, "dag_id": dag_id, "run_id": run_id, "deleted_at": time.time()}

        def work(there: Connection) -> int:
            there.execute(delete(DELETED).where(marked))
            there.execute(insert(DELETED).values(**values))
            return there.execute(delete(RUNS).where(mine)).rowcount

        return int(await self._database.change(work) or 0)

    async def swept_until(self) -> datetime | None:
        """Until which moment all ends of runs are kept; None: from no time."""
        found = await self._database.read(select(SWEPT.c.swept_until).where(SWEPT.c.namespace == self._namespace))
        return datetime.fromtimestamp(found[0]["swept_until"], UTC) if found else None

    async def set_swept_until(self, until: datetime) -> None:
        """Notes that all ends until then are kept."""
        values = {"namespace": self._namespace, "swept_until": until.timestamp()}

        def work(there: Connection) -> None:
            mine = SWEPT.c.namespace == self._namespace
            if not there.execute(update(SWEPT).where(mine).values(**values)).rowcount:
                there.execute(insert(SWEPT).values(**values))

        await self._database.change(work)

    async def count(self) -> int:
        """How many runs are kept."""
        wanted = select(func.count().label("n")).where(RUNS.c.namespace == self._namespace)
        return int((await self._database.read(wanted))[0]["n"])

    def _of(self, table: Table, dag_id: str) -> ColumnElement[bool]:
        return (table.c.namespace == self._namespace) & (table.c.dag_id == dag_id)

    async def _row(self, dag_id: str, run_id: str, *columns: Any) -> RowMapping | None:
        if NUL in dag_id + run_id:
            return None
        wanted = self._of(RUNS, dag_id) & (RUNS.c.run_id == run_id)
        found = await self._database.read(select(*columns).where(wanted))
        return found[0] if found else None

    async def _written(self, value: Any) -> bytes:
        [payload] = await self._converter.encode([value])
        return payload.SerializeToString()

    async def _read(self, written: bytes, kind: type[T]) -> T | None:
        """What was written; None if it cannot be read here: codecs raise what they like."""
        try:
            [value] = await self._converter.decode([Payload.FromString(written)], [kind])
        except Exception as error:
            log.warning("what is kept of a %s cannot be read here: %s", kind.__name__, type(error).__name__)
            return None
        found: T = value
        return found

    async def _all(self, written: list[bytes], kind: type[T]) -> list[T]:
        found = []
        for one in written:
            await asyncio.sleep(0)  # reading needs no waiting: others on this loop have their turn
            if (value := await self._read(one, kind)) is not None:
                found.append(value)
        return found


def _is_near(kept: float, expected: datetime, tolerance: timedelta) -> bool:
    return abs(kept - expected.timestamp()) <= tolerance.total_seconds()
