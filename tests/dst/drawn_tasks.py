"""The tasks of a drawn DAG: of few kinds and with few options in each seed, so that rare ones meet."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tidemill.model.spec.references import RETURN_VALUE, XCOM_REFERENCE

if TYPE_CHECKING:
    from .drawing import Drawing

RULES = (
    "all_success",
    "all_done",
    "one_success",
    "one_failed",
    "none_failed",
    "none_failed_min_one_success",
    "all_failed",
    "none_skipped",
    "all_skipped",
    "one_done",
    "all_done_min_one_success",
    "always",
)
KINDS = {
    "bash": 2, "empty": 1.5, "branch": 1.5, "short_circuit": 1, "sensor": 1.5, "airflow": 2, "approval": 1,
    "wait_until": 1, "trigger_dag": 0.6, "activity": 0.6, "latest_only": 0.5, "mapped": 2, "group": 1.5,
    "external": 0.5, "python": 1.5,
}  # fmt: skip
"""The kinds of tasks, and how often each is drawn where a seed has it."""


def reference(task_id: str) -> dict[str, str]:
    """The result of a task, as a DAG names it."""
    return {XCOM_REFERENCE: task_id, "key": RETURN_VALUE}


class DrawnTasks:
    """Draws the tasks of one DAG."""

    def __init__(self, drawing: Drawing, dag_id: str, names: list[str]) -> None:
        self._drawing, self._random = drawing, drawing.random
        self._dag_id, self._names = dag_id, names
        self._made: list[dict[str, Any]] = []
        self.groups: list[dict[str, Any]] = []

    def draw(self) -> list[dict[str, Any]]:
        """The tasks, each below some of those before it."""
        for n in range(self._random.choice((1, 2, 2, 3, 3, 4, 5))):
            for task in self._drawn(n):
                above = [other["task_id"] for other in self._made if self._random.random() < 0.5]
                task["upstream"] = sorted({*task.get("upstream", []), *above} - {task["task_id"]})
                self._made.append(task)
        if len(self._made) >= 3 and self._drawing.has("setup", 0.25):
            self._add_setup()
        return self._made

    def _drawn(self, n: int) -> list[dict[str, Any]]:
        kinds = self._drawing.kinds
        kind = self._random.choices(kinds, [KINDS[kind] for kind in kinds])[0]
        if kind == "group":
            return self._group(n)
        made = [self._task(kind, f"t{n}")]
        if kind == "mapped" and self._random.random() < 0.6:
            source = {"kind": "python", "task_id": f"list{n}"} | self._options("python")
            made[0]["expand"] = {"by": {"value": reference(source["task_id"])}}
            made[0]["upstream"] = [source["task_id"]]
            made.insert(0, source)
        return made

    def _task(self, kind: str, task_id: str) -> dict[str, Any]:
        task: dict[str, Any] = {"kind": "bash", "task_id": task_id, "command": "x"}
        match kind:
            case "empty" | "latest_only" | "branch" | "short_circuit":
                task = {"kind": kind, "task_id": task_id}
                if kind == "short_circuit" and self._random.random() < 0.4:
                    task["ignore_downstream_trigger_rules"] = False
            case "sensor":
                task = {"kind": kind, "task_id": task_id, "poke_interval": self._random.choice((30, 300))}
                task |= {"timeout": self._random.choice((60, 1800)), "soft_fail": self._random.random() < 0.3}
                if self._random.random() < 0.3:
                    task |= {"exponential_backoff": True, "max_wait": 400}
            case "airflow":
                task = {"kind": "airflow", "task_id": task_id, "operator": "package.Operator"}
            case "approval":
                task = {"kind": "approval", "task_id": task_id, "timeout": self._random.choice((600, 3600))}
                drawn = self._random.random()
                task |= {"defaults": ["Approve"]} if drawn < 0.4 else {"soft_fail": True} if drawn < 0.6 else {}
                task["fail_on_reject"] = self._random.random() < 0.5
            case "wait_until":
                task = {"kind": "wait_until", "task_id": task_id, "delta": self._random.choice((60, 1800))}
                if self._random.random() < 0.3:
                    task |= {"timeout": 300, "soft_fail": self._random.random() < 0.5}
            case "trigger_dag":
                others = [name for name in self._names if name > self._dag_id]
                if others:
                    task = {"kind": kind, "task_id": task_id, "trigger_dag_id": self._random.choice(others)}
            case "external":
                others = [name for name in self._names if name != self._dag_id]
                if others:
                    task = {"kind": "external_task", "task_id": task_id, "external_dag_id": others[0], "timeout": 900}
                    task["poke_interval"] = 60
            case "activity":
                task = {"kind": "activity", "task_id": task_id, "activity_type": "foreign", "queue": "others"}
                task["execution_timeout"] = 3600  # nothing else says that its worker is lost
            case "python" if self._made:
                above = self._random.choice(self._made)["task_id"]
                task = {"kind": kind, "task_id": task_id, "args": [reference(above)], "upstream": [above]}
            case "mapped":
                values = [*range(self._random.choice((1, 2, 3)))]
                task = {"kind": "python", "task_id": task_id, "expand": {"by": {"value": values}}}
            case _:
                pass
        return task | self._options(task["kind"])

    def _group(self, n: int) -> list[dict[str, Any]]:
        """Two or three tasks that are mapped together."""
        above = [task["task_id"] for task in self._made if task["task_id"].startswith("list")]
        made: list[dict[str, Any]] = []
        if not above or self._random.random() < 0.5:
            made.append({"kind": "python", "task_id": f"list{n}"} | self._options("python"))
            above = [f"list{n}"]
        values: Any = reference(above[-1]) if self._random.random() < 0.7 else [0, 1]
        self.groups.append({"group_id": f"g{n}", "expand": {"by": {"value": values}}})
        inside: list[str] = []
        for m in range(self._random.choice((2, 2, 3))):
            kind = self._random.choice(("bash", "bash", "branch", "sensor"))
            task = self._task(kind, f"g{n}.t{m}") | {"group": f"g{n}", "upstream": [above[-1], *inside[-1:]]}
            inside.append(task["task_id"])
            made.append(task)
        return made

    def _add_setup(self) -> None:
        """The first task sets up what the last one tears down."""
        made = self._made
        if any("expand" in task or "group" in task for task in (made[0], made[-1])):
            return
        made[0] = {"kind": "bash", "task_id": made[0]["task_id"], "command": "x", "is_setup": True}
        last, above = made[-1], [made[0]["task_id"], made[-2]["task_id"]]
        upstream = sorted({*last.get("upstream", []), *above})
        made[-1] = {
            "kind": "bash", "task_id": last["task_id"], "command": "x", "is_teardown": True, "upstream": upstream,
            "on_failure_fail_dagrun": self._random.random() < 0.5,
        }  # fmt: skip
        if made[0]["task_id"] not in made[1].get("upstream", []):
            made[1]["upstream"] = sorted({*made[1].get("upstream", []), made[0]["task_id"]})

    def _options(self, kind: str) -> dict[str, Any]:
        random_, drawing = self._random, self._drawing
        past = 0.3 if drawing.base <= timedelta(hours=1) else 0
        start = drawing.start
        draws: dict[str, tuple[float, Callable[[], Any]]] = {
            "retries": (0.5, lambda: random_.choice((1, 2, 3))),
            "retry_delay": (0.8, lambda: random_.choice((0, 1, 60, 300))),
            "retry_exponential_backoff": (0.15, lambda: random_.choice((True, 3.0))),
            "max_retry_delay": (0.1, lambda: 200),
            "trigger_rule": (0.3, lambda: random_.choice(drawing.rules)),
            "depends_on_past": (past, lambda: True),
            "wait_for_downstream": (past / 2, lambda: True),
            "ignore_first_depends_on_past": (past / 4, lambda: True),
            "priority_weight": (0.3, lambda: random_.randint(1, 5)),
            "max_active_tis_per_dag": (0.12, lambda: random_.choice((1, 2))),
            "max_active_tis_per_dagrun": (0.1, lambda: 1),
            "sla": (0.08, lambda: 600),
            "callbacks": (0.15, drawing.callbacks),
            "do_xcom_push": (0.05, lambda: False),
            "start_date": (0.04, lambda: (start + drawing.base).isoformat()),
            "end_date": (0.04, lambda: (start + drawing.base).isoformat()),
        }
        chosen = {name: value() for name, (share, value) in draws.items() if drawing.has(name, share)}
        if drawing.pools and drawing.has("pool", 0.4):
            chosen["pool"] = random_.choice([*drawing.pools])
            chosen["pool_slots"] = random_.choice((1, 1, min(2, drawing.pools[chosen["pool"]])))
        if drawing.assets and drawing.has("outlets", 0.4):
            chosen["outlets"] = [{"kind": "asset", "name": random_.choice(drawing.assets)}]
        if kind == "activity":
            for name in ("pool", "pool_slots"):
                chosen.pop(name, None)
        return chosen
