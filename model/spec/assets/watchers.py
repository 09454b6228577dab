"""What looks for events of an asset outside of tidemill: files that arrive, a queue, an asset of another namespace."""

from datetime import timedelta
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from ...base import Model, OmitDefaults, PositiveDuration

EVERY = timedelta(seconds=30)
LONGEST = timedelta(days=3650)
Interval = Annotated[PositiveDuration, Field(le=LONGEST)]


class FilesTrigger(OmitDefaults, Model):
    """Each file below a folder or prefix that fsspec knows is an event, once; one that has changed is another."""

    kind: Literal["files"] = "files"
    url: Annotated[str, Field(min_length=1)]
    """The folder or prefix: `s3://bucket/landing/`, or a path that all workers have."""
    pattern: Annotated[str, Field(min_length=1)] = "*"
    """What the path below it has to look like; `*` stands for folders, too."""
    poll_interval: Interval = EVERY
    """How often it looks."""
    settled_for: Annotated[timedelta, Field(ge=timedelta(), le=LONGEST)] = timedelta()
    """How long a file must not have changed: for those that are written where they are looked for."""

    @model_validator(mode="after")
    def _is_public(self) -> Self:
        if any(urlsplit(part).password for part in self.url.split("::")):
            raise ValueError("url has a password in it, and is shown. Give it to the workers' environment instead")
        return self


class AssetTrigger(OmitDefaults, Model):
    """Each event of an asset of another namespace of the same Temporal server is an event here, once."""

    kind: Literal["asset"] = "asset"
    name: Annotated[str, Field(min_length=1)]
    """The name of the asset there."""
    namespace: Annotated[str, Field(min_length=1)]
    """The Temporal namespace."""
    poll_interval: Interval = EVERY
    """How often it looks."""


class OwnTrigger(OmitDefaults, Model):
    """A class of the DAG file says what has happened: a queue, a table, a service."""

    kind: Literal["own"] = "own"
    poll_interval: Interval = EVERY
    """How often the class is called."""


Trigger = Annotated[FilesTrigger | AssetTrigger | OwnTrigger, Field(discriminator="kind")]


class Watcher(Model):
    """Something that looks for events of an asset, by a name that is its own within the asset (Airflow: AssetWatcher).

    What it has seen is known by that name.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]+$", max_length=100)]
    """Unique within the asset."""
    trigger: Trigger
    """What it looks at."""
