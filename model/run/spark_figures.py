"""What a Spark application came to, as its driver's own record has it, and how that compares with an earlier try."""

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import quote

from pydantic import Field

from ..base import Model

Count = Annotated[int, Field(ge=0, le=2**63)]
Text = Annotated[str, Field(max_length=300)]


class Skew(Model):
    """The stage whose slowest task took longest beside its median one."""

    stage: Count
    name: Text = ""
    tasks: Count
    median_ms: Count
    slowest_ms: Count

    @property
    def ratio(self) -> float:
        """How many times the median the slowest task took."""
        return self.slowest_ms / max(1, self.median_ms)


class SparkFigures(Model):
    """Sums over the stages of an application (Spark's REST API: StageData, ExecutorSummary); None where not told."""

    application_id: Text | None = None
    duration_ms: Count | None = None
    """Since the application began."""
    jobs: Count | None = None
    stages: Count | None = None
    tasks: Count | None = None
    failed_tasks: Count | None = None
    input_rows: Count | None = None
    input_bytes: Count | None = None
    output_rows: Count | None = None
    output_bytes: Count | None = None
    shuffle_read_bytes: Count | None = None
    shuffle_write_bytes: Count | None = None
    spilled_memory_bytes: Count | None = None
    spilled_disk_bytes: Count | None = None
    run_ms: Count | None = None
    """Of all tasks together."""
    gc_ms: Count | None = None
    """Of all tasks together."""
    peak_heap_bytes: Count | None = None
    """The largest heap of an executor, or of a driver that is its own executor."""
    executors_lost: Count | None = None
    """Without those that Spark itself has let go."""
    lost_because: tuple[Text, ...] = Field(default=(), max_length=5)
    skew: Skew | None = None
    is_final: bool = True
    """False: the driver ended without a last word, and these are from some seconds before its end."""


COUNTED = (
    "input_rows",
    "input_bytes",
    "output_rows",
    "output_bytes",
    "shuffle_read_bytes",
    "shuffle_write_bytes",
    "spilled_memory_bytes",
    "spilled_disk_bytes",
    "gc_ms",
    "executors_lost",
)
"""What adds up over applications."""
COMPARED = (*COUNTED, "duration_ms", "run_ms", "peak_heap_bytes")
NOTABLE = 2.0
"""From how many times as much on, or as little, a difference is told."""
FLOORS = {"bytes": 2**20, "ms": 5_000, "rows": 1_000, "lost": 1}
"""By what is counted: differences of figures that are both below this are noise."""


def compared(now: SparkFigures, before: SparkFigures) -> dict[str, float]:
    """Return how many times as much as *before* each figure is, for those that differ notably."""
    found = {}
    for name in COMPARED:
        value, other = getattr(now, name), getattr(before, name)
        if value is None or other is None or max(value, other) < FLOORS[name.rpartition("_")[2]]:
            continue
        ratio = value / max(1, other)
        if ratio >= NOTABLE or ratio <= 1 / NOTABLE:
            found[name] = ratio
    return found


def rows_of(figures: SparkFigures, before: SparkFigures | None = None) -> Iterator[tuple[str, str, str]]:
    """Yield name, value in words, and the comparison with *before* in words, of each figure that is known."""
    ratios = compared(figures, before) if before is not None else {}
    for name in SparkFigures.model_fields:
        value = getattr(figures, name)
        if value is None or name in ("skew", "lost_because", "is_final"):
            continue
        yield name, _in_words(name, value), f"{ratios[name]:.1f} x" if name in ratios else ""
    if figures.lost_because:
        yield "lost_because", "; ".join(figures.lost_because), ""
    if (skew := figures.skew) is not None:
        text = f"stage {skew.stage} ({skew.name}): the slowest of {skew.tasks} tasks took {skew.ratio:.1f} x the median"
        yield "skew", f"{text}, {_in_words('_ms', skew.slowest_ms)}", ""
    if not figures.is_final:
        yield "told", "some seconds before the driver's end, of which it could not tell", ""


def _in_words(name: str, value: object) -> str:
    if not isinstance(value, int):
        return str(value)
    if name.endswith("_ms"):
        return f"{value / 1000:,.1f} s"
    if not name.endswith("_bytes"):
        return f"{value:,}"
    size, unit = float(value), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"


def history_page(base_url: str, application_id: str) -> str:
    """Return where the History Server at *base_url* shows the application."""
    return f"{base_url.rstrip('/')}/history/{quote(application_id, safe='')}/"
