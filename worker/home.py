"""The folder of a worker, and that of the web: for their owner alone."""

from pathlib import Path

from .settings import Settings

OWNERS, OPEN_TO_PASS = 0o700, 0o711


def make_home(settings: Settings) -> None:
    """Make TIDEMILL_HOME where it is not there: what tasks have returned and printed is nobody else's to read.

    Where tasks run as another user (TIDEMILL_RUN_AS), that one may pass through to the folder of its try.
    """
    _make(settings.home.resolve(), OWNERS if settings.run_as is None else OPEN_TO_PASS)


def make_web_home(settings: Settings) -> None:
    """Make TIDEMILL_API_HOME where it is not there."""
    _make(settings.web_home, OWNERS)


def _make(folder: Path, mode: int) -> None:
    """Make *folder*. One that is there keeps its mode: somebody may share it on purpose."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)
