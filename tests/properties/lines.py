"""What memos show, by workers of two releases: a line stays as one of the last release wrote it until it is news."""

from typing import Any

NO_NEWS = {"is_cut", "due_at", "knows_due"}
"""Fields that are written with what they are made of, and for which no line is written anew."""
NEW_OF_DAGS = {"dag_display_name", "newest_run", "next_dagrun", "next_dagrun_data_interval", "problem"}
NEW_OF_RUNS = {"backfill_id", "partition_key", "problem", "reason", "triggered_by", "triggering_user_name"}
"""Fields of a line that an earlier release does not write."""


def is_line(known: dict[str, Any], line: dict[str, Any], new: set[str], other: tuple[str, ...] = ()) -> bool:
    """Return whether *known* is *line*, as this release writes it, or as an earlier one does.

    That is without what it does not know of *new*, and with *other* as it has them.
    """
    of_before = {name: value for name, value in line.items() if name not in new or name in known}
    return known in (line, of_before | {name: known[name] for name in other if name in known and name in of_before})


def without_newest_run(line: dict[str, Any]) -> dict[str, Any]:
    """Return *line* without what 0.2 would not have written it anew for, as executions keep it that 0.2 has begun."""
    return {name: value for name, value in line.items() if name not in {"newest_run", *NO_NEWS}}
