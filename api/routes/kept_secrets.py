"""What routes of variables and of connections share: the store that they change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic

from fastapi import Request

from ...activities.attempts.key_values import KeyValues
from ...activities.kept import Kept, Kind
from ...activities.secrets import STORED, place_of, store
from ...activities.store import Store
from ...model.errors import InvalidInputError
from ...worker.service.connection import NotFoundError
from ..auth.tokens import Role
from ..errors import ConflictError
from .bulk import B, BulkAnswer, BulkBody, BulkOutcomes, Create, Delete, Update


class KeptKind(Generic[B]):
    """Variables or connections, as they are kept in the store. Its methods wait for a database: for threads alone.

    *files* are where tasks keep variables if there is no key.
    """

    def __init__(
        self, kind: Kind, name_of: Callable[[B], str], kept: Callable[[B, Kept | None, list[str] | None], Kept]
    ) -> None:
        """*kept*: what is to be kept of a body, of what was kept before, and of the fields that are meant."""
        self.kind = kind
        self.name_of = name_of
        self._kept = kept

    def _store(self, key_values: KeyValues) -> Store:
        return store(key_values) or Store(None, key_values)

    def create(self, key_values: KeyValues, body: B) -> None:
        """Raises ConflictError where the name is taken, also by what goes before the store, and where no key is."""
        name, there = self.name_of(body), self._store(key_values)
        place = place_of(self.kind, name, key_values)
        if place is None and there.encrypted is None:
            raise ConflictError(
                f"{self.kind}s come from the environment, a secrets file or a backend of the workers. "
                "To keep them here, set TIDEMILL_FERNET_KEY (`tidemill variables new-key` makes one) for the web and "
                "for workers: docs/security.md"
            )
        if place is not None or not there.add(self.kind, self._kept(body, None, None)):
            raise ConflictError(f"{self.kind} {name!r} is taken: it is in {place or STORED}. Change that one")

    def change(self, key_values: KeyValues, body: B, fields: list[str] | None) -> None:
        """Raises NotFoundError where nothing is kept by that name."""
        name, there = self.name_of(body), self._store(key_values)
        before = there.find(self.kind, name)
        if before is None or not there.change(self.kind, self._kept(body, before, fields)):
            raise self._missing(key_values, name)

    def remove(self, key_values: KeyValues, name: str) -> None:
        """Raises NotFoundError where nothing is kept by that name."""
        if not self._store(key_values).remove(self.kind, name):
            raise self._missing(key_values, name)

    def _missing(self, key_values: KeyValues, name: str) -> NotFoundError:
        place = place_of(self.kind, name, key_values)
        suffix = f": it is in {place}, and is changed there" if place is not None else ""
        return NotFoundError(f"the store has no {self.kind} {name!r}{suffix}")

    def change_many(self, key_values: KeyValues, body: BulkBody[B]) -> BulkAnswer:
        """Carry out every action, each as a whole or not at all; a value that cannot be kept is told by itself."""
        outcomes = BulkOutcomes()
        for action in body.actions:
            for entity, name in outcomes.planned(action, self.name_of, {*self._store(key_values).names(self.kind)}):
                try:
                    self._change_one(key_values, action, entity, name)
                except (ConflictError, InvalidInputError) as error:
                    outcomes.failed(action.action, error)
                else:
                    outcomes.done(action.action, name)
        return outcomes.answer

    def _change_one(
        self, key_values: KeyValues, action: Create[B] | Update[B] | Delete[B], entity: Any, name: str
    ) -> None:
        match action:
            case Delete():
                self.remove(key_values, name)
            case Update():
                self.change(key_values, entity, action.update_mask)
            case Create() if self._store(key_values).find(self.kind, name) is not None:
                self.change(key_values, entity, None)
            case Create():
                self.create(key_values, entity)


def may_see(request: Request) -> bool:
    """Return whether who asks sees values that are no secrets."""
    return bool(request.state.person.role >= Role.OPERATOR)


async def in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return what *work* comes to, which waits for a database."""
    return await asyncio.to_thread(work, *arguments)
