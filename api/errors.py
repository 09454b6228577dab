"""What goes wrong, as Airflow's API says it: a status, and the reason in `detail`. Never a stack trace."""

import logging

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from starlette.requests import ClientDisconnect
from temporalio.service import RPCError

from ..activities.calling import TOO_LATE
from ..model.dag.records import DateTakenError
from ..model.errors import InUseError, InvalidInputError, SecretStoreError, explain
from ..worker.service.connection import NotFoundError, NoWorkerError
from .read.database import ArchiveError
from .read.stores import StoreSilentError
from .refusals import BadRequestError

log = logging.getLogger(__name__)


class ConflictError(Exception):
    """What is asked goes against what there is at present."""


class TakenError(ConflictError):
    """What is to be made has a name that another has."""


class NotOfferedError(Exception):
    """An operation that Airflow has and tidemill has not. The message says what to use instead."""


REFUSALS = (
    NotFoundError,
    ConflictError,
    InvalidInputError,
    NoWorkerError,
    ArchiveError,
    HTTPException,
)
"""What keeps one of several things from being changed, and not the others."""


def status_of(error: Exception) -> int:
    """The status of an answer that says *error*, which is one of REFUSALS."""
    if isinstance(error, HTTPException):
        return error.status_code
    if isinstance(error, NotFoundError):
        return 404
    if isinstance(error, ConflictError | DateTakenError | InUseError):
        return 409
    if isinstance(error, BadRequestError):
        return 400
    return 503 if isinstance(error, NoWorkerError | ArchiveError) else 422


def answer(status: int, detail: str | dict[str, str]) -> JSONResponse:
    return JSONResponse({"detail": detail}, status_code=status, headers={"Cache-Control": "no-store"})


def _taken(error: Exception) -> dict[str, str]:
    """What Airflow answers where its database has refused a second one of a name."""
    return {
        "reason": "Unique constraint violation",
        "statement": "hidden",
        "orig_error": "hidden",
        "message": str(error),
    }


def add_error_handlers(app: FastAPI) -> None:
    """Has *app* answer what its operations raise."""

    @app.exception_handler(NotFoundError)
    @app.exception_handler(ConflictError)
    @app.exception_handler(InvalidInputError)
    @app.exception_handler(NoWorkerError)
    @app.exception_handler(ArchiveError)
    async def refused(_: Request, error: Exception) -> JSONResponse:
        return answer(status_of(error), _taken(error) if isinstance(error, TakenError | DateTakenError) else str(error))

    @app.exception_handler(UnicodeError)
    @app.exception_handler(PydanticSerializationError)
    async def no_text(_: Request, __: ValueError) -> JSONResponse:
        return answer(422, "a text cannot be written as UTF-8: it has half of a letter. Correct it")

    @app.exception_handler(ValidationError)
    async def not_valid(_: Request, error: ValidationError) -> JSONResponse:
        return answer(422, str(explain(error, "the request")))

    @app.exception_handler(NotOfferedError)
    async def not_offered(_: Request, error: NotOfferedError) -> JSONResponse:
        return answer(501, str(error))

    @app.exception_handler(TimeoutError)
    async def late(_: Request, __: TimeoutError) -> JSONResponse:
        return answer(504, "Temporal has not answered in time. Try again")

    @app.exception_handler(SecretStoreError)
    async def no_store(_: Request, error: SecretStoreError) -> JSONResponse:
        return answer(503, str(error))

    @app.exception_handler(StoreSilentError)
    async def silent_store(_: Request, error: StoreSilentError) -> JSONResponse:
        return answer(503, str(error))

    @app.exception_handler(RPCError)
    async def no_service(_: Request, error: RPCError) -> JSONResponse:
        return answer(504 if error.status in TOO_LATE else 503, f"Temporal does not answer: {error.message}. Try again")

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, __: ClientDisconnect) -> JSONResponse:
        return answer(400, "the request has ended before its body did")  # nobody reads it

    @app.exception_handler(Exception)
    async def defect(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return answer(500, f"a defect of tidemill: {type(error).__name__}. The server's log says more")
