"""What cluster modes have in common: how an application is asked for, found again, followed and ended."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from ..processes.users import acting_as
from .driver import take_claim
from .starts import SparkStart


class NotConfiguredError(OSError):
    """This worker is not told where the cluster is: no other start of the try would know."""


class AppState(StrEnum):
    """What a cluster says of an application."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    """However it went: only the driver itself tells whether it succeeded."""
    UNKNOWN = "unknown"
    """The cluster does not know it: it never did, or has forgotten."""


@dataclass(frozen=True)
class Status:
    """An application as its cluster sees it."""

    life: AppState
    message: str
    """In the cluster's own words."""
    succeeded: bool = False
    """Whether the cluster says that it ended well: it counts where there is nobody else to tell."""
    is_disruption: bool = False
    """Whether the cluster ends it for reasons that are not its own: preemption, a node that goes, a deletion."""


FENCE = "nobody: the attempt was given up"


class SharedFolder:
    """What clusters do whose drivers share the attempt's folder with its workers."""

    def __init__(self, start: SparkStart) -> None:
        self._work = start

    def leave_plan(self) -> None:
        """Leave what the driver reads there."""
        self._work.leave_plan(on_cluster=True, log=str(self._work.folder.log))

    def give_up(self) -> bool:
        """Take the claim that any driver has to take first. False if one has it already."""
        folder = self._work.folder
        with acting_as(folder.user):
            return take_claim(folder.work, {"application_id": None, "host": FENCE})


class Cluster(Protocol):
    """One attempt's dealings with the cluster that it runs on.

    What cannot be reached just now raises OSError, and is asked again.
    """

    def find(self) -> str | None:
        """The application that this attempt has there, running or ended; None if the cluster knows of none."""

    def submit(self) -> str:
        """Has the application started; what the cluster knows it by. Raises the task's failure if it is refused."""

    def status(self, application_id: str) -> Status: ...

    def give_up(self) -> bool:
        """Keep any driver of the attempt from beginning. False if one has it already."""

    def kill(self, application_id: str) -> None:
        """Asks for its end. What has ended already, or is not known, is left alone."""
