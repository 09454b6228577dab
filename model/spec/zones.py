"""Time zones by their names: IANA's, and fixed offsets from UTC such as `+05:30`."""

import re
import struct
from datetime import timedelta
from functools import lru_cache
from io import BytesIO
from zoneinfo import ZoneInfo

OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})(?::(\d{2}))?")
LARGEST_OFFSET = timedelta(hours=24)


class ZoneError(ValueError):
    """There is no such time zone."""


@lru_cache(maxsize=512)
def zone(name: str) -> ZoneInfo:
    """The time zone called *name*. Raises ZoneError if there is none."""
    if (written := OFFSET.fullmatch(name)) is not None:
        return _fixed(name, written)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ZoneError(f"unknown time zone {name!r}. Use an IANA name, such as Europe/Berlin or UTC") from error


def offset_name(offset: timedelta) -> str:
    """Return the name of the zone that is always *offset* ahead of UTC, as `zone` reads it: `-05:00`."""
    sign, seconds = "-" if offset < timedelta() else "+", int(abs(offset).total_seconds())
    rest = f":{seconds % 60:02}" if seconds % 60 else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}{rest}"


def _fixed(name: str, written: re.Match[str]) -> ZoneInfo:
    sign, hours, minutes, seconds = written.groups(default="0")
    offset = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds))
    if offset >= LARGEST_OFFSET or int(minutes) > 59 or int(seconds) > 59:
        raise ZoneError(f"time zone {name!r}: an offset has less than 24 hours, 60 minutes and 60 seconds")
    ahead = int(offset.total_seconds()) * (-1 if sign == "-" else 1)
    # A file of the time zone database with one kind of local time, and no change (RFC 8536, version 1).
    abbreviation = name.encode() + b"\0"
    header = struct.pack(">4sc15x6l", b"TZif", b"\0", 0, 0, 0, 0, 1, len(abbreviation))
    return ZoneInfo.from_file(BytesIO(header + struct.pack(">lbb", ahead, 0, 0) + abbreviation), key=name)
