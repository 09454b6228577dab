"""Refusals whose status is another than that of bad input in general, as in Airflow."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from ..model.dag.records import DateTakenError
from ..model.errors import InvalidInputError, explain


class BadRequestError(InvalidInputError):
    """What Airflow refuses with 400: a request that is well formed, and asks for what cannot be."""


@contextmanager
def bad_requests() -> Iterator[None]:
    """Turns bad input into a BadRequestError; who holds what is asked for stays a conflict (409)."""
    try:
        yield
    except DateTakenError:
        raise
    except InvalidInputError as error:
        raise BadRequestError(str(error)) from None
    except ValidationError as error:
        raise BadRequestError(str(explain(error, "the request"))) from None
