"""Variables and connections that people and tasks keep, encrypted, in a database.

Off unless `TIDEMILL_FERNET_KEY` is set (Airflow: `[core] fernet_key`). The database is that of the archive, or the one
that `TIDEMILL_SECRETS_DATABASE` names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from sqlalchemy import Column, Connection, Engine, LargeBinary, MetaData, String, Table, delete, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from ..model.errors import InvalidInputError, SecretStoreError
from .database import engine
from .kept import ARCHIVE, DATABASE, KEY, LONGEST_NAME, Kept, Kind

LARGEST = 2**20
TABLES = MetaData()
KEPT = Table(
    "tidemill_secrets",
    TABLES,
    Column("kind", String(20), primary_key=True),
    Column("name", String(LONGEST_NAME), primary_key=True),
    Column("text", LargeBinary, nullable=False),
    Column("description", String, nullable=True),
)


class SecretStore:
    """The store that this process's settings name."""

    def __init__(self) -> None:
        """Raises InvalidInputError for a key or a database that cannot be used."""
        self._fernet = MultiFernet([_key(text) for text in os.environ[KEY].split(",")])
        setting = DATABASE if os.environ.get(DATABASE) else ARCHIVE
        url = os.environ.get(setting)
        if not url:
            raise InvalidInputError(f"{KEY} is set, and no database to keep secrets in. Set {DATABASE}, or {ARCHIVE}")
        self._made = engine(url, setting)

    @cached_property
    def _engine(self) -> Engine:
        made = self._made
        if made.dialect.name == "sqlite" and made.url.database:
            Path(made.url.database).touch(mode=0o600)
        TABLES.create_all(made)
        return made

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as there:
                yield there
        except IntegrityError:
            raise
        except (SQLAlchemyError, OSError) as error:
            reason = str(error).split("\n", 1)[0]
            raise SecretStoreError(f"the store of variables and connections does not answer: {reason}") from None

    def find(self, kind: Kind, name: str) -> Kept | None:
        """Return what is kept as *name*; None if there is nothing. Raises SecretStoreError."""
        with self._transaction() as there:
            row = there.execute(select(KEPT).where(_is(kind, name))).mappings().first()
        return None if row is None else self._read(row)

    def names(self, kind: Kind) -> list[str]:
        """Return the names of all that are kept. Raises SecretStoreError."""
        with self._transaction() as there:
            return [*there.execute(select(KEPT.c.name).where(KEPT.c.kind == kind).order_by(KEPT.c.name)).scalars()]

    def add(self, kind: Kind, kept: Kept) -> bool:
        """Keep it; return False where the name is taken. Raises InvalidInputError or SecretStoreError."""
        values = {"kind": kind, "name": _checked(kind, kept.name), **self._written(kept)}
        try:
            with self._transaction() as there:
                there.execute(insert(KEPT).values(values))
        except IntegrityError:
            return False
        return True

    def change(self, kind: Kind, kept: Kept) -> bool:
        """Keep it in the place of what has its name; return False where there is none. Raises as `add` does."""
        with self._transaction() as there:
            return there.execute(update(KEPT).where(_is(kind, kept.name)).values(self._written(kept))).rowcount > 0

    def remove(self, kind: Kind, name: str) -> bool:
        """Remove it; return False where there is none. Raises SecretStoreError."""
        with self._transaction() as there:
            return there.execute(delete(KEPT).where(_is(kind, name))).rowcount > 0

    def _written(self, kept: Kept) -> dict[str, Any]:
        text = kept.text.encode()
        if len(text) > LARGEST:
            raise InvalidInputError(
                f"{kept.name!r} has {len(text):,} bytes, and may have {LARGEST:,}. Keep a path instead"
            )
        return {"text": self._fernet.encrypt(text), "description": kept.description}

    def _read(self, row: Any) -> Kept:
        try:
            text = self._fernet.decrypt(row["text"]).decode()
        except InvalidToken:
            message = f"{row['kind']} {row['name']!r} was kept with another key. Add that one to {KEY}, after a comma"
            raise SecretStoreError(message) from None
        return Kept(row["name"], text, row["description"])


def _is(kind: Kind, name: str) -> Any:
    return (KEPT.c.kind == kind) & (KEPT.c.name == name)


def _key(text: str) -> Fernet:
    try:
        return Fernet(text.strip())
    except ValueError:
        command = "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"
        raise InvalidInputError(f"{KEY} is no key: 32 bytes, URL-safe base64. Make one: {command}") from None


def _checked(kind: Kind, name: str) -> str:
    if not name.strip() or len(name) > LONGEST_NAME:
        raise InvalidInputError(f"the name of a {kind} has 1 to {LONGEST_NAME} characters, not {len(name)}")
    return name
