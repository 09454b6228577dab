"""The way to a Temporal service, and what it answers put into words that say what to do."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

from temporalio.client import (
    Client,
    Plugin,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ...activities.calling import TOO_LATE, is_cancelled
from ...activities.names import ASK_AGAIN, DATE_TAKEN, INVALID_INPUT
from ...model.dag.records import DateTakenError
from ...model.errors import InvalidInputError
from ..settings.dev_address import remembered_address
from .converter import ModelsPlugin

CONNECT_TIMEOUT = 10.0
"""Seconds for a service to answer at all: one that is there does so in milliseconds."""
NONDETERMINISM = "TMPRL1100"
"""Temporal's code for a history that does not fit the code."""
QUERY_TIMEOUT = timedelta(seconds=10)
UPDATE_TIMEOUT = timedelta(seconds=30)
REFRESH_TIMEOUT = timedelta(minutes=10)


class NotFoundError(LookupError):
    """There is no such DAG or run. The message says which and what to do."""


class EndedError(NotFoundError):
    """What is asked has been ended, though Temporal still knows its history."""


class NoWorkerError(RuntimeError):
    """Nobody polls the task queue, so nobody answers."""


def client_plugins() -> list[Plugin]:
    """The plugins that TIDEMILL_CLIENT_PLUGINS names, as `module:Class` separated by commas.

    Raises InvalidInputError for one that cannot be made.
    """
    found = []
    for name in filter(None, map(str.strip, os.environ.get("TIDEMILL_CLIENT_PLUGINS", "").split(","))):
        module, _, attribute = name.partition(":")
        try:
            found.append(getattr(importlib.import_module(module), attribute)())
        except Exception as error:
            raise InvalidInputError(
                f"TIDEMILL_CLIENT_PLUGINS = {name!r}: {type(error).__name__}: {error}. "
                "Name a class that can be imported here and made without arguments, as package.module:Class"
            ) from None
    return found


async def connect(plugin: Plugin | None = None, **overrides: Any) -> Client:
    """A client by Temporal's environment configuration, with the plugins that are configured.

    *plugin* is a worker's; without one the client reads and writes tidemill's models.

    Raises ConnectionError if nothing answers within `CONNECT_TIMEOUT` seconds.
    """
    config = cast(dict[str, Any], ClientConfig.load_client_connect_config())
    config = {"target_host": remembered_address() or "localhost:7233", **config, **overrides}
    plugins = [*client_plugins(), plugin or ModelsPlugin()]
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            return await Client.connect(**config, plugins=plugins)
    except TimeoutError:
        raise ConnectionError(
            f"no Temporal service answers at {config['target_host']}: no word within {CONNECT_TIMEOUT:g} s. Look "
            "whether a firewall drops what is sent to it, whether something else listens there, and whether "
            "TEMPORAL_ADDRESS and TEMPORAL_TLS are right"
        ) from None
    except RuntimeError as error:
        raise ConnectionError(
            f"no Temporal service answers at {config['target_host']} ({error}). "
            "Start one with `tidemill dev`, or set TEMPORAL_ADDRESS"
        ) from None


def is_under_way_elsewhere(error: WorkflowUpdateFailedError) -> bool:
    """Whether what was asked for is under way in another execution of the workflow, which tells of its end."""
    return isinstance(error.cause, ApplicationError) and error.cause.type == ASK_AGAIN


def _where(what: str) -> str:
    """Where to look for what there is of the kind of *what*."""
    if what.startswith("DAG "):
        return "`tidemill dags list` shows what is registered, `tidemill dags errors` which files cannot be read"
    if what.startswith("asset "):
        return "`tidemill assets list` shows the names of those that DAGs name"
    return "`tidemill dags list` shows what is registered"


def _raise_if_cancelled() -> None:
    """Who asks again after a cancellation would never end."""
    if is_cancelled():
        raise asyncio.CancelledError


@asynccontextmanager
async def clear_errors(what: str, task_queue: str) -> AsyncIterator[None]:
    """Turns what the service answers into errors that say what to do."""
    try:
        yield
    except WorkflowUpdateFailedError as error:
        cause = error.cause
        if not isinstance(cause, ApplicationError):
            raise InvalidInputError(str(cause)) from None
        # By a worker of 0.2, which has no type for it.
        of_before = cause.type == INVALID_INPUT and " is taken by run " in cause.message
        refusal = DateTakenError if cause.type == DATE_TAKEN or of_before else InvalidInputError
        raise refusal(cause.message) from None
    except WorkflowQueryFailedError as error:
        if NONDETERMINISM in str(error):
            raise NoWorkerError(
                f"{what} cannot answer at present: the worker that was asked decides otherwise than its history says. "
                "It is of another release than the one that has gone on with it: try again, and end the older workers"
            ) from None
        raise InvalidInputError(f"{what}: {error}") from None
    except WorkflowQueryRejectedError:
        raise EndedError(f"{what} has been ended. Make it again, or delete it") from None
    except WorkflowUpdateRPCTimeoutOrCancelledError:
        _raise_if_cancelled()
        raise NoWorkerError(
            f"{what} did not answer within {UPDATE_TIMEOUT.total_seconds():g} s: no worker polls task queue "
            f"{task_queue!r}, or it is very busy. Start one with `tidemill worker`; the request may still be "
            "followed then"
        ) from None
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise NotFoundError(f"{what} is not there. {_where(what)}") from None
        if error.status in TOO_LATE:
            _raise_if_cancelled()
            raise NoWorkerError(
                f"{what} does not answer: no worker polls task queue {task_queue!r}. Start one with `tidemill worker`"
            ) from None
        if error.status is RPCStatusCode.FAILED_PRECONDITION:  # nobody polls, or nobody who can go on with it
            raise NoWorkerError(
                f"{what} cannot answer at present: {error.message}. Start a worker with `tidemill worker`, of the "
                "release that it has gone on with"
            ) from None
        raise
