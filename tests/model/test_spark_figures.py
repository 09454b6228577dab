"""What an application came to, in words, and beside an earlier one."""

import pytest
from pydantic import ValidationError
from tidemill.model.run.spark_figures import Skew, SparkFigures, compared, history_page, rows_of

BEFORE = SparkFigures(output_rows=10_000, shuffle_read_bytes=2**30, duration_ms=60_000, gc_ms=100)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({"shuffle_read_bytes": 3 * 2**30}, {"shuffle_read_bytes": 3.0}),
        ({"output_rows": 2_500}, {"output_rows": 0.25}),
        ({"output_rows": 0}, {"output_rows": 0.0}),
        ({"output_rows": 15_000, "duration_ms": 61_000}, {}),
        ({"gc_ms": 900}, {}),  # nine times as much of next to nothing
        ({"input_bytes": 2**40}, {}),  # of which the other try does not tell
    ],
)
def test_what_differs_notably_is_told(now: dict[str, int], expected: dict[str, float]) -> None:
    assert compared(SparkFigures(**now), BEFORE) == expected


def test_figures_in_words() -> None:
    skew = Skew(stage=3, name="count at app.py:7", tasks=200, median_ms=1_000, slowest_ms=42_000)
    figures = SparkFigures(
        application_id="app-1",
        duration_ms=61_234,
        output_rows=1_234_567,
        shuffle_read_bytes=5 * 2**29,
        input_bytes=12,
        lost_because=("out of memory",),
        skew=skew,
        is_final=False,
    )
    found = {name: (value, beside) for name, value, beside in rows_of(figures, BEFORE)}
    assert found["application_id"] == ("app-1", "")
    assert found["duration_ms"] == ("61.2 s", "")
    assert found["output_rows"] == ("1,234,567", "123.5 x")
    assert found["shuffle_read_bytes"] == ("2.5 GiB", "2.5 x")
    assert found["input_bytes"] == ("12 B", "")
    assert found["lost_because"] == ("out of memory", "")
    assert "the slowest of 200 tasks took 42.0 x the median, 42.0 s" in found["skew"][0]
    assert "before the driver's end" in found["told"][0]
    assert "gc_ms" not in found


@pytest.mark.parametrize("content", [{"tasks": -1}, {"output_rows": "many"}, {"application_id": "x" * 1_000}, []])
def test_what_is_no_record_of_figures_is_refused(content: object) -> None:
    with pytest.raises(ValidationError):
        SparkFigures.model_validate(content)


def test_the_page_of_the_history_server() -> None:
    assert history_page("https://history/", "app-1") == "https://history/history/app-1/"
    assert history_page("https://history", "../logout?x=") == "https://history/history/..%2Flogout%3Fx%3D/"
