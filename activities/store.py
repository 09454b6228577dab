"""The one store of variables and connections: what people and tasks keep in it, both see, change and remove.

With a key it is a database, encrypted (`secret_store`). Without one, what tasks set as variables are files beside
results, as in an Airflow without a key; people see, change and remove those, and add none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..model.errors import InvalidInputError
from .attempts.key_values import VARIABLES
from .kept import NO_KEY, Kept, Kind

if TYPE_CHECKING:
    from .attempts.key_values import KeyValues
    from .secret_store import SecretStore


@dataclass(frozen=True)
class Store:
    """Where things are kept: `encrypted` with a key; without one, `key_values` has the variables that tasks set."""

    encrypted: SecretStore | None
    key_values: KeyValues | None

    def get_variable(self, key: str) -> str | None:
        """Return the text of a variable, as `secrets.Backend` says. Raises SecretStoreError."""
        found = self.find("variable", key)
        return None if found is None else found.text

    def get_connection(self, conn_id: str) -> str | None:
        """Return the text of a connection, as `secrets.Backend` says. Raises SecretStoreError."""
        found = self.find("connection", conn_id)
        return None if found is None else found.text

    def find(self, kind: Kind, name: str) -> Kept | None:
        """Return what is kept as *name*; None if there is nothing. Raises SecretStoreError, or OSError."""
        found = self.encrypted.find(kind, name) if self.encrypted is not None else None
        if found is None and kind == "variable" and self.key_values is not None:
            value = self.key_values.find(VARIABLES, name)
            return None if value is None else Kept(name, str(value.value), value.description)
        return found

    def is_encrypted(self, kind: Kind, name: str) -> bool:
        """Return whether what is kept as *name* is in the database. Raises SecretStoreError."""
        return self.encrypted is not None and self.encrypted.find(kind, name) is not None

    def names(self, kind: Kind) -> list[str]:
        """Return the names of all that are kept, in order. Raises SecretStoreError, or OSError."""
        found = {*self.encrypted.names(kind)} if self.encrypted is not None else set()
        if kind == "variable" and self.key_values is not None:
            found |= {*self.key_values.keys(VARIABLES)}
        return sorted(found)

    def add(self, kind: Kind, kept: Kept) -> bool:
        """Keep what a person adds; return False where the name is taken.

        Raises InvalidInputError where there is no key to encrypt it with, and SecretStoreError.
        """
        if self.find(kind, kept.name) is not None:
            return False
        if self.encrypted is None:
            raise InvalidInputError(f"{kind} {kept.name!r} cannot be kept: {NO_KEY}")
        return self.encrypted.add(kind, kept)

    def change(self, kind: Kind, kept: Kept) -> bool:
        """Keep it in the place of what has its name; return False where there is none. Raises as `put` does."""
        if self.find(kind, kept.name) is None:
            return False
        self.put(kind, kept)
        return True

    def put(self, kind: Kind, kept: Kept) -> None:
        """Keep it, whatever was kept by its name. Raises InvalidInputError, SecretStoreError, or OSError."""
        if self.encrypted is not None:
            if not self.encrypted.change(kind, kept):
                self.encrypted.add(kind, kept)
            self._remove_file(kind, kept.name)  # an installation without a key had kept it there
        elif kind == "variable" and self.key_values is not None:
            self.key_values.put(VARIABLES, kept.name, kept.text, description=kept.description)
        else:
            raise InvalidInputError(f"{kind} {kept.name!r} cannot be kept: {NO_KEY}")

    def remove(self, kind: Kind, name: str) -> bool:
        """Remove it; return False where there is none. Raises SecretStoreError, or OSError."""
        was_there = self.find(kind, name) is not None
        if self.encrypted is not None:
            self.encrypted.remove(kind, name)
        self._remove_file(kind, name)
        return was_there

    def _remove_file(self, kind: Kind, name: str) -> None:
        if kind == "variable" and self.key_values is not None:
            self.key_values.delete(VARIABLES, name)
