"""Databases of an installation: what is kept beside Temporal, in SQLite files or in PostgreSQL."""

from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from ..model.errors import InvalidInputError

WAIT_FOR_LOCK = 30
"""How long one server waits for another that writes to the same SQLite file, in seconds."""
OF_POSTGRESQL = {"connect_timeout": 10, "tcp_user_timeout": 30_000, "options": "-c statement_timeout=30000"}
"""A host that is lost answers nothing: seconds for a connection, milliseconds for what is sent and for a statement."""


def engine(url: str, setting: str) -> Engine:
    """Return the engine of the database at *url*, which *setting* names. Raises InvalidInputError where it is none."""
    try:
        found = make_url(url)
        if found.drivername in ("postgresql", "postgres"):
            found = found.set(drivername="postgresql+psycopg")
        bounds = OF_POSTGRESQL if found.get_backend_name() == "postgresql" else {}
        made = create_engine(found, pool_pre_ping=True, hide_parameters=True, connect_args=bounds)
    except (ArgumentError, ValueError):
        raise InvalidInputError(
            f"{setting} is no URL of a database. Write sqlite:////folder/runs.db or postgresql://user@host/name"
        ) from None
    except ImportError as error:
        raise InvalidInputError(
            f"{setting} needs what is not installed ({error}). For PostgreSQL: pip install 'tidemill[postgresql]'"
        ) from None
    if made.dialect.name == "sqlite":
        event.listen(made, "connect", _for_many_servers)
    return made


def _for_many_servers(connection: Any, _: Any) -> None:
    """Readers do not wait for a writer, nor writers for long."""
    connection.execute(f"PRAGMA busy_timeout = {WAIT_FOR_LOCK * 1000}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
