"""Random installations: DAGs, pools, people and trouble, drawn by a seed, as plain data that can be made smaller."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemill.model.bundle.data import Listing
from tidemill.model.pool.state import PLENTY
from tidemill.model.spec.dag import DagSpec, read_dag

HOUR = timedelta(hours=1)
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
FAULTS = (
    "kill", "cut_off", "service_away", "evict_all", "skew", "copy", "restore", "terminate_any", "reset_any",
    "cancel_any",
)  # fmt: skip
RATES = ("slow", "evict", "unsticky", "thinks_long", "dies_at_task", "dies_after_task", "dies_before_telling")
WIDE = 2 * PLENTY
"""The slots of a pool in which runs may pass slots on from task to task."""
TWO_RELEASES = 0.25
"""The share of seeds in which workers of the last release take part."""


@dataclass
class Happening:
    """Something that a person does, or that goes wrong, *at* a time from the beginning."""

    at: float
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass
class Plan:
    """All that a seed has drawn. Times are in seconds from *start*."""

    seed: int
    start: datetime
    seconds: float
    """How long people work and things go wrong; then all is left to come to its end."""
    dags: list[dict[str, Any]]
    by_bundle: bool
    pools: dict[str, int]
    parallelism: int | None
    workers: int
    cached: int
    suggests_from: int
    retention: float
    happenings: list[Happening]
    rates: dict[str, float]
    two_releases: bool = False
    """Whether workers are of the last release and of this one in turns, until all is calm."""

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON, from which `from_json` makes it again."""
        return {**asdict(self), "start": self.start.isoformat()}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Plan:
        """The plan that `to_json` has written."""
        happenings = [Happening(**each) for each in fields["happenings"]]
        start = datetime.fromisoformat(fields["start"])
        return cls(**{**fields, "happenings": happenings, "start": start})

    @property
    def size(self) -> int:
        """How much there is that could be left out."""
        return len(self.happenings) + len(self.rates) + sum(1 + len(dag["tasks"]) for dag in self.dags)


class Folder:
    """The DAG files of a bundle, one for each DAG, as people have left them."""

    def __init__(self, specs: list[DagSpec]) -> None:
        self._files: dict[str, list[DagSpec] | None] = {f"{spec.dag_id}.py": [spec] for spec in specs}
        self._versions = {(spec.dag_id, spec.version): spec for spec in specs}
        self._changes = 0

    def put(self, spec: DagSpec) -> None:
        """A person saves another version of a DAG's file."""
        self._files[f"{spec.dag_id}.py"] = [spec]
        self._versions[spec.dag_id, spec.version] = spec
        self._changes += 1

    def break_file(self, dag_id: str) -> None:
        self._files[f"{dag_id}.py"] = None
        self._changes += 1

    def remove(self, dag_id: str) -> None:
        self._files.pop(f"{dag_id}.py", None)
        self._changes += 1

    def listing(self, _: str) -> Listing:
        files = {path: self.content("", path)[0] for path in sorted(self._files)}
        return Listing(digest=_digest(str(files)), files=files)

    def content(self, _: str, path: str) -> tuple[str, list[DagSpec] | None]:
        specs = self._files.get(path, [])
        return _digest("broken" if specs is None else "".join(spec.version for spec in specs)), specs

    def version(self, dag_id: str, version: str) -> DagSpec:
        return self._versions[dag_id, version]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def draw(seed: int) -> Plan:
    """The installation of *seed*."""
    return _Drawing(seed).plan()


class _Drawing:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"plan {seed}")
        self.seed = seed
        day = self.random.choice(((2026, 1, 1), (2026, 3, 27), (2026, 10, 23), (2024, 2, 28)))
        self.start = datetime(*day, tzinfo=UTC)
        self.base = self.random.choice((HOUR / 6, HOUR, 6 * HOUR, 24 * HOUR))
        periods = self.random.randint(3, 9) if self.base <= HOUR else self.random.randint(2, 4)
        self.seconds = self.base.total_seconds() * periods
        self.assets = [f"asset{n}" for n in range(self.random.choice((0, 0, 1, 2)))]
        self.rules = random.Random(f"rules {seed}").sample(RULES, 2)  # few of them, so that each meets all that it may
        self.pools = {f"pool{n}": self.random.choice((1, 2, 3, WIDE)) for n in range(self.random.choice((0, 1, 1, 2)))}

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def has(self, feature: str, share: float) -> bool:
        """Whether something has *feature*, which a seed has never, as often as *share*, or often.

        Two rare things together are rarer than any time allows for; where each seed is fond of some of them, they
        meet (swarm testing).
        """
        fond = random.Random(f"{feature} {self.seed}").choice((0, 1, 1, 4))
        return self.chance(min(share * fond, 0.8))

    def plan(self) -> Plan:
        names = [f"dag{n}" for n in range(self.random.choice((1, 1, 2, 2, 3)))]
        dags = [self.dag(name, names) for name in names]
        happenings = self.people(dags)
        troubled = self.chance(0.8)
        if troubled:
            happenings += self.faults()
        happenings.sort(key=lambda each: each.at)
        return Plan(
            seed=self.seed,
            start=self.start,
            seconds=self.seconds,
            dags=dags,
            by_bundle=self.chance(0.25),
            pools=self.pools,
            parallelism=self.random.choice((None, None, None, 1, 2, 4)),
            workers=self.random.choice((1, 2, 3)),
            cached=self.random.choice((2, 20, 100)),
            suggests_from=self.random.choice((60, 100, 200, 4096)),
            retention=self.random.choice((10 * 365 * 86400.0, 86400.0 * 3)),
            happenings=happenings,
            rates=self.rates() if troubled else {"task_fails": 0.1},
            two_releases=random.Random(f"releases {self.seed}").random() < TWO_RELEASES,
        )

    def rates(self) -> dict[str, float]:
        """Each kind of fault is switched on or off as a whole."""
        rates = {name: self.random.choice((0.002, 0.02)) for name in RATES if self.chance(0.4)}
        if self.chance(0.4):
            rates["evict"] = self.random.choice((0.02, 0.1, 0.3))
        if self.chance(0.3):
            rates["activity_raises"] = 0.02
        if self.chance(0.3):
            rates["told_twice"] = 0.1
        rates["task_fails"] = self.random.choice((0.0, 0.1, 0.1, 0.4))
        return rates

    # DAGs

    def dag(self, dag_id: str, names: list[str]) -> dict[str, Any]:
        fields: dict[str, Any] = {"dag_id": dag_id, "heartbeat_timeout": self.random.choice((10, 60, 300))}
        fields |= self.schedule()
        fields["max_active_runs"] = 1 if fields.get("schedule") == "@continuous" else self.random.choice((1, 2, 3, 16))
        fields["max_active_tasks"] = self.random.choice((1, 2, 3, 16))
        fields["tasks"] = self.tasks(dag_id, names)
        optional = {
            "is_paused_upon_creation": lambda: True,
            "fail_fast": lambda: self.without_trigger_rules(fields["tasks"]),
            "max_consecutive_failed_dag_runs": lambda: self.random.choice((1, 2, 3)),
            "dagrun_timeout": lambda: self.random.choice((600, 7200)),
            "deadline": lambda: self.random.choice((60, 3600)),
            "callbacks": self.callbacks,
            "asset_backlog": lambda: "airflow",
        }
        for name, value in optional.items():
            if self.has(name, 0.1):
                fields[name] = value()
        return self.valid(fields)

    @staticmethod
    def without_trigger_rules(tasks: list[dict[str, Any]]) -> bool:
        """True: fail_fast goes with no trigger rule but the usual one."""
        for task in tasks:
            task.pop("trigger_rule", None)
        return True

    def valid(self, fields: dict[str, Any]) -> dict[str, Any]:
        """*fields*, without what does not go together."""
        try:
            read_dag(fields)
        except ValueError:
            for name in ("fail_fast", "jitter", "callbacks"):
                fields.pop(name, None)
        try:
            read_dag(fields)
        except ValueError:
            plain = ("kind", "task_id", "upstream", "command", "outlets")
            fields["tasks"] = [
                {**{name: task[name] for name in plain if name in task and task["kind"] in ("bash", "empty")}}
                or {"kind": "empty", "task_id": task["task_id"]}
                for task in fields["tasks"]
            ]
        return fields

    def schedule(self) -> dict[str, Any]:
        drawn = self.random.random()
        if self.assets and drawn < 0.3:
            return self.asset_schedule()
        if drawn < 0.4:
            return {"schedule": None}
        if drawn < 0.45:
            return {"schedule": "@once", "start_date": self.start.isoformat()}
        if drawn < 0.48:
            end = (self.start + self.base).isoformat()
            return {"schedule": "@continuous", "start_date": self.start.isoformat(), "end_date": end}
        return self.periodic()

    def periodic(self) -> dict[str, Any]:
        minutes = int(self.base.total_seconds() // 60)
        cron = {10: "*/10 * * * *", 60: "0 * * * *", 360: "0 */6 * * *", 1440: "30 2 * * *"}[minutes]
        forms: list[Any] = [
            cron,
            self.base.total_seconds(),
            {"kind": "cron_trigger", "expression": cron},
            {"kind": "delta_trigger", "delta": self.base.total_seconds()},
            {"kind": "cron_partition", "expression": cron},
        ]
        earlier = self.base * self.random.choice((0, 0, 1, 3, 6))
        fields = {
            "schedule": self.random.choice(forms),
            "start_date": (self.start - earlier).isoformat(),
            "end_date": (self.start + timedelta(seconds=self.seconds)).isoformat(),
            "catchup": self.chance(0.6),
        }
        if self.chance(0.3):
            fields["timezone"] = self.random.choice(("Europe/Berlin", "America/New_York"))
        if self.chance(0.15):
            fields["jitter"] = self.base.total_seconds() / 4
        return fields

    def asset_schedule(self) -> dict[str, Any]:
        leaves = [{"kind": "asset", "name": name} for name in self.assets]
        condition: dict[str, Any] = leaves[0]
        if len(leaves) > 1:
            condition = {"kind": self.random.choice(("all", "any")), "of": leaves}
        fields: dict[str, Any] = {"schedule": {"kind": "asset", "condition": condition}, "catchup": self.chance(0.3)}
        if fields["catchup"]:
            fields["start_date"] = self.start.isoformat()
        if self.chance(0.25):
            fields["schedule"] = {"kind": "partitioned_asset", "partitioned": {"assets": condition}}
        elif self.chance(0.3):
            fields |= self.periodic()
            timed = fields["schedule"]
            form = {"kind": "cron_trigger", "expression": timed} if isinstance(timed, str) else timed
            if isinstance(form, dict) and form["kind"] != "cron_partition":
                fields["schedule"] = {"kind": "asset_or_time", "timetable": form, "condition": condition}
        return fields

    def callbacks(self) -> dict[str, Any]:
        notifier = {"kind": "command", "command": "true"}
        events = ("on_success_callback", "on_failure_callback", "deadline_miss_callback", "sla_miss_callback")
        return {event: [notifier] for event in events}

    def tasks(self, dag_id: str, names: list[str]) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for n in range(self.random.choice((1, 2, 3, 3, 4, 5))):
            task = self.task(n, dag_id, names, made)
            above = [other["task_id"] for other in made if self.chance(0.5)]
            task["upstream"] = sorted({*task.get("upstream", []), *above})
            made.append(task)
        if len(made) >= 3 and self.chance(0.2):
            self.add_setup(made)
        return made

    def add_setup(self, made: list[dict[str, Any]]) -> None:
        made[0] = {"kind": "bash", "task_id": made[0]["task_id"], "command": "x", "is_setup": True}
        last = made[-1]
        above = sorted({*last.get("upstream", []), made[0]["task_id"], made[1]["task_id"]})
        made[-1] = {
            "kind": "bash", "task_id": last["task_id"], "command": "x", "is_teardown": True, "upstream": above,
            "on_failure_fail_dagrun": self.chance(0.5),
        }  # fmt: skip
        if made[0]["task_id"] not in made[1].get("upstream", []):
            made[1]["upstream"] = sorted({*made[1].get("upstream", []), made[0]["task_id"]})

    def task(self, n: int, dag_id: str, names: list[str], made: list[dict[str, Any]]) -> dict[str, Any]:
        kind = self.random.choices(
            ("bash", "empty", "list", "branch", "short_circuit", "sensor", "airflow", "approval", "wait_until",
             "trigger_dag", "activity", "latest_only", "mapped"),
            (6, 1, 2, 1, 1, 1.5, 1.5, 0.6, 0.6, 0.6, 0.5, 0.4, 2),
        )[0]  # fmt: skip
        task_id = f"t{n}"
        lists = [task["task_id"] for task in made if task["task_id"].startswith("list")]
        task: dict[str, Any] = {"kind": "bash", "task_id": task_id, "command": "x"}
        match kind:
            case "empty" | "latest_only":
                task = {"kind": kind, "task_id": task_id}
            case "list":
                task = {"kind": "python", "task_id": f"list{n}"}
            case "branch" | "short_circuit" | "sensor":
                task = {"kind": kind, "task_id": task_id}
                if kind == "sensor":
                    task |= {"poke_interval": self.random.choice((30, 300)), "timeout": 1800}
                    task["soft_fail"] = self.chance(0.3)
            case "airflow":
                task = {"kind": "airflow", "task_id": task_id, "operator": "package.Operator"}
            case "approval":
                task = {"kind": "approval", "task_id": task_id, "timeout": self.random.choice((600, 3600))}
                if self.chance(0.5):
                    task["defaults"] = ["Approve"]
            case "wait_until":
                task = {"kind": "wait_until", "task_id": task_id, "delta": self.random.choice((60, 1800))}
            case "trigger_dag" if len(names) > 1:
                other = self.random.choice([name for name in names if name > dag_id] or [dag_id])
                if other != dag_id:
                    task = {"kind": "trigger_dag", "task_id": task_id, "trigger_dag_id": other}
            case "activity":
                task = {"kind": "activity", "task_id": task_id, "activity_type": "foreign", "queue": "others"}
                task["execution_timeout"] = 3600  # nothing else says that its worker is lost
            case "mapped":
                source: Any = {"__xcom__": lists[0], "key": "return_value"} if lists and self.chance(0.7) else [1, 2, 3]
                task = {"kind": "python", "task_id": task_id, "expand": {"by": {"value": source}}}
                if lists and isinstance(source, dict):
                    task["upstream"] = [lists[0]]
            case _:
                pass
        return task | self.options(task)

    def options(self, task: dict[str, Any]) -> dict[str, Any]:
        draws: dict[str, tuple[float, Callable[[], Any]]] = {
            "retries": (0.4, lambda: self.random.choice((1, 2))),
            "retry_delay": (0.6, lambda: self.random.choice((0, 1, 60, 300))),
            "retry_exponential_backoff": (0.1, lambda: True),
            "trigger_rule": (0.25, lambda: self.random.choice(self.rules)),
            "depends_on_past": (0.12 if self.base <= HOUR else 0, lambda: True),
            "wait_for_downstream": (0.05 if self.base <= HOUR else 0, lambda: True),
            "priority_weight": (0.2, lambda: self.random.randint(1, 5)),
            "max_active_tis_per_dag": (0.12, lambda: self.random.choice((1, 2))),
            "max_active_tis_per_dagrun": (0.08, lambda: 1),
            "sla": (0.05, lambda: 600),
            "callbacks": (0.08, self.callbacks),
        }
        chosen = {name: value() for name, (share, value) in draws.items() if self.chance(share)}
        if self.pools and self.chance(0.35):
            chosen["pool"] = self.random.choice([*self.pools])
            chosen["pool_slots"] = self.random.choice((1, 1, min(2, self.pools[chosen["pool"]])))
        if self.assets and self.chance(0.25):
            chosen["outlets"] = [{"kind": "asset", "name": self.random.choice(self.assets)}]
        if task["kind"] == "activity":
            for name in ("pool", "pool_slots"):
                chosen.pop(name, None)
        return chosen

    # What happens

    def at(self) -> float:
        return self.random.random() * self.seconds

    def after(self, at: float) -> float:
        """A moment not long after *at*."""
        return at + self.random.random() * min(self.seconds - at, 7200)

    def people(self, dags: list[dict[str, Any]]) -> list[Happening]:
        made = []
        for _ in range(self.random.choice((0, 2, 5, 10))):
            dag = self.random.choice(dags)
            name = self.random.choices(
                ("trigger", "trigger_many", "signal_trigger", "pause", "clear", "mark", "mark_run", "register",
                 "backfill", "change_backfill", "delete_run", "set_conf", "set_pool", "answer", "emit", "cancel_run",
                 "pause_asset", "stale", "terminate_run", "reset_run", "broken"),
                (4, 1, 2, 2, 3, 2, 2, 1.5, 2, 1, 1, 0.6, 1, 1, 2 if self.assets else 0, 0.7,
                 0.5 if self.assets else 0, 0.4, 0.6, 0.6, 0.4),
            )[0]  # fmt: skip
            made += self.action(name, dag)
        return made

    def action(self, name: str, dag: dict[str, Any]) -> list[Happening]:
        at, random_ = self.at(), self.random
        arguments: dict[str, Any] = {"dag_id": dag["dag_id"], "choice": random_.random()}
        if name == "pause":
            return [
                Happening(at, "pause", arguments),
                Happening(self.after(at), "unpause", arguments),
            ]
        if name in ("stale", "broken"):
            return [
                Happening(at, name, arguments),
                Happening(self.after(at), "restore_file", arguments),
            ]
        if name in ("clear", "mark"):
            arguments |= {"task": random_.choice(dag["tasks"])["task_id"], "downstream": random_.random() < 0.5}
            arguments["state"] = random_.choice(("success", "failed", "skipped"))
            arguments["only_failed"] = random_.random() < 0.3
        if name == "mark_run":
            arguments["state"] = random_.choice(("success", "failed"))
        if name == "register":
            arguments["changes"] = self.changes(dag)
        if name == "backfill":
            back = timedelta(seconds=self.seconds) * random_.random()
            arguments |= {
                "from": (self.start - back).isoformat(), "to": (self.start + back / 2).isoformat(),
                "max_active_runs": random_.choice((1, 2, 5)), "run_backwards": random_.random() < 0.3,
                "reprocess_behavior": random_.choice(("none", "failed", "completed")),
            }  # fmt: skip
        if name == "change_backfill":
            arguments["change"] = random_.choice(("pause_backfill", "unpause_backfill", "cancel_backfill"))
        if name == "set_pool":
            arguments |= {"pool": random_.choice([*self.pools] or ["pool0"]), "slots": random_.randint(1, 4)}
        if name in ("emit", "pause_asset"):
            arguments["asset"] = random_.choice(self.assets)
            arguments["key"] = random_.choice((None, "a", "b"))
            if name == "pause_asset":
                return [
                    Happening(at, name, arguments),
                    Happening(self.after(at), "unpause_asset", arguments),
                ]
        return [Happening(at, name, arguments)]

    def changes(self, dag: dict[str, Any]) -> dict[str, Any]:
        """What another version of the DAG has otherwise."""
        options: list[dict[str, Any]] = [
            {"max_active_runs": self.random.choice((1, 2, 4))},
            {"description": f"version {self.random.random():.6f}"},
            {"max_active_tasks": self.random.choice((1, 4))},
        ]
        if dag.get("end_date") and isinstance(dag["schedule"], str | float):
            options.append({"schedule": self.base.total_seconds() * self.random.choice((1, 2))})
        changes = self.random.choice(options)
        if dag.get("schedule") == "@continuous":
            changes.pop("max_active_runs", None)
        return changes

    def faults(self) -> list[Happening]:
        made = []
        kinds = [name for name in FAULTS if self.chance(0.5)]
        for _ in range(self.random.choice((1, 3, 6)) if kinds else 0):
            name = self.random.choice(kinds)
            arguments = {"worker": self.random.randrange(3), "pause": self.random.choice((2, 20, 90, 400))}
            arguments["skew"] = self.random.choice((-600, -5, 0, 5, 600))
            arguments["choice"] = self.random.random()
            made.append(Happening(self.at(), name, arguments))
        return made
