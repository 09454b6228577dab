"""Which partitions of a DAG a partition of an asset belongs to (Airflow: partition mappers).

A key goes *downstream* from an asset's event to the runs that it is for; a roll-up also knows which keys it needs
*upstream* for one of its own, and mappers of time know the date that a key is about.
"""

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, field_validator, model_validator

from ...base import Model, OmitDefaults
from ..zones import zone
from .windows import WaitForAll, WaitPolicy, Window

FORMAT = "%Y-%m-%dT%H:%M:%S"
DIRECTIVES = {"Y": r"\d{4}", **dict.fromkeys("mdHMSVUW", r"\d{2}")}
"""What a format of keys may have, where the keys have to be read again."""


class _Mapper(OmitDefaults, Model):
    decoded: ClassVar[type] = str
    """What a key is about: a text, or a date."""
    max_downstream_keys: PositiveInt | None = None
    """The most keys that one event may become; None: the default of the installation."""

    @abstractmethod
    def to_downstream(self, key: str) -> str | list[str]:
        """The key, or the keys, that *key* of an asset is for. Raises ValueError for a key that is none."""

    def decode(self, key: str) -> Any:
        """What *key* of a run is about."""
        return key

    def encode(self, decoded: Any) -> str:
        """The key of the asset that is about *decoded*."""
        return str(decoded)

    def partition_date(self, _key: str) -> datetime | None:
        """The date that a key of a run is about; None: about none."""
        return None

    @property
    def carries_date(self) -> bool:
        """Whether a run is about the date that its event's run was about."""
        return False


class IdentityMapper(_Mapper):
    """The same key."""

    mapper: Literal["IdentityMapper"] = "IdentityMapper"

    def to_downstream(self, key: str) -> str:
        return key

    @property
    def carries_date(self) -> bool:
        return True


class AllowedKeyMapper(_Mapper):
    """The same key, if it is one of these."""

    mapper: Literal["AllowedKeyMapper"] = "AllowedKeyMapper"
    allowed_keys: tuple[str, ...]
    """The keys that are let through; any other is an error."""

    def to_downstream(self, key: str) -> str:
        if key not in self.allowed_keys:
            raise ValueError(f"key {key!r} is none of {', '.join(self.allowed_keys)}")
        return key


class FixedKeyMapper(_Mapper):
    """One key for all."""

    mapper: Literal["FixedKeyMapper"] = "FixedKeyMapper"
    downstream_key: Annotated[str, Field(min_length=1)]
    """The one key."""

    def to_downstream(self, _: str) -> str:
        return self.downstream_key


class _Temporal(_Mapper):
    """The period that a date is in. Dates without a zone are meant in *timezone*."""

    decoded: ClassVar[type] = datetime
    default_format: ClassVar[str]
    timezone: str = "UTC"
    """The IANA time zone in which periods begin."""
    input_format: str = FORMAT
    """How upstream keys are written, as strftime does."""
    output_format: str | None = None
    """How downstream keys are written, as strftime does."""

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        zone(name)
        return name

    @property
    def format(self) -> str:
        return self.output_format or self.default_format

    @abstractmethod
    def start(self, date: datetime) -> datetime:
        """The beginning of the period that *date* is in."""

    def to_downstream(self, key: str) -> str:
        read = datetime.strptime(key, self.input_format)
        in_zone = local(read, self.timezone) if read.tzinfo is None else read.astimezone(zone(self.timezone))
        return self.written(self.start(in_zone))

    def written(self, start: datetime) -> str:
        """The key of the period that begins at *start*."""
        return start.strftime(self.format)

    def decode(self, key: str) -> datetime:
        try:
            return datetime.strptime(key, self.format)
        except re.error:  # a part that stands there twice
            raise ValueError(f"output_format {self.format!r} cannot be read again. Use each part once") from None

    def encode(self, decoded: datetime) -> str:
        naive = decoded if decoded.tzinfo is None else decoded.astimezone(zone(self.timezone)).replace(tzinfo=None)
        return local(naive, self.timezone).strftime(self.input_format)

    def partition_date(self, key: str) -> datetime:
        start = self.start(self.decode(key))
        return (start if start.tzinfo is not None else local(start, self.timezone)).astimezone(UTC)


class StartOfHourMapper(_Temporal):
    mapper: Literal["StartOfHourMapper"] = "StartOfHourMapper"
    default_format: ClassVar[str] = "%Y-%m-%dT%H"

    def start(self, date: datetime) -> datetime:
        return date.replace(minute=0, second=0, microsecond=0)


class StartOfDayMapper(_Temporal):
    mapper: Literal["StartOfDayMapper"] = "StartOfDayMapper"
    default_format: ClassVar[str] = "%Y-%m-%d"

    def start(self, date: datetime) -> datetime:
        return midnight(date)


class StartOfWeekMapper(_Temporal):
    """The Monday of the week; its number is written and not read again."""

    mapper: Literal["StartOfWeekMapper"] = "StartOfWeekMapper"
    default_format: ClassVar[str] = "%Y-%m-%d (W%V)"

    @model_validator(mode="after")
    def _readable(self) -> Self:
        pattern_of(self.format)
        return self

    def start(self, date: datetime) -> datetime:
        return midnight(date - timedelta(days=date.weekday()))

    def decode(self, key: str) -> datetime:
        read = parts_of(key, self.format, ("Y", "m", "d"))
        return datetime(int(read["Y"]), int(read["m"]), int(read["d"]))


class StartOfMonthMapper(_Temporal):
    mapper: Literal["StartOfMonthMapper"] = "StartOfMonthMapper"
    default_format: ClassVar[str] = "%Y-%m"

    def start(self, date: datetime) -> datetime:
        return midnight(date).replace(day=1)


class StartOfQuarterMapper(_Temporal):
    """The first day of the quarter; `{quarter}` in the format is its number."""

    mapper: Literal["StartOfQuarterMapper"] = "StartOfQuarterMapper"
    default_format: ClassVar[str] = "%Y-Q{quarter}"

    @model_validator(mode="after")
    def _readable(self) -> Self:
        pattern_of(self.format)
        return self

    def start(self, date: datetime) -> datetime:
        return midnight(date).replace(month=(date.month - 1) // 3 * 3 + 1, day=1)

    def written(self, start: datetime) -> str:
        try:
            return start.strftime(self.format).format(quarter=(start.month - 1) // 3 + 1)
        except KeyError as error:
            raise ValueError(f"output_format {self.format!r}: there is no {error}. Use {{quarter}} alone") from None

    def decode(self, key: str) -> datetime:
        read = parts_of(key, self.format, ("Y", "quarter"))
        return datetime(int(read["Y"]), int(read["quarter"]) * 3 - 2, 1)


class StartOfYearMapper(_Temporal):
    mapper: Literal["StartOfYearMapper"] = "StartOfYearMapper"
    default_format: ClassVar[str] = "%Y"

    def start(self, date: datetime) -> datetime:
        return midnight(date).replace(month=1, day=1)


class ProductMapper(_Mapper):
    """Keys of several segments, each with a mapper of its own."""

    mapper: Literal["ProductMapper"] = "ProductMapper"
    mappers: Annotated[tuple["Mapper", ...], Field(min_length=2)]
    """One mapper for each part of the key."""
    delimiter: str = "|"
    """What separates the parts of a key."""

    def to_downstream(self, key: str) -> str:
        found = [mapper.to_downstream(part) for mapper, part in zip(self.mappers, self._split(key), strict=True)]
        if not all(isinstance(one, str) for one in found):
            raise TypeError("a part of a ProductMapper makes several keys of one. Use mappers that make one")
        return self.delimiter.join(map(str, found))

    def _split(self, key: str) -> list[str]:
        parts = key.split(self.delimiter)
        if len(parts) != len(self.mappers):
            raise ValueError(f"key {key!r} has {len(parts)} segments, and {len(self.mappers)} are expected")
        return parts

    def partition_date(self, key: str) -> datetime | None:
        parts = key.split(self.delimiter)
        if len(parts) != len(self.mappers):
            return None
        dates = [mapper.partition_date(part) for mapper, part in zip(self.mappers, parts, strict=True)]
        known = [date for date in dates if date is not None]
        return known[0] if len(known) == 1 else None


class ChainMapper(_Mapper):
    """One mapper after the other."""

    mapper: Literal["ChainMapper"] = "ChainMapper"
    mappers: Annotated[tuple["Mapper", ...], Field(min_length=2)]
    """The mappers, applied from the first to the last."""

    def to_downstream(self, key: str) -> str | list[str]:
        keys = [key]
        for mapper in self.mappers:
            keys = [made for one in keys for made in listed(mapper.to_downstream(one))]
        return keys[0] if len(keys) == 1 else keys

    def partition_date(self, key: str) -> datetime | None:
        return self.mappers[-1].partition_date(key)


class FanOutMapper(_Mapper):
    """A key for each part of a period."""

    mapper: Literal["FanOutMapper"] = "FanOutMapper"
    upstream_mapper: "Mapper"
    """Maps the key before the window is opened."""
    window: Window
    """The periods or segments, each of which gets a key."""
    downstream_mapper: "Mapper | None" = None
    """Maps each of these keys."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.downstream_mapper is None and self.window.window not in PARTS:
            raise ValueError(f"FanOutMapper over {self.window.window} needs a downstream_mapper. Give one")
        return self

    @property
    def part(self) -> _Mapper:
        """The mapper that writes the parts' keys."""
        return PARTS[self.window.window]() if self.downstream_mapper is None else self.downstream_mapper

    def to_downstream(self, key: str) -> list[str]:
        whole = self.upstream_mapper.to_downstream(key)
        if not isinstance(whole, str):
            raise TypeError("the upstream_mapper of a FanOutMapper makes several keys of one. Use one that makes one")
        part, members = self.part, self.window.members(self.upstream_mapper.decode(whole))
        return [_key_of(member, part) for member in members]

    def partition_date(self, key: str) -> datetime | None:
        return self.part.partition_date(key)


class RollupMapper(_Mapper):
    """One key for many; the run is made when as many of them are there as the policy says."""

    mapper: Literal["RollupMapper"] = "RollupMapper"
    upstream_mapper: "Mapper"
    """Maps each key before it is counted."""
    window: Window
    """The periods or segments that make up the whole."""
    wait_policy: WaitPolicy = WaitForAll()
    """How many of them have to be there."""

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        mine, theirs = self.upstream_mapper.decoded, self.window.decoded
        if mine is not theirs:
            raise ValueError(
                f"{self.window.window} is about {theirs.__name__}, and {self.upstream_mapper.mapper} about "
                f"{mine.__name__}. Use a window and a mapper that go together"
            )
        return self

    def to_downstream(self, key: str) -> str | list[str]:
        return self.upstream_mapper.to_downstream(key)

    def to_upstream(self, key: str) -> list[str]:
        """The keys of the asset that *key* of a run is made of."""
        members = self.window.members(self.upstream_mapper.decode(key))
        upstream: _Mapper = self.upstream_mapper
        return sorted({upstream.encode(member) for member in members})

    def partition_date(self, key: str) -> datetime | None:
        return self.upstream_mapper.partition_date(key)


PARTS: Mapping[str, type[_Temporal]] = {
    "DayWindow": StartOfHourMapper,
    "WeekWindow": StartOfDayMapper,
    "MonthWindow": StartOfDayMapper,
    "QuarterWindow": StartOfMonthMapper,
    "YearWindow": StartOfMonthMapper,
}
"""By window: the mapper of its parts."""
Mapper = Annotated[
    IdentityMapper
    | AllowedKeyMapper
    | FixedKeyMapper
    | StartOfHourMapper
    | StartOfDayMapper
    | StartOfWeekMapper
    | StartOfMonthMapper
    | StartOfQuarterMapper
    | StartOfYearMapper
    | ProductMapper
    | ChainMapper
    | FanOutMapper
    | RollupMapper,
    Field(discriminator="mapper"),
]
"""Any of them, by its name."""


def _key_of(member: datetime | str, mapper: _Mapper) -> str:
    """The key of a part of a window; a date that no mapper of time writes is written as ISO 8601 has it."""
    if isinstance(member, str):
        return member
    return mapper.written(member) if isinstance(mapper, _Temporal) else member.isoformat()


def listed(keys: str | Sequence[str]) -> list[str]:
    return [keys] if isinstance(keys, str) else [*keys]


def midnight(date: datetime) -> datetime:
    return date.replace(hour=0, minute=0, second=0, microsecond=0)


def local(naive: datetime, timezone: str) -> datetime:
    """*naive* in *timezone*: of an hour that comes twice the second one, and a time that the clocks leave out is moved
    on by what they leave out (Airflow: make_aware)."""
    tz = zone(timezone)
    return max(naive.replace(tzinfo=tz, fold=fold).astimezone(UTC) for fold in (0, 1)).astimezone(tz)


def pattern_of(form: str) -> re.Pattern[str]:
    """What keys written by *form* look like. Raises ValueError for a form that cannot be read again."""
    seen: set[str] = set()

    def group(found: re.Match[str]) -> str:
        name = found["directive"] or found["placeholder"]
        if not name.isidentifier() or name in seen:
            raise ValueError(f"output_format {form!r}: {found[0]} cannot be read. Use each part once, by a name")
        seen.add(name)
        return f"(?P<{name}>{DIRECTIVES.get(name, '[1-4]' if name == 'quarter' else r'[^/]+')})"

    if re.search(r"\}\{", form.replace("{quarter}", "")):
        raise ValueError(f"output_format {form!r}: nothing stands between two of its parts. Put a sign there")
    marks = re.compile(r"%(?P<directive>[YmdHMSVUW])|\{(?P<placeholder>[^}]*)\}")
    parts, at = [], 0
    for found in marks.finditer(form):
        parts += [re.escape(form[at : found.start()]), group(found)]
        at = found.end()
    return re.compile("".join([*parts, re.escape(form[at:])]))


def parts_of(key: str, form: str, needed: Sequence[str]) -> dict[str, str]:
    """What *key* says by the names of *form*'s parts. Raises ValueError if it is none, or a part is *needed*."""
    found = pattern_of(form).fullmatch(key)
    if found is None or not {*needed} <= found.groupdict().keys():
        raise ValueError(f"key {key!r} is not written as {form!r}, or that lacks one of {', '.join(needed)}")
    return found.groupdict()
