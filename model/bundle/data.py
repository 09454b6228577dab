"""Bundles of DAG files: their settings, what is asked about files and answered, and how a bundle is shown."""

from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt, field_validator

from ..base import Instant, Model, OmitDefaults, OmitNewDefaults, PositiveDuration, Request
from ..names import NAME
from ..spec.owned import OwnedNames
from ..workflow_ids import bounded

CHANGING = "changing"
"""The digest of a file that changed while it was parsed."""


class BundleSettings(OmitNewDefaults, Request):
    """Where DAG files come from, and how often they are looked at. The names of the options are Airflow's."""

    later_fields: ClassVar[tuple[str, ...]] = ("mass_removal_threshold", "dag_discovery_safe_mode", "owns")

    name: Annotated[str, Field(pattern=NAME, max_length=250)]
    kind: Literal["folder", "git"] = "folder"
    path: str
    """The folder, or the repository: absolute, and the same on every worker."""
    ref: str | None = None
    """Of a repository: the branch, tag or commit; None: HEAD."""
    subdir: str = ""
    """Of a repository: the folder within it."""
    dag_dir_list_interval: PositiveDuration = timedelta(seconds=30)
    """How often the folder is listed. Whoever changes a file may have it listed at once."""
    min_file_process_interval: Annotated[timedelta, Field(ge=timedelta())] = timedelta(seconds=30)
    """No file is parsed more often than this, however often it changes."""
    parsing_processes: PositiveInt = 2
    dag_file_processor_timeout: PositiveDuration = timedelta(seconds=50)
    dag_file_memory_mb: Annotated[int, Field(ge=512)] = 2048
    stale_dag_threshold: Annotated[timedelta, Field(ge=timedelta())] = timedelta(seconds=50)
    """How long a DAG is in no file before it makes no more runs."""
    mass_removal_threshold: Annotated[timedelta, Field(ge=timedelta())] = timedelta(hours=1)
    """How long most of the files are gone before that is believed: a lost mount leaves an empty folder."""
    on_import_error: Literal["stop", "keep_running"] = "stop"
    """Whether a DAG whose file is broken makes no more runs until it is mended."""
    dag_ignore_file_syntax: Literal["glob", "regexp"] = "glob"
    """How `.airflowignore` is written."""
    dag_discovery_safe_mode: bool = True
    """Whether files are passed over that do not have "dag" and "airflow" or "tidemill" in them. One whose DAGs are
    known is read all the same."""
    owns: OwnedNames | None = None
    """What the names that its DAGs give and use have to begin with; None: no rule."""

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str) -> str:
        if not path.startswith("/"):
            raise ValueError(f"{path!r} is not absolute. Write the whole path, as every worker has it")
        return path


class ParsedDag(Model):
    """A DAG that a file defines, and its version."""

    dag_id: str
    version: str


class ListQuestion(Model):
    """What is there now, compared with what was."""

    settings: BundleSettings
    known: str | None
    """The digest of the last listing; an equal one is answered without the files."""
    extras: dict[str, tuple[str, ...]] = {}
    """By file, what it has read at import besides modules."""


class Listing(Model):
    """The DAG files of a bundle, by path from its root, with a digest of each and of what it imports from there."""

    digest: str
    revision: str | None = None
    """Of a repository: the commit."""
    files: dict[str, str] | None = None
    """None: nothing has changed."""
    passed_over: tuple[str, ...] = ()
    """Those of the files that do not speak of DAGs: read only where some of theirs are known. Up to 0.2.0 all are."""
    warnings: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    """Folders and archives that could not be read: what is in them is not known, and no less there than before."""


class ParseQuestion(Model):
    settings: BundleSettings
    path: str
    revision: str | None = None
    extras: tuple[str, ...] = ()


class ParseResult(Model):
    """What came of parsing a file."""

    digest: str
    """Of the content that was parsed."""
    dags: tuple[ParsedDag, ...] = ()
    error: str | None = None
    seconds: float
    extras: tuple[str, ...] = ()


class DagFileState(OmitDefaults, Model):
    """What a DAG is told of its file."""

    bundle: str | None = None
    """Whose word it is: a DAG that another bundle has now does not listen. None: all is well."""
    is_stale: bool = False
    """Whether it is in no file any more."""
    import_error: str | None = None
    stops: bool = True
    """Whether an import error keeps it from making runs."""

    @property
    def holds_up(self) -> bool:
        """Whether the DAG makes no runs because of it."""
        return self.is_stale or (self.import_error is not None and self.stops)


class FileView(Model):
    """A file as `dags files` shows it."""

    bundle: str
    path: str
    dags: tuple[str, ...]
    parsed_at: Instant | None
    seconds: float | None
    parses: int
    error: str | None


class BundleView(Model):
    """A bundle as it is shown."""

    settings: BundleSettings
    files: int
    dags: int
    stale: int
    errors: int
    waiting: int
    """How many files are to be parsed, or being parsed."""
    revision: str | None
    listed_at: Instant | None
    problem: str | None
    warnings: tuple[str, ...]


def bundle_workflow_id(name: str) -> str:
    return bounded(f"bundle:{name}")
