"""The files of Airflow's user interface: taken, unchanged, out of the one wheel that is known, and served.

The user interface is Apache Airflow's (Apache-2.0). None of it is part of tidemill: `tidemill ui install` fetches it.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from ..model.errors import InvalidInputError

VERSION = "3.3.2"
WHEEL = f"apache_airflow_core-{VERSION}-py3-none-any.whl"
SHA256 = "99258922bccec15be4700ff89f3c942b8acd93407e263c287ce863e671bb3c50"
DIST = "airflow/ui/dist/"
LICENCES = ("LICENSE", "NOTICE")
TIMEOUT_SECONDS = 600


def ui_folder(home: Path) -> Path:
    """Where the files are, once they are installed."""
    return home / "ui" / VERSION


def installed_below(*homes: Path) -> Path:
    """The folder of the files: in the first of *homes* that has them, or where they would be in the first of all."""
    return ui_folder(next(filter(is_installed, homes), homes[0]))


def is_installed(home: Path) -> bool:
    """Whether the files are there."""
    return (ui_folder(home) / "index.html").is_file()


def install_ui(home: Path, wheel: Path | None = None) -> Path:
    """Puts the files in place, out of *wheel*, or out of the wheel that pip fetches from the configured index.

    Raises InvalidInputError for another wheel, where none can be had, and where the files cannot be written.
    """
    try:
        return _installed(home, wheel)
    except OSError as error:
        raise InvalidInputError(f"the user interface cannot be put below {home}: {error}. Make room there") from error


def _installed(home: Path, wheel: Path | None) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        found = wheel if wheel is not None else _fetched(Path(folder))
        _check(found)
        target = ui_folder(home)
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=target.parent))
        try:
            _unpack(found, fresh)
            shutil.rmtree(target, ignore_errors=True)
            fresh.rename(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    target.chmod(0o755)
    return target


def _pip() -> list[str]:
    """The command of a pip: this Python's, or, where an environment was made by uv and has none, one that uv brings."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    uv = shutil.which("uv")
    if uv is None:
        raise InvalidInputError(
            f"the user interface cannot be fetched: {sys.executable} has no pip, and uv is not on the path. Install "
            f"one of them, or give {WHEEL} with --wheel"
        )
    return [uv, "tool", "run", "--quiet", "--python", sys.executable, "pip"]


def _fetched(folder: Path) -> Path:
    command = [*_pip(), "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    command += ["--only-binary", ":all:", "--dest", str(folder), f"apache-airflow-core=={VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise InvalidInputError(
            f"the user interface was not fetched within {TIMEOUT_SECONDS} s: the package index is slow, or not there. "
            f"Give {WHEEL} with --wheel"
        ) from None
    if done.returncode != 0 or not (folder / WHEEL).is_file():
        last = (done.stderr.strip() or done.stdout.strip()).split("\n")[-1]
        raise InvalidInputError(
            f"the user interface cannot be fetched: {last}. Where there is no package index, take {WHEEL} there, and "
            "give it with --wheel"
        )
    return folder / WHEEL


def _check(wheel: Path) -> None:
    try:
        digest = sha256(wheel.read_bytes()).hexdigest()
    except OSError as error:
        raise InvalidInputError(f"--wheel = {wheel}: {error.strerror}. Give the path of {WHEEL}") from None
    if digest != SHA256:
        raise InvalidInputError(
            f"{wheel.name} is not the wheel that this release knows: its SHA-256 is {digest[:16]}..., and that of "
            f"{WHEEL} begins with {SHA256[:16]}. Give that one"
        )


def _unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            inside = name.removeprefix(DIST) if name.startswith(DIST) else _licence(name)
            if not inside or name.endswith("/"):
                continue
            place = (target / inside).resolve()
            if not place.is_relative_to(target.resolve()):
                raise InvalidInputError(f"{wheel.name} has a file outside of its folder: {name}")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(archive.read(name))


def _licence(name: str) -> str:
    """What a licence in the wheel is called here; nothing for other files."""
    short = name.rpartition("/")[2]
    return short if ".dist-info/" in name and short in LICENCES else ""
