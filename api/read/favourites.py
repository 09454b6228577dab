"""Which DAGs people have marked as their favourites, kept beside their notes."""

from __future__ import annotations

from sqlalchemy import Column, Connection, MetaData, String, Table, delete, insert, select

from .database import Database

TABLES = MetaData()
FAVOURITES = Table(
    "tidemill_favourites",
    TABLES,
    Column("namespace", String, primary_key=True),
    Column("person", String, primary_key=True),
    Column("dag_id", String, primary_key=True),
)


class Favourites:
    """Those of a namespace. *url* is of a database."""

    def __init__(self, url: str, namespace: str) -> None:
        self._database = Database(url, disposable=False, tables=TABLES)
        self._namespace = namespace

    async def begin(self) -> None:
        """Makes the table where there is none. Raises InvalidInputError for a database that cannot be used."""
        await self._database.begin()

    def close(self) -> None:
        """Ends the connections to the database."""
        self._database.close()

    async def of(self, person: str) -> frozenset[str]:
        """Returns the dag_ids that *person* has marked. Raises ArchiveError."""
        mine = (FAVOURITES.c.namespace == self._namespace) & (FAVOURITES.c.person == person)
        return frozenset(
            str(row["dag_id"]) for row in await self._database.read(select(FAVOURITES.c.dag_id).where(mine))
        )

    async def mark(self, person: str, dag_id: str, *, is_favourite: bool) -> None:
        """Marks the DAG, or no longer. Raises ArchiveError."""
        place = {"namespace": self._namespace, "person": person, "dag_id": dag_id}

        def work(there: Connection) -> None:
            there.execute(delete(FAVOURITES).filter_by(**place))
            if is_favourite:
                there.execute(insert(FAVOURITES).values(place))

        await self._database.change(work)

    async def forget(self, dag_id: str) -> None:
        """Removes what everybody has marked of a DAG that is deleted. Raises ArchiveError."""
        mine = (FAVOURITES.c.namespace == self._namespace) & (FAVOURITES.c.dag_id == dag_id)
        await self._database.change(lambda there: there.execute(delete(FAVOURITES).where(mine)))
