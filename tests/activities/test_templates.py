"""Filters of templates, as Airflow has them, and one for shells."""

import subprocess
from datetime import UTC, datetime

import pytest
from tidemill.activities.work.templates import render

DATE = datetime(2024, 3, 4, 5, 6, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ logical_date | ds }}", "2024-03-04"),
        ("{{ logical_date | ds_nodash }}", "20240304"),
        ("{{ logical_date | ts }}", "2024-03-04T05:06:07+00:00"),
        ("{{ logical_date | ts_nodash }}", "20240304T050607"),
        ("{{ logical_date | ts_nodash_with_tz }}", "20240304T050607+0000"),
        ("{{ none | ds }}", "None"),
    ],
)
def test_dates_are_written_as_airflow_writes_them(template: str, text: str) -> None:
    assert render(template, {"logical_date": DATE, "none": None}) == text


@pytest.mark.parametrize("value", ["plain", "two words", "'; rm -rf / #", "$(id)", "", 3])
def test_a_quoted_value_is_one_word_of_a_shell_command(value: object) -> None:
    command = render("printf %s {{ value | quote }}", {"value": value})
    assert subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout == str(value)
