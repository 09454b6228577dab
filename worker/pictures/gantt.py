"""A run as a picture: when each task ran, try by try."""

from datetime import datetime
from pathlib import Path
from typing import Any

from ...model.errors import InvalidInputError
from ...model.run.views import RunDetails, TaskView

COLOURS = {
    "success": "#3fa34d",
    "failed": "#d1495b",
    "up_for_retry": "#edae49",
    "skipped": "#b48ead",
    "running": "#4cc9f0",
}


def draw_gantt(details: RunDetails, path: Path) -> None:
    """Writes the picture to *path*, as the kind of its suffix says (.png, .svg, .pdf).

    Raises InvalidInputError for a run in which nothing has run, and where matplotlib is not installed.
    """
    rows = [(task, spans(task)) for task in details.tasks]
    rows = [(task, found) for task, found in rows if found]
    if not rows:
        raise InvalidInputError(f"run {details.run.run_id!r} has no task that ran. Look again when one has")
    plt = plots()
    rows.sort(key=lambda row: row[1][0][0])
    first = rows[0][1][0][0]
    figure, axes = plt.subplots(figsize=(10, 1 + 0.35 * len(rows)))
    for n, (_, found) in enumerate(rows):
        for start, end, state in found:
            left, width = (start - first).total_seconds(), max((end - start).total_seconds(), 0.01)
            axes.barh(n, width, left=left, color=COLOURS.get(state, "#888888"), edgecolor="white")
    axes.set_yticks(range(len(rows)), [task.key for task, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel(f"seconds since {first:%Y-%m-%d %H:%M:%S} UTC")
    axes.set_title(f"{details.run.dag_id}: {details.run.run_id} ({details.state})", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def plots() -> Any:
    """The library that draws. Raises InvalidInputError where it is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise InvalidInputError("a picture needs matplotlib. Install it with: pip install 'tidemill[plots]'") from None

    mpl.use("Agg")
    from matplotlib import pyplot

    return pyplot


def spans(task: TaskView) -> list[tuple[datetime, datetime, str]]:
    """Start, end and state of each try that has ended."""
    return [
        (one.started_at, one.ended_at, one.state)
        for one in task.tries
        if one.started_at is not None and one.ended_at is not None
    ]
