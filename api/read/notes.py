"""What people write down about runs and tasks, kept beside the runs that have ended: Temporal knows nothing of it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any, TypeVar

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    and_,
    bindparam,
    delete,
    insert,
    select,
    tuple_,
)
from temporalio.api.common.v1 import Payload
from temporalio.client import Client

from ...model.errors import InvalidInputError
from ...model.run.instance_keys import UNMAPPED
from .database import ArchiveError, Database
from .favourites import Favourites

Noted = TypeVar("Noted")
Key = tuple[str, str, str, int]
"""Of a note: dag_id, run_id, task_id, map_index; of a run's the last two are "" and -1."""
TABLES = MetaData()
NOTES = Table(
    "tidemill_notes",
    TABLES,
    Column("namespace", String, primary_key=True),
    Column("dag_id", String, primary_key=True),
    Column("run_id", String, primary_key=True),
    Column("task_id", String, primary_key=True),
    Column("map_index", Integer, primary_key=True),
    Column("note", LargeBinary, nullable=False),
)
NAMES = ("namespace", "dag_id", "run_id", "task_id", "map_index")
MAX_NAMED = 500
log = logging.getLogger(__name__)


class Notes:
    """Those of the client's namespace, written with its codec. *url* is of a database."""

    def __init__(self, url: str, client: Client) -> None:
        self._database = Database(url, disposable=False, tables=TABLES)
        self._converter = client.data_converter
        self._namespace = client.namespace

    async def begin(self) -> None:
        """Makes the table where there is none. Raises InvalidInputError for a database that cannot be used."""
        await self._database.begin()

    def close(self) -> None:
        """Ends the connections to the database."""
        self._database.close()

    async def of(self, runs: Collection[tuple[str, str]], task_ids: Collection[str]) -> dict[Key, str]:
        """Returns the notes of *task_ids* of *runs*, each a dag_id and a run_id; of the runs' own for "".

        Raises ArchiveError.
        """
        if not runs:
            return {}
        mine = (NOTES.c.namespace == self._namespace) & tuple_(NOTES.c.dag_id, NOTES.c.run_id).in_(sorted(runs))
        if len(task_ids) <= MAX_NAMED:
            mine &= NOTES.c.task_id.in_(sorted(task_ids))
        found = {}
        for row in await self._database.read(select(NOTES).where(mine)):
            text = await self._read(row["note"])
            if text is not None:
                found[row["dag_id"], row["run_id"], row["task_id"], row["map_index"]] = text
        return found

    async def runs_with(self, dag_id: str) -> frozenset[str]:
        """Returns the run_ids of a DAG's runs that have a note of their own. Raises ArchiveError."""
        mine = (NOTES.c.namespace == self._namespace) & (NOTES.c.dag_id == dag_id) & (NOTES.c.task_id == "")
        return frozenset(str(row["run_id"]) for row in await self._database.read(select(NOTES.c.run_id).where(mine)))

    async def tasks_with(self, dag_id: str, run_id: str) -> frozenset[str]:
        """Returns the task_ids of a run that have a note at any of their instances. Raises ArchiveError."""
        mine = (NOTES.c.namespace == self._namespace) & (NOTES.c.dag_id == dag_id) & (NOTES.c.run_id == run_id)
        found = await self._database.read(select(NOTES.c.task_id).where(mine & (NOTES.c.task_id != "")))
        return frozenset(str(row["task_id"]) for row in found)

    async def write(self, keys: Collection[Key], note: str | None) -> None:
        """Keeps *note* for each of *keys*, in the place of an earlier one; nothing, or "", removes that.

        Raises ArchiveError.
        """
        if not keys:
            return
        [payload] = await self._converter.encode([note])
        written = payload.SerializeToString()
        places = [dict(zip(NAMES, (self._namespace, *key), strict=True)) for key in keys]

        def work(there: Connection) -> None:
            mine = and_(*(NOTES.c[name] == bindparam(f"of_{name}") for name in NAMES))
            there.execute(
                delete(NOTES).where(mine), [{f"of_{name}": value for name, value in p.items()} for p in places]
            )
            if note:
                there.execute(insert(NOTES), [{**place, "note": written} for place in places])

        await self._database.change(work)

    async def forget(self, dag_id: str, run_id: str = "") -> None:
        """Removes the notes of a run that is deleted, or of all runs of the DAG. Raises ArchiveError."""
        mine = (NOTES.c.namespace == self._namespace) & (NOTES.c.dag_id == dag_id)
        if run_id:
            mine &= NOTES.c.run_id == run_id
        await self._database.change(lambda there: there.execute(delete(NOTES).where(mine)))

    async def _read(self, written: bytes) -> str | None:
        try:
            [text] = await self._converter.decode([Payload.FromString(written)], [str])
        except Exception as error:  # codecs raise what they like
            log.warning("a note cannot be read here: %s", type(error).__name__)
            return None
        return str(text)


async def noted(notes: Notes, answers: Sequence[Noted]) -> list[Noted]:
    """Returns *answers* about runs or tasks with the notes of people; as they are where nobody can read those."""
    try:
        keys = [key_of(one) for one in answers]
        known = await notes.of({key[:2] for key in keys}, {key[2] for key in keys})
    except ArchiveError as error:
        log.warning("notes are not shown: %s", error)
        return [*answers]
    return [_with(one, known.get(key_of(one))) for one in answers]


def key_of(answer: Any) -> Key:
    """The key of the note of a run, or of a task."""
    return answer.dag_id, answer.dag_run_id, getattr(answer, "task_id", ""), getattr(answer, "map_index", UNMAPPED)


def _with(answer: Any, note: str | None) -> Any:
    return answer if note is None else answer.model_copy(update={"note": note})


async def begin_notes(notes: Notes | Favourites, *, in_archive: bool) -> None:
    """Begins *notes*, or what else people write down.

    Raises InvalidInputError for an archive that cannot be used; a file of its own is done without.
    """
    try:
        await notes.begin()
    except InvalidInputError as error:
        if in_archive:
            raise
        log.warning("notes are not kept: %s", error)
