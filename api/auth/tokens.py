"""API tokens in a file: names, roles, tags, and digests. The tokens themselves are shown once and kept nowhere."""

import json
import os
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from ...model.errors import InvalidInputError

PREFIX = "tidemill_"
SECRET_BYTES = 32


class Role(IntEnum):
    """What somebody may do; each may do what those before it may."""

    VIEWER = 1
    """Looks at everything."""
    OPERATOR = 2
    """Triggers, pauses, clears, marks, answers, backfills."""
    ADMIN = 3
    """Deletes, and changes pools."""


@dataclass(frozen=True)
class Person:
    """Who is asking."""

    name: str
    role: Role
    tags: tuple[str, ...] = ()
    """The DAGs that they may change have one of these; none: all DAGs."""
    is_of_oidc: bool = False
    """Whether an OpenID provider knows them, and no file of tokens."""

    @property
    def known_as(self) -> str:
        """What tells them from all others: a provider may know somebody by the name of somebody's token."""
        return f"{self.name} by OpenID" if self.is_of_oidc else self.name


ANYBODY = Person("Anonymous", Role.ADMIN)
"""Who asks a server at which nobody logs in: it listens at loopback only."""


def user_name(person: Person) -> str | None:
    """Return what a run keeps of who has asked for it; None where nobody logs in."""
    return None if person is ANYBODY else person.name[:100]


class TokenFile:
    """The file of tokens. It is read anew when it has changed, so that a token can be taken back at any time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[object, dict[str, Person]] = (None, {})

    @property
    def people(self) -> Mapping[str, Person]:
        """By the digest of their token. Raises InvalidInputError for a file that cannot be read."""
        try:
            found = self._path.stat()
        except OSError as error:
            raise InvalidInputError(f"TIDEMILL_API_TOKENS = {self._path}: {error.strerror}") from None
        version = (found.st_mtime_ns, found.st_size, found.st_ino)
        if self._read[0] != version:
            self._read = (version, {known: person for person, known in read_tokens(self._path)})
        return self._read[1]

    def person(self, token: str) -> Person | None:
        """Whose token it is; None if it is nobody's."""
        wanted = digest_of(token)
        return next((person for known, person in self.people.items() if compare_digest(known, wanted)), None)

    def named(self, name: str) -> Person | None:
        """Whoever has that name still."""
        return next((person for person in self.people.values() if person.name == name), None)


def session_secret(path: Path) -> bytes:
    """A secret of the servers alone, made at first: in no backup of the tokens, and in a file of its own.

    Servers that share the file share sessions; where it cannot be written, they end with the server.
    """
    fresh = secrets.token_bytes(SECRET_BYTES)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mine, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(mine, "wb") as file:
                file.write(fresh)
            with suppress(FileExistsError):
                os.link(name, path)  # whole, or not at all: another server may do the same
        finally:
            Path(name).unlink()
        known = path.read_bytes()
    except OSError:
        return fresh
    if len(known) < SECRET_BYTES:
        raise InvalidInputError(f"{path} is no secret of sessions: it has {len(known)} bytes. Delete it")
    return known


def digest_of(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def read_tokens(path: Path) -> list[tuple[Person, str]]:
    """Everybody in the file, with the digest of their token. Raises InvalidInputError for what is none."""
    try:
        entries = json.loads(path.read_text())
        return [
            (Person(name, Role[one["role"].upper()], tuple(map(str, one.get("tags", ())))), str(one["sha256"]))
            for name, one in entries.items()
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInputError(
            f"{path} is no file of API tokens: {type(error).__name__}: {error}. "
            "Make one with `tidemill api-tokens create`"
        ) from None


def create_token(path: Path, name: str, role: Role, tags: Sequence[str] = ()) -> str:
    """Makes a token for *name*, for changes of DAGs with one of *tags*. Raises InvalidInputError for a taken name."""
    if not name.isprintable() or not name.strip():
        raise InvalidInputError(f"name = {name!r}: give one that can be printed")
    known = dict.fromkeys([person.name for person, _ in read_tokens(path)]) if path.exists() else {}
    if name in known:
        raise InvalidInputError(f"name = {name!r} has a token. Revoke that first, or choose another name")
    token = PREFIX + secrets.token_urlsafe(32)
    entries = json.loads(path.read_text()) if path.exists() else {}
    known_by: dict[str, object] = {"role": role.name.lower(), "sha256": digest_of(token)}
    if tags:
        known_by["tags"] = [*tags]
    _write(path, {**entries, name: known_by})
    return token


def revoke_token(path: Path, name: str) -> None:
    """Takes back the token of *name*. Raises InvalidInputError if there is none."""
    if not path.exists() or name not in {person.name for person, _ in read_tokens(path)}:
        raise InvalidInputError(f"name = {name!r} has no token")
    entries = json.loads(path.read_text())
    del entries[name]
    _write(path, entries)


def _write(path: Path, entries: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(entries, file, indent=1)
    fresh.replace(path)
