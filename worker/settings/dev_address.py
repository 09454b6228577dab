"""Where `tidemill dev` runs, kept in its home, so that other commands in the same folder find it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = "dev_address"


@contextmanager
def remembered(home: Path, address: str) -> Iterator[None]:
    """Keeps *address* as long as the block."""
    file = home / FILE
    file.write_text(address)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def remembered_address() -> str | None:
    """The address of the Temporal service of a `tidemill dev` whose home is this folder's; None if none answers.

    One that was killed could not take its address back.
    """
    file = Path(os.environ.get("TIDEMILL_HOME", ".tidemill")) / FILE
    try:
        host, _, port = file.read_text().strip().partition(":")
        return f"{host}:{port}" if is_answering(int(port)) else None
    except (OSError, ValueError):
        return None


def is_answering(port: int) -> bool:
    """Whether somebody listens at *port* of this host."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
