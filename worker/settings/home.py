"""The folder of a worker, and that of the web: for their owner alone."""

from contextlib import suppress
from pathlib import Path

from ...model.errors import InvalidInputError
from .reading import Settings

OWNERS, OPEN_TO_PASS = 0o700, 0o711
OTHERS_WRITE = 0o022
"""Whoever may write to a folder may put others in the place of those in it."""


def make_home(settings: Settings) -> None:
    """Make TIDEMILL_HOME where it is not there: what tasks have returned and printed is nobody else's to read.

    Where tasks run as another user (TIDEMILL_RUN_AS), that one may pass through to the folder of its try, and write to
    no other. Raises InvalidInputError where it cannot be made, or made so.
    """
    home, others = settings.home.resolve(), settings.run_as is not None or settings.run_as_users
    try:
        _make(home, OPEN_TO_PASS if others else OWNERS)
        if others and home.stat().st_mode & OTHERS_WRITE:  # as an emptyDir of Kubernetes is
            home.chmod(OPEN_TO_PASS)
    except OSError as error:
        raise InvalidInputError(
            f"TIDEMILL_HOME = {settings.home}: cannot be made: {error.strerror}. Name a folder that this user may make"
        ) from None


def make_web_home(settings: Settings) -> None:
    """Make TIDEMILL_API_HOME where it is not there. Where it cannot be, the web goes on, and keeps nothing."""
    with suppress(OSError):
        _make(settings.web_home, OWNERS)


def _make(folder: Path, mode: int) -> None:
    """Make *folder*. One that is there keeps its mode: somebody may share it on purpose."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)
