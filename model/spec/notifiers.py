"""What is to be told to whom when something happens to a task or a run: callbacks and notifiers."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from ..base import Model, OmitDefaults
from ..states import TaskState


class Event(StrEnum):
    """What can be told of. The names are those of Airflow's arguments."""

    ON_EXECUTE = "on_execute_callback"
    ON_SUCCESS = "on_success_callback"
    ON_FAILURE = "on_failure_callback"
    ON_RETRY = "on_retry_callback"
    ON_SKIPPED = "on_skipped_callback"
    SLA_MISS = "sla_miss_callback"
    DEADLINE_MISS = "deadline_miss_callback"
    ASSET_LATE = "on_late_callback"
    """Of an asset, never of a task or a run."""

    @property
    def state(self) -> TaskState | None:
        """The state of what is told of; None: it goes on. That of a run is called the same."""
        return {
            Event.ON_SUCCESS: TaskState.SUCCESS,
            Event.ON_FAILURE: TaskState.FAILED,
            Event.ON_RETRY: TaskState.UP_FOR_RETRY,
            Event.ON_SKIPPED: TaskState.SKIPPED,
        }.get(self)


class FunctionNotifier(OmitDefaults, Model):
    """A function of the DAG file, called with the context as Airflow calls its callbacks."""

    kind: Literal["function"] = "function"
    number: int = 0
    """Which of the functions that the file gives for the event."""


class CommandNotifier(OmitDefaults, Model):
    """A command; what happened is in its environment as TIDEMILL_EVENT, TIDEMILL_DAG_ID and so on."""

    kind: Literal["command"] = "command"
    command: Annotated[str, Field(min_length=1)]
    """A bash command."""


class WebhookNotifier(OmitDefaults, Model):
    """A POST of what happened, as JSON, with an Idempotency-Key by which a repetition can be told."""

    kind: Literal["webhook"] = "webhook"
    url: Annotated[str, Field(pattern=r"^(https?://|/)")] | None = None
    """Where it goes; with a conn_id, the path below that connection's host."""
    headers: dict[str, str] = {}
    """HTTP headers, beside those of the connection."""
    conn_id: str | None = None
    """The HTTP connection that knows host, password and headers: what is secret of them is in no DAG and no history."""

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if self.conn_id is None and (self.url is None or self.url.startswith("/")):
            raise ValueError("a webhook needs a url such as https://host/path, or a conn_id. Give one of them")
        return self


class EmailNotifier(OmitDefaults, Model):
    """A mail about what happened (Airflow: SmtpNotifier, email_on_failure)."""

    kind: Literal["email"] = "email"
    to: Annotated[tuple[Annotated[str, Field(pattern=r"^[^@\s,]+@[^@\s,]+$")], ...], Field(min_length=1)]
    """Addresses."""
    subject: Annotated[str, Field(max_length=500, pattern=r"^[^\r\n]*$")] | None = None
    """By default what happened, in a few words."""
    conn_id: str = "smtp_default"
    """Of SMTP: host, port, login, password; extra `from_email`, `disable_ssl`, `disable_tls` (Airflow's)."""

    @field_validator("to", mode="before")
    @classmethod
    def _may_be_one_text(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


Notifier = Annotated[FunctionNotifier | CommandNotifier | WebhookNotifier | EmailNotifier, Field(discriminator="kind")]
Callbacks = dict[Event, tuple[Notifier, ...]]
