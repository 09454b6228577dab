"""Pages from templates: whatever users have written is escaped."""

from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def moment(at: datetime | None) -> str:
    """*at* in UTC, to the second; nothing for none."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if at is not None else ""


environment = Environment(
    loader=PackageLoader(__package__, "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
environment.filters["moment"] = moment


def rendered(template: str, **values: Any) -> str:
    """A page."""
    return environment.get_template(template).render(**values)
