"""Where `tidemill dev` runs, kept in its home, so that other commands in the same folder find it."""

from __future__ import annotations

import os
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
    """The address of the Temporal service of a `tidemill dev` whose home is this folder's; None if there is none."""
    file = Path(os.environ.get("TIDEMILL_HOME", ".tidemill")) / FILE
    try:
        return file.read_text().strip() or None
    except OSError:
        return None
