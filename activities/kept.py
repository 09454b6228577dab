"""A variable or a connection that is kept, wherever that is."""

from dataclasses import dataclass
from typing import Literal

LONGEST_NAME = 250
KEY, DATABASE, ARCHIVE = "TIDEMILL_FERNET_KEY", "TIDEMILL_SECRETS_DATABASE", "TIDEMILL_ARCHIVE"
"""The settings of the store: its key, and where it is; see `secret_store`."""
NO_KEY = (
    "there is no store with a key. Set TIDEMILL_FERNET_KEY (`tidemill variables new-key` makes one), and "
    "TIDEMILL_SECRETS_DATABASE or TIDEMILL_ARCHIVE: "
    "docs/security.md says how"
)
Kind = Literal["variable", "connection"]


@dataclass(frozen=True)
class Kept:
    """A variable's value, or a connection as JSON, as it was kept."""

    name: str
    text: str
    description: str | None = None
