"""Writes the tables of docs/coming_from_airflow.md from the code: `make docs`."""

from pathlib import Path

from tidemill.model.authoring.arguments import ACCEPTED
from tidemill.model.dropped_arguments import DROPPED

PAGE = Path(__file__).parents[1] / "docs" / "coming_from_airflow.md"
MARK = "<!-- tables: written by `make docs` -->"
NAMES = {"DAG": "`DAG`", "group": "`TaskGroup`", "task": "Operators, sensors, decorators and default_args"}


def table(whose: str, rows: dict[str, str], told: str) -> str:
    lines = [f"### {NAMES[whose]}", "", f"| argument | {told} |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {text} |" for name, text in rows.items()), ""])


def tables() -> str:
    """Both tables, with their headings."""
    accepted = [table(whose, rows, "what holds instead") for whose, rows in ACCEPTED.items() if rows]
    refused = [table(whose, rows, "what to write") for whose, rows in DROPPED.items() if rows]
    parts = ["## Accepted with a notice", "", *accepted, "## Refused by name", "", *refused]
    return "\n".join(parts)


def main() -> None:
    head, _, _ = PAGE.read_text().partition(MARK)
    PAGE.write_text(f"{head}{MARK}\n\n{tables().rstrip()}\n")


if __name__ == "__main__":
    main()
