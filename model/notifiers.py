"""What is to be told to whom when something happens to a task or a run: callbacks and notifiers."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from .base import Brief, Model


class Event(StrEnum):
    """What can be told of. The names are those of Airflow's arguments."""

    ON_EXECUTE = "on_execute_callback"
    ON_SUCCESS = "on_success_callback"
    ON_FAILURE = "on_failure_callback"
    ON_RETRY = "on_retry_callback"
    ON_SKIPPED = "on_skipped_callback"
    SLA_MISS = "sla_miss_callback"
    DEADLINE_MISS = "deadline_miss_callback"


class FunctionNotifier(Brief, Model):
    """A function of the DAG file, called with the context as Airflow calls its callbacks."""

    kind: Literal["function"] = "function"
    number: int = 0
    """Which of the functions that the file gives for the event."""


class CommandNotifier(Brief, Model):
    """A command; what happened is in its environment as TIDEMILL_EVENT, TIDEMILL_DAG_ID and so on."""

    kind: Literal["command"] = "command"
    command: Annotated[str, Field(min_length=1)]


class WebhookNotifier(Brief, Model):
    """A POST of what happened, as JSON, with an Idempotency-Key by which a repetition can be told."""

    kind: Literal["webhook"] = "webhook"
    url: Annotated[str, Field(pattern=r"^https?://")]
    headers: dict[str, str] = {}


Notifier = Annotated[FunctionNotifier | CommandNotifier | WebhookNotifier, Field(discriminator="kind")]
Callbacks = dict[Event, tuple[Notifier, ...]]
