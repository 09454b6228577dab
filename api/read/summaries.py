"""The cells of a grid: a state for each task and each group of a run."""

from collections import Counter, defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any

from ...model.run.views import RunDetails, TaskView
from ...model.spec.dag import DagSpec
from ..responses.tasks import shown_name, shown_state

WORST_FIRST = (
    "failed", "upstream_failed", "up_for_retry", "up_for_reschedule", "running", "restarting", "deferred",
    "awaiting_input", "queued", "scheduled", None, "success", "skipped", "removed",
)  # fmt: skip
"""Which of several states stands for all of them (Airflow's order)."""


def summaries(
    spec: DagSpec, details: RunDetails, with_note: Collection[str], version_number: int
) -> list[dict[str, Any]]:
    """A cell for each task, of a mapped one for its instances together, and for each group.

    *with_note*: the tasks that have a note. *version_number*: that of the DAG which the run has.
    """
    of_task: dict[str, list[TaskView]] = defaultdict(list)
    of_group: dict[str, list[TaskView]] = defaultdict(list)
    for view in details.tasks:
        of_task[view.task_id].append(view)
        task = spec.by_id.get(view.task_id)
        group = task.group if task is not None else None
        while group:
            of_group[group].append(view)
            group = group.rpartition(".")[0]
    cells = [
        _cell(name, shown_name(spec, name), views, together=name in spec.mapped) for name, views in of_task.items()
    ]
    for cell in cells:
        cell["has_note"] = cell["task_id"] in with_note
    cells += [_cell(name, name, views, together=True) for name, views in of_group.items()]
    # Where it is null, the web takes it that there is no such instance, and leads to the task alone.
    return [{**cell, "dag_version_number": version_number} for cell in cells]


def aggregate(states: Counter[str | None]) -> str | None:
    """The state that stands for all of them."""
    return next((state for state in WORST_FIRST if states.get(state)), None)


def _cell(name: str, shown: str, views: list[TaskView], *, together: bool) -> dict[str, Any]:
    states = Counter(shown_state(view.state) for view in views)
    starts = [view.started_at for view in views if view.started_at is not None]
    ends = [view.ended_at for view in views if view.ended_at is not None]
    return {
        "task_id": name,
        "task_display_name": shown,
        "state": aggregate(states),
        "child_states": {state or "none": n for state, n in states.items()} if together else None,
        "min_start_date": _text(min(starts, default=None)),
        "max_end_date": _text(max(ends, default=None)),
        "has_note": False,
    }


def _text(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None
