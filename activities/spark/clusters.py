"""What cluster modes have in common: how an application is asked for, found again, followed and ended."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Life(StrEnum):
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

    life: Life
    told: str
    """In the cluster's own words."""
    succeeded: bool = False
    """Whether the cluster says that it ended well: it counts where there is nobody else to tell."""


class Cluster(Protocol):
    """One attempt's dealings with the cluster that it runs on.

    What cannot be reached just now raises OSError, and is asked again.
    """

    def find(self) -> str | None:
        """The application that this attempt has there, running or ended; None if the cluster knows of none."""

    def submit(self) -> str:
        """Has the application started; what the cluster knows it by. Raises the task's failure if it is refused."""

    def status(self, application_id: str) -> Status: ...

    def kill(self, application_id: str) -> None:
        """Asks for its end. What has ended already, or is not known, is left alone."""
