"""Time zones by their names."""

from functools import lru_cache
from zoneinfo import ZoneInfo


class ZoneError(ValueError):
    """There is no such time zone."""


@lru_cache(maxsize=512)
def zone(name: str) -> ZoneInfo:
    """The time zone called *name*. Raises ZoneError if there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ZoneError(f"unknown time zone {name!r}. Use an IANA name, such as Europe/Berlin or UTC") from error
