"""What the work of a child has come to: a class for each, told apart by `kind`.

A child runs anybody's code, and may send anything: what is none of these is no answer. A child and its worker are of
the same release; of what is left in files for another start, `read_result` and `CommandEnded` read earlier ones, too.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from ...model.asset.outlets import OutletEvent
from ...model.asset.watching import WatchAnswer
from ...model.base import Instant, Model
from ...model.run.task_instances import Failure, Outcome


class Performed(Model):
    """A try, or a function that a notice calls, has ended without a failure."""

    kind: Literal["performed"] = "performed"
    outcome: Outcome = Outcome()


class Failed(Model):
    """The work has failed, or what it needs could not be imported."""

    kind: Literal["failed"] = "failed"
    failure: Failure
    started_at: Instant | None = None


class CommandEnded(Model):
    """A command has ended."""

    kind: Literal["command"] = "command"
    code: int | None
    """None: it was ended on the worker's behalf."""
    started: float
    """In seconds since 1970, as all times here."""
    ended: float | None = None
    error: str | None = None
    """Why it could not be started."""
    memory: bool = False
    """Whether the kernel has ended a process here meanwhile, since memory ran out."""
    asset_events: tuple[OutletEvent, ...] = ()
    """What the function that has named the command said of assets."""

    @property
    def started_at(self) -> datetime:
        return datetime.fromtimestamp(self.started, UTC)


class ConnectEnded(Model):
    """A client of Spark Connect has ended; what came of its attempt is in the attempt's folder."""

    kind: Literal["connect"] = "connect"
    lost: str | None = None
    """What has become of the server, where that is why there is nothing in the folder."""


class Filled(Model):
    """Values have been rendered."""

    kind: Literal["filled"] = "filled"
    values: Any


class FileParsed(Model):
    """A DAG file has been imported, or could not be."""

    kind: Literal["parsed"] = "parsed"
    dags: tuple[dict[str, Any], ...] = ()
    notices: tuple[str, ...] = ()
    error: str | None = None
    not_allowed: bool = False
    lacks_a_module: bool = False
    needs_airflow: bool = False
    """Whether it has to be read where Airflow is."""
    outside: str | None = None
    """What is to be said of a file that reads what is above its folder."""
    files: tuple[str, ...] | None = None
    """What it has read below its root; None where it came to no end."""


class ConfChecked(Model):
    """A run's conf has been held against params."""

    kind: Literal["conf"] = "conf"
    problem: str | None


class TimetableAnswered(Model):
    """A user's timetable has answered, or raised."""

    kind: Literal["timetable"] = "timetable"
    text: str | None = None
    """The answer, as JSON."""
    raised: str | None = None


class Watched(Model):
    """An asset's watcher has looked."""

    kind: Literal["watched"] = "watched"
    answer: WatchAnswer


class Sent(Model):
    """A notice has been sent to a URL or by mail, or could not be."""

    kind: Literal["sent"] = "sent"
    status: int | None = None
    """Of HTTP."""
    error: str | None = None


ChildAnswer = Annotated[
    Performed
    | Failed
    | CommandEnded
    | ConnectEnded
    | Filled
    | FileParsed
    | ConfChecked
    | TimetableAnswered
    | Watched
    | Sent,
    Field(discriminator="kind"),
]
"""Any answer."""
answer_adapter: TypeAdapter[ChildAnswer] = TypeAdapter(ChildAnswer)


def too_large(reason: str) -> Failed:
    """Return the failure of work whose answer, or request, is more than travels."""
    return Failed(failure=Failure(error_type="ResultTooLarge", message=reason, retryable=False))


def read_result(left: Mapping[str, Any]) -> Performed | Failed:
    """Return what `result.json` says, of any release and of a driver's own side; what is no result is a failure."""
    try:
        if "failure" in left:
            return Failed.model_validate({"failure": left["failure"], "started_at": left.get("started_at")})
        return Performed.model_validate({"outcome": left["outcome"]})
    except (KeyError, ValueError) as error:
        message = f"what the task's process has left is no result: {type(error).__name__}"
        return Failed(failure=Failure(error_type="ResultUnreadable", message=message))


def read_exit(left: Mapping[str, Any] | None) -> CommandEnded | None:
    """Return what `exit.json` says; None where it says nothing that can be read."""
    try:
        return None if left is None else CommandEnded.model_validate(left)
    except ValueError:
        return None


def as_left(answer: Performed | Failed | CommandEnded) -> dict[str, Any]:
    """Return *answer* as `result.json` or `exit.json` has it, in every release."""
    return answer.model_dump(mode="json", exclude={"kind"}, exclude_defaults=isinstance(answer, CommandEnded))
