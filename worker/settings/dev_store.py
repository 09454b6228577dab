"""The key and the database by which `tidemill dev` keeps variables and connections, where nobody has set others."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from ...activities.kept import ARCHIVE, DATABASE, KEY

FILE, DATABASE_FILE = "dev_fernet.key", "secrets.db"
NEEDED = ("cryptography", "sqlalchemy")


def make_dev_store(home: Path) -> None:
    """Give this process a key that is kept in *home*, and a database there. What the environment says goes first."""
    if os.environ.get(KEY) or not all(map(find_spec, NEEDED)):
        return
    from cryptography.fernet import Fernet

    file = home / FILE
    if not file.is_file():
        made = file.with_suffix(".new")  # whole, or not there: a process may end in between
        made.touch(mode=0o600)
        made.write_bytes(Fernet.generate_key())
        made.replace(file)
    use_dev_store(home)


def use_dev_store(home: Path) -> None:
    """Have this process find what a `tidemill dev` with that *home* keeps, if there has been one."""
    file = home / FILE
    if os.environ.get(KEY) or not file.is_file():
        return
    os.environ[KEY] = file.read_text().strip()
    if not os.environ.get(DATABASE) and not os.environ.get(ARCHIVE):
        os.environ[DATABASE] = f"sqlite:///{(home / DATABASE_FILE).resolve()}"
