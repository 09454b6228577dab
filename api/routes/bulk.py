"""Changes of many things in one request (Airflow: BulkBody), each action as a whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Annotated, Any, Generic, Literal, TypeVar

from fastapi import HTTPException
from pydantic import Field

from ..errors import status_of
from ..responses.common import Answer, Body

B = TypeVar("B", bound=Body)


class Create(Body, Generic[B]):
    """Airflow: BulkCreateAction."""

    action: Literal["create"]
    entities: list[B]
    action_on_existence: Literal["fail", "skip", "overwrite"] = "fail"


class Update(Body, Generic[B]):
    """Airflow: BulkUpdateAction."""

    action: Literal["update"]
    entities: list[B]
    update_mask: list[str] | None = None
    action_on_non_existence: Literal["fail", "skip"] = "fail"


class Delete(Body, Generic[B]):
    """Airflow: BulkDeleteAction."""

    action: Literal["delete"]
    entities: list[str | B]
    action_on_non_existence: Literal["fail", "skip"] = "fail"


class BulkBody(Body, Generic[B]):
    """Airflow: BulkBody."""

    actions: list[Annotated[Create[B] | Update[B] | Delete[B], Field(discriminator="action")]]


class BulkOutcome(Answer):
    """Airflow: BulkActionResponse."""

    success: list[str] = []
    errors: list[dict[str, Any]] = []


class BulkAnswer(Answer):
    """Airflow: BulkResponse."""

    create: BulkOutcome | None = None
    update: BulkOutcome | None = None
    delete: BulkOutcome | None = None


class BulkOutcomes:
    """Collects what comes of the actions of a request."""

    def __init__(self) -> None:
        self._outcomes: dict[str, BulkOutcome] = {}

    def planned(
        self,
        action: Create[B] | Update[B] | Delete[B],
        name_of: Callable[[B], str],
        there: Collection[str],
    ) -> Iterator[tuple[Any, str]]:
        """Yield what is to be done for *action*, where *there* are things of these names; nothing where it fails."""
        outcome = self._outcomes.setdefault(action.action, BulkOutcome())
        named = [(entity, entity if isinstance(entity, str) else name_of(entity)) for entity in action.entities]
        is_new = isinstance(action, Create)
        otherwise = action.action_on_existence if isinstance(action, Create) else action.action_on_non_existence
        wrong = [name for _, name in named if (name in there) == is_new]
        if wrong and otherwise == "fail":
            problem = "there are already" if is_new else "there are none called"
            error = {"error": f"{problem} {', '.join(wrong)}", "status_code": 409 if is_new else 404}
            outcome.errors.append(error)
            return
        yield from (one for one in named if one[1] not in wrong or otherwise == "overwrite")

    def looked_at(self, action: str) -> None:
        """Take note that there was such an action, whatever comes of it."""
        self._outcomes.setdefault(action, BulkOutcome())

    def done(self, action: str, name: str) -> None:
        """Take note that it was done for what is called so."""
        self._outcomes.setdefault(action, BulkOutcome()).success.append(name)

    def failed(self, action: str, error: Exception) -> None:
        """Take note that it could not be done for one of them."""
        detail = error.detail if isinstance(error, HTTPException) else str(error)
        self.refused(action, str(detail), status_of(error))

    def refused(self, action: str, message: str, status: int) -> None:
        """Take note of what is wrong with the request, or with a part of it."""
        outcome = self._outcomes.setdefault(action, BulkOutcome())
        outcome.errors.append({"error": message, "status_code": status})

    @property
    def answer(self) -> BulkAnswer:
        """What is answered."""
        return BulkAnswer(**self._outcomes)
