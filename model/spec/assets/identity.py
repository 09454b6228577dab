"""What an asset is called: its name and its uri, checked and written as Airflow does."""

import warnings
from datetime import timedelta
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from pydantic import Field, model_validator

from ...base import Model, OmitDefaults, PositiveDuration
from ..notifiers import Notifier
from .watchers import Watcher

LONGEST = 1500
RESERVED_SCHEME = "airflow"
RESERVED_NAMES = ("self", "context")
PRIVATE_SCHEME = "x-"
"""A scheme that begins so is somebody's own, and its uris are left as they are."""

AssetKey = tuple[str, str]
"""(name, uri): what makes an asset the same as another."""


class Asset(OmitDefaults, Model):
    """A piece of data, by name and uri; one of them is enough (Airflow: Asset).

    Two assets are one if name and uri are the same, whatever group and extra say.
    """

    kind: Literal["asset"] = "asset"
    name: str
    """Unique among assets; the uri where none is given."""
    uri: str
    """Where the data is; the name where none is given. It may hold no password."""
    group: str = "asset"
    """A label for lists, as in Airflow."""
    extra: dict[str, Any] = Field(default={})
    """Metadata, as JSON."""
    freshness: Annotated[PositiveDuration, Field(le=timedelta(days=3650))] | None = None
    """How old the newest event may be before the asset is late; None: it is never."""
    on_late: tuple[Notifier, ...] = ()
    """Who is told when it becomes late, once for each time."""
    watchers: tuple[Watcher, ...] = ()
    """What looks for events that come from outside."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, fields: Any) -> Any:
        """Fills in the name by the uri as it is written, and the uri by the name."""
        if not isinstance(fields, dict):
            return fields
        name, uri = fields.get("name"), fields.get("uri")
        if name is None and uri is None:
            raise ValueError("an asset needs a name or a uri. Give one")
        extra = {} if fields.get("extra") is None else fields["extra"]
        fields = {name: value for name, value in fields.items() if name != "group" or value is not None}
        written = str(uri if uri is not None else name)
        return {**fields, "name": str(uri) if name is None else name, "uri": normal_uri(written), "extra": extra}

    @model_validator(mode="after")
    def _named_well(self) -> Self:
        check_text("asset name", self.name)
        check_text("asset uri", self.uri)
        check_group(self.group)
        if self.name in RESERVED_NAMES:
            raise ValueError(f"asset name {self.name!r} is a word of Airflow's own. Choose another")
        if self.on_late and self.freshness is None:
            raise ValueError("on_late_callback needs freshness: when is it late? Give freshness=timedelta(hours=...)")
        names = [watcher.name for watcher in self.watchers]
        if len({*names}) < len(names):
            raise ValueError(
                f"watchers are called {', '.join(names)}: what they have seen is known by their names. "
                "Give each its own"
            )
        return self

    def __hash__(self) -> int:
        return hash((self.name, self.uri))

    @property
    def acts(self) -> bool:
        """Whether something is done for it where it is looked after: by watchers, or when it is late."""
        return bool(self.on_late or self.watchers)

    @property
    def calls_code(self) -> bool:
        """Whether functions or classes of the DAG file belong to it."""
        kinds = [*(notifier.kind for notifier in self.on_late), *(watcher.trigger.kind for watcher in self.watchers)]
        return "function" in kinds or "own" in kinds

    @property
    def key(self) -> AssetKey:
        return self.name, self.uri


class AssetAlias(OmitDefaults, Model):
    """A name that a task's events come in by, whatever assets they turn out to be of (Airflow: AssetAlias)."""

    kind: Literal["alias"] = "alias"
    name: str
    """Unique among aliases."""
    group: str = "asset"
    """A label for lists, as in Airflow."""

    @model_validator(mode="after")
    def _named_well(self) -> Self:
        check_text("alias name", self.name)
        check_group(self.group)
        return self


class AssetRef(OmitDefaults, Model):
    """An asset that is declared elsewhere, by its name or by its uri (Airflow: Asset.ref)."""

    kind: Literal["ref"] = "ref"
    name: str | None = None
    """The name of the asset; None where it is referred to by its uri."""
    uri: str | None = None
    """The uri of the asset; None where it is referred to by its name."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.name is None) == (self.uri is None):
            raise ValueError("a reference to an asset has a name or a uri: exactly one of them. Give one")
        return self

    def means(self, key: AssetKey) -> bool:
        """Whether the asset of that name and uri is meant."""
        return self.name == key[0] if self.name is not None else self.uri == key[1]


def check_text(what: str, text: str) -> None:
    """Raises ValueError for a name or uri that Airflow takes none of."""
    if not text:
        raise ValueError(f"{what} is empty. Give one")
    if text.isspace():
        raise ValueError(f"{what} is nothing but blanks. Give one")
    if len(text) > LONGEST:
        raise ValueError(f"{what} has {len(text)} characters, and may have {LONGEST}. Shorten it")


def check_group(group: str) -> None:
    """Raises ValueError for a group that Airflow does not take; an empty one it takes."""
    if group:
        check_text("asset group", group)


def has_password(text: str) -> bool:
    """Whether *text* is a uri that has a password in it."""
    try:
        return bool(urlsplit(text).password)
    except ValueError:
        return False


def normal_uri(uri: str) -> str:
    """*uri* as it is compared: scheme in small letters, no slash at its end, a query in order, no fragment.

    What has no scheme, or one of somebody's own (x-...), is left as it is. A password is left out, with a warning.
    Raises ValueError for the scheme that is Airflow's own.
    """
    parts = urlsplit(uri)
    if not parts.scheme or parts.scheme.startswith(PRIVATE_SCHEME):
        return uri
    if parts.scheme == RESERVED_SCHEME:
        raise ValueError(f"asset uri {uri!r}: the scheme {RESERVED_SCHEME!r} is reserved. Choose another")
    place = parts.netloc
    if parts.password:
        warnings.warn(f"an asset's uri is no place for a password: it is left out of {parts.hostname}'s", stacklevel=2)
        place = place.rpartition("@")[2]
    query = urlencode(sorted(parse_qsl(parts.query)))
    path = parts.path.rstrip("/") or "/"
    return urlunsplit((parts.scheme, place, path, query, ""))
