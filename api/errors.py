"""What goes wrong, as Airflow's API says it: a status, and the reason in `detail`. Never a stack trace."""

import logging

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from starlette.requests import ClientDisconnect
from temporalio.service import RPCError, RPCStatusCode

from ..model.dag.records import DateTakenError
from ..model.errors import InvalidInputError, explain
from ..worker.connection import NotFoundError, NoWorkerError
from .read.database import ArchiveError

log = logging.getLogger(__name__)
TAKEN = " is taken by "
"""In what a DAG says of a run that cannot be made since another holds its id or date."""


class ConflictError(Exception):
    """What is asked goes against what there is at present."""


class NotOfferedError(Exception):
    """An operation that Airflow has and tidemill has not. The message says what to use instead."""


def answer(status: int, detail: str) -> JSONResponse:
    return JSONResponse({"detail": detail}, status_code=status, headers={"Cache-Control": "no-store"})


def add_error_handlers(app: FastAPI) -> None:
    """Has *app* answer what its operations raise."""

    @app.exception_handler(NotFoundError)
    async def not_found(_: Request, error: NotFoundError) -> JSONResponse:
        return answer(404, str(error))

    @app.exception_handler(ConflictError)
    async def conflict(_: Request, error: ConflictError) -> JSONResponse:
        return answer(409, str(error))

    @app.exception_handler(UnicodeError)
    @app.exception_handler(PydanticSerializationError)
    async def no_text(_: Request, __: ValueError) -> JSONResponse:
        return answer(422, "a text cannot be written as UTF-8: it has half of a letter. Correct it")

    @app.exception_handler(DateTakenError)
    async def taken(_: Request, error: DateTakenError) -> JSONResponse:
        return answer(409, str(error))

    @app.exception_handler(InvalidInputError)
    async def invalid(_: Request, error: InvalidInputError) -> JSONResponse:
        return answer(409 if TAKEN in str(error) else 422, str(error))

    @app.exception_handler(ValidationError)
    async def not_valid(_: Request, error: ValidationError) -> JSONResponse:
        return answer(422, str(explain(error, "the request")))

    @app.exception_handler(NotOfferedError)
    async def not_offered(_: Request, error: NotOfferedError) -> JSONResponse:
        return answer(501, str(error))

    @app.exception_handler(NoWorkerError)
    async def no_worker(_: Request, error: NoWorkerError) -> JSONResponse:
        return answer(503, str(error))

    @app.exception_handler(TimeoutError)
    async def late(_: Request, __: TimeoutError) -> JSONResponse:
        return answer(504, "Temporal has not answered in time. Try again")

    @app.exception_handler(ArchiveError)
    async def no_archive(_: Request, error: ArchiveError) -> JSONResponse:
        return answer(503, str(error))

    @app.exception_handler(RPCError)
    async def no_service(_: Request, error: RPCError) -> JSONResponse:
        late = error.status in (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
        return answer(504 if late else 503, f"Temporal does not answer: {error.message}. Try again")

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, __: ClientDisconnect) -> JSONResponse:
        return answer(400, "the request has ended before its body did")  # nobody reads it

    @app.exception_handler(Exception)
    async def defect(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return answer(500, f"a defect of tidemill: {type(error).__name__}. The server's log says more")
