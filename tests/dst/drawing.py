"""Draws installations by a seed, so that what is hard to keep is met: few features at a time, small limits, short
histories, and many things at one instant."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemill.model.pool.state import PLENTY
from tidemill.model.spec.dag import read_dag

from .drawn_tasks import KINDS, RULES, DrawnTasks
from .hunts import every_hunt
from .installation import Happening, Plan

HOUR = timedelta(hours=1)
FAULTS = (
    "kill", "cut_off", "service_away", "evict_all", "skew", "copy", "restore", "terminate_any", "reset_any",
    "cancel_any",
)  # fmt: skip
RATES = ("slow", "evict", "unsticky", "thinks_long", "dies_at_task", "dies_after_task", "dies_before_telling")
PEOPLE = {
    "trigger": 4, "trigger_many": 1, "trigger_dated": 2, "signal_trigger": 2, "pause": 2, "clear": 4, "mark": 3,
    "mark_run": 2, "register": 2, "backfill": 2, "change_backfill": 1.5, "delete_run": 1, "set_conf": 0.8,
    "set_pool": 1,
    "answer": 1.5, "emit": 2, "unqueue": 0.5, "cancel_run": 0.7, "pause_asset": 0.7, "stale": 0.5, "broken": 0.5,
    "terminate_run": 0.6, "reset_run": 0.8, "revise_past": 3,
}  # fmt: skip
"""What people do, and how often each where a seed has it."""
OF_ASSETS = ("emit", "unqueue", "pause_asset")
HUNTS = 24
"""How many a seed has at most, of those that can be caught in it."""
WIDE = 2 * PLENTY
"""The slots of a pool in which runs may pass slots on from task to task."""
TWO_RELEASES = 0.2
"""The share of seeds in which workers of the last release take part."""


def draw(seed: int) -> Plan:
    """The installation of *seed*."""
    return Drawing(seed).plan()


class Drawing:
    """What one seed has drawn so far."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"plan {seed}")
        self.seed = seed
        day = self.random.choice(((2026, 1, 1), (2026, 3, 27), (2026, 10, 23), (2024, 2, 28)))
        self.start = datetime(*day, tzinfo=UTC)
        self.base = self.random.choice((HOUR / 6, HOUR / 6, HOUR, 6 * HOUR, 24 * HOUR))
        self.seconds = self.base.total_seconds() * self.random.randint(2, 5 if self.base <= HOUR else 3)
        self.assets = [f"asset{n}" for n in range(self.random.choice((0, 0, 1, 2)))]
        self.rules = self.random.sample(RULES, 3)
        self.pools = {
            f"pool{n}": self.random.choice((1, 1, 2, 3, WIDE)) for n in range(self.random.choice((0, 1, 1, 2)))
        }
        self.kinds = ["bash", *self.random.sample([kind for kind in KINDS if kind != "bash"], 3)]
        self.people = self.random.sample([*PEOPLE], self.random.choice((3, 6, len(PEOPLE))))
        self._moments: list[float] = []

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def has(self, feature: str, share: float) -> bool:
        """Whether something has *feature*, which a seed has never, as often as *share*, or often.

        Two rare things together are rarer than any time allows for; where each seed is fond of some of them, they
        meet (swarm testing).
        """
        fond = random.Random(f"{feature} {self.seed}").choice((0, 0, 1, 4))
        return self.chance(min(share * fond, 0.8))

    def plan(self) -> Plan:
        names = [f"dag{n}" for n in range(self.random.choice((1, 1, 1, 2, 2, 3)))]
        dags = [self.dag(name, names) for name in names]
        two_releases = random.Random(f"releases {self.seed}").random() < TWO_RELEASES
        for dag in dags if two_releases else ():
            dag.pop("rerun_with_latest_version", None)  # the last release knows nothing of it
        if two_releases:
            self.people = [name for name in self.people if name != "unqueue"]
        happenings = self.happenings(dags)
        troubled = self.chance(0.75)
        if troubled:
            happenings += self.faults()
        happenings.sort(key=lambda each: each.at)
        return Plan(
            seed=self.seed,
            start=self.start,
            seconds=self.seconds,
            dags=dags,
            by_bundle=self.chance(0.2),
            pools=self.pools,
            parallelism=self.random.choice((None, None, None, None, 1, 2, 4)),
            workers=self.random.choice((1, 2, 3)),
            cached=self.random.choice((2, 20, 100)),
            suggests_from=self.random.choice((20, 30, 60, 4096)),
            retention=self.random.choice((10 * 365 * 86400.0, 86400.0 * 3)),
            happenings=happenings,
            hunts=self.hunts(two_releases=two_releases) if self.chance(0.85) else [],
            rates=self.rates(troubled=troubled),
            two_releases=two_releases,
        )

    def rates(self, *, troubled: bool) -> dict[str, float]:
        """Each kind of fault is switched on or off as a whole."""
        rates: dict[str, float] = {}
        if troubled:
            rates = {name: self.random.choice((0.002, 0.02)) for name in RATES if self.chance(0.3)}
            if self.chance(0.25):
                rates["evict"] = self.random.choice((0.02, 0.1, 0.3))
            if self.chance(0.2):
                rates["activity_raises"] = 0.02
            if self.chance(0.3):
                rates["notice_fails"] = 0.5
            if self.chance(0.2):
                rates["told_twice"] = 0.1
            if self.chance(0.2):
                rates["timetable_raises"] = 0.4
        if self.chance(0.3):
            rates["counts_in_parts"] = 0.5
        if self.chance(0.3):
            rates["disrupted"] = 0.1
        rates["task_fails"] = self.random.choice((0.0, 0.1, 0.2, 0.4, 0.8))
        return rates

    # DAGs

    def dag(self, dag_id: str, names: list[str]) -> dict[str, Any]:
        fields: dict[str, Any] = {"dag_id": dag_id, "heartbeat_timeout": self.random.choice((10, 60, 300))}
        fields |= self.schedule()
        limits = (1, 1, 2, 3, 16)
        fields["max_active_runs"] = 1 if fields.get("schedule") == "@continuous" else self.random.choice(limits)
        fields["max_active_tasks"] = self.random.choice(limits)
        tasks = DrawnTasks(self, dag_id, names)
        fields["tasks"] = tasks.draw()
        fields |= {"groups": tasks.groups} if tasks.groups else {}
        if "revise_past" in self.people and self.chance(0.6):
            self.random.choice(fields["tasks"])["depends_on_past"] = True
        optional: dict[str, tuple[float, Callable[[], Any]]] = {
            "is_paused_upon_creation": (0.08, lambda: True),
            "fail_fast": (0.12, lambda: self.without_trigger_rules(fields["tasks"])),
            "max_consecutive_failed_dag_runs": (0.15, lambda: self.random.choice((1, 2, 3))),
            "dagrun_timeout": (0.12, lambda: self.random.choice((100, 600, 7200))),
            "deadline": (0.1, lambda: self.random.choice((60, 3600))),
            "callbacks": (0.15, self.callbacks),
            "asset_backlog": (0.2, lambda: "airflow"),
            "allow_trigger_in_future": (0.1, lambda: True),
            "rerun_with_latest_version": (0.1, lambda: True),
        }
        for name, (share, value) in optional.items():
            if self.has(name, share):
                fields[name] = value()
        return self.valid(fields)

    @staticmethod
    def without_trigger_rules(tasks: list[dict[str, Any]]) -> bool:
        """True: fail_fast goes with no trigger rule but the usual one."""
        for task in tasks:
            task.pop("trigger_rule", None)
        return True

    @staticmethod
    def valid(fields: dict[str, Any]) -> dict[str, Any]:
        """*fields*, without what does not go together."""
        if _is_valid(fields):
            return fields
        for name in ("fail_fast", "jitter", "callbacks", "allow_trigger_in_future"):
            fields.pop(name, None)
        for name in ("start_date", "end_date", "do_xcom_push", "trigger_rule"):
            for task in fields["tasks"] if not _is_valid(fields) else ():
                task.pop(name, None)
        if not _is_valid(fields):
            fields.pop("groups", None)
            fields["tasks"] = [
                {
                    "kind": "bash",
                    "command": "x",
                    **{name: task[name] for name in ("task_id", "upstream") if name in task},
                }
                for task in fields["tasks"]
            ]
            for task in fields["tasks"]:
                task["task_id"] = task["task_id"].replace(".", "_")
                task["upstream"] = [above.replace(".", "_") for above in task.get("upstream", [])]
        return fields

    def schedule(self) -> dict[str, Any]:
        drawn = self.random.random()
        if self.assets and drawn < 0.4:
            return self.asset_schedule()
        if drawn < 0.5:
            return {"schedule": None}
        if drawn < 0.54:
            return {"schedule": "@once", "start_date": self.start.isoformat()}
        if drawn < 0.57:
            end = (self.start + self.base).isoformat()
            return {"schedule": "@continuous", "start_date": self.start.isoformat(), "end_date": end}
        return self.periodic()

    def periodic(self) -> dict[str, Any]:
        minutes = int(self.base.total_seconds() // 60)
        cron = {10: "*/10 * * * *", 60: "0 * * * *", 360: "0 */6 * * *", 1440: "30 2 * * *"}[minutes]
        forms: list[Any] = [
            cron,
            cron,
            self.base.total_seconds(),
            {"kind": "cron_trigger", "expression": cron},
            {"kind": "delta_trigger", "delta": self.base.total_seconds()},
            {"kind": "cron_partition", "expression": cron},
        ]
        earlier = self.base * self.random.choice((0, 0, 1, 3))
        fields = {
            "schedule": self.random.choice(forms),
            "start_date": (self.start - earlier).isoformat(),
            "end_date": (self.start + timedelta(seconds=self.seconds)).isoformat(),
            "catchup": self.chance(0.6),
        }
        if self.chance(0.2):
            fields["timezone"] = self.random.choice(("Europe/Berlin", "America/New_York"))
        if self.has("jitter", 0.2):
            fields["jitter"] = self.base.total_seconds() / 4
        return fields

    def asset_schedule(self) -> dict[str, Any]:
        leaves: list[dict[str, Any]] = [{"kind": "asset", "name": name} for name in self.assets]
        if self.has("watchers", 0.3):
            trigger = {"kind": "files", "url": "s3://landing/"}
            leaves[0]["watchers"] = [{"name": "w", "trigger": trigger}]
        condition: dict[str, Any] = leaves[0]
        if len(leaves) > 1:
            condition = {"kind": self.random.choice(("all", "all", "any")), "of": leaves}
        fields: dict[str, Any] = {"schedule": {"kind": "asset", "condition": condition}, "catchup": self.chance(0.3)}
        if fields["catchup"]:
            fields["start_date"] = self.start.isoformat()
        if self.chance(0.25):
            fields["schedule"] = {"kind": "partitioned_asset", "partitioned": {"assets": condition}}
        elif self.chance(0.25):
            fields |= self.periodic()
            timed = fields["schedule"]
            form = {"kind": "cron_trigger", "expression": timed} if isinstance(timed, str) else timed
            if isinstance(form, dict) and form["kind"] != "cron_partition":
                fields["schedule"] = {"kind": "asset_or_time", "timetable": form, "condition": condition}
        return fields

    def callbacks(self) -> dict[str, Any]:
        notifier = {"kind": "command", "command": "true"}
        events = ("on_success_callback", "on_failure_callback", "deadline_miss_callback", "sla_miss_callback",
                  "on_retry_callback", "on_execute_callback", "on_skipped_callback")  # fmt: skip
        return {event: [notifier] for event in events if self.chance(0.8)}

    # What happens

    def at(self) -> float:
        """When something happens: at a moment of the schedule, with something else, or at any time."""
        drawn = self.random.random()
        if drawn < 0.35:
            tick = self.base.total_seconds() * self.random.randint(0, int(self.seconds / self.base.total_seconds()))
            at = max(0.0, tick + self.random.choice((-0.01, 0.0, 0.02, 0.05, 0.2, 1.5, 30.0)))
        elif drawn < 0.65 and self._moments:
            at = self.random.choice(self._moments) + self.random.choice((0.0, 0.0, 0.005, 0.03, 0.2, 2.0, 20.0))
        else:
            at = self.random.random() * self.seconds
        self._moments.append(min(at, self.seconds))
        return self._moments[-1]

    def after(self, at: float) -> float:
        """A moment not long after *at*."""
        at += self.random.random() * self.random.choice((0.1, 60.0, min(self.seconds - at, 7200)))
        self._moments.append(at)
        return at

    def happenings(self, dags: list[dict[str, Any]]) -> list[Happening]:
        names = [name for name in self.people if self.assets or name not in OF_ASSETS]
        made = []
        for _ in range(self.random.choice((0, 3, 6, 10, 14)) if names else 0):
            dag = self.random.choice(dags)
            name = self.random.choices(names, [PEOPLE[name] for name in names])[0]
            made += self.action(name, dag)
        return made

    def action(self, name: str, dag: dict[str, Any]) -> list[Happening]:
        at, random_ = self.at(), self.random
        arguments: dict[str, Any] = {"dag_id": dag["dag_id"], "choice": random_.random()}
        undone = {"pause": "unpause", "stale": "restore_file", "broken": "restore_file", "pause_asset": "unpause_asset"}
        if name in ("clear", "mark"):
            arguments |= {"task": random_.choice(dag["tasks"])["task_id"], "downstream": random_.random() < 0.5}
            arguments["upstream"] = random_.random() < 0.2
            arguments["state"] = random_.choice(("success", "failed", "skipped"))
            arguments["only_failed"] = random_.random() < 0.2
        if name == "revise_past":
            looked_at = [
                task for task in dag["tasks"] if task.get("depends_on_past") or task.get("wait_for_downstream")
            ]
            arguments |= {"task": random_.choice(looked_at or dag["tasks"])["task_id"]}
            arguments |= {"state": random_.choice((None, None, "failed", "success"))}
            arguments |= {"then": random_.choice((0.0, 0.05, 1.0, 20.0))}
        if name == "mark_run":
            arguments["state"] = random_.choice(("success", "failed"))
        if name == "trigger_dated":
            away = self.base * random_.choice((-1, 0, 0, 1)) + timedelta(seconds=random_.choice((0, 0, 40)))
            arguments["logical_date"] = (self.start + timedelta(seconds=at) + away).isoformat()
            arguments["later"] = random_.choice((0, 0, 300))
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
        if name in OF_ASSETS:
            arguments["asset"] = random_.choice(self.assets)
            arguments["key"] = random_.choice((None, None, "a", "b"))
        made = [Happening(at, name, arguments)]
        if name == "emit":  # several at once wait for a DAG together
            made *= random_.choice((1, 2, 3))
        if name == "set_conf":  # a run has to wait for its date
            later = self.start + timedelta(seconds=at + 7.5)
            made.insert(
                0, Happening(at, "trigger_dated", arguments | {"logical_date": later.isoformat(), "later": 300})
            )
            made[-1] = Happening(at + 1.0, name, arguments)
        if name in undone:
            made.append(Happening(self.after(at), undone[name], arguments))
        if name == "pause_asset":  # what is held has to be there
            made.append(Happening((at + made[-1].at) / 2, "emit", arguments | {"key": None}))
        return made

    def hunts(self, *, two_releases: bool) -> list[dict[str, Any]]:
        """A part of all that there are, another one for each seed, so that each has its turn."""
        every = every_hunt()
        random.Random("hunts").shuffle(every)
        first = (self.seed * HUNTS) % len(every)
        chosen = (every + every)[first : first + HUNTS]
        delays = (0.0, 0.0, 0.002, 0.02, 0.05, 0.5, 2.0)
        return [
            {"kind": kind, "sees": sees, "does": does, "delay": self.random.choice(delays)}
            for kind, sees, does in chosen
            if not (two_releases and does == "unqueue")
        ]

    def changes(self, dag: dict[str, Any]) -> dict[str, Any]:
        """What another version of the DAG has otherwise."""
        options: list[dict[str, Any]] = [
            {"max_active_runs": self.random.choice((1, 2, 4))},
            {"description": f"version {self.random.random():.6f}"},
            {"max_active_tasks": self.random.choice((1, 4))},
        ]
        if len(dag["tasks"]) > 1 and not dag.get("groups"):
            gone = dag["tasks"][-1]["task_id"]
            options.append({"tasks": [task for task in dag["tasks"] if task["task_id"] != gone]})
        if dag.get("end_date") and isinstance(dag["schedule"], str | float):
            options.append({"schedule": self.base.total_seconds() * self.random.choice((1, 2))})
        changes = self.random.choice(options)
        if dag.get("schedule") == "@continuous":
            changes.pop("max_active_runs", None)
        return changes

    def faults(self) -> list[Happening]:
        made = []
        kinds = [name for name in FAULTS if self.chance(0.4)]
        for _ in range(self.random.choice((1, 2, 4)) if kinds else 0):
            name = self.random.choice(kinds)
            away = self.base.total_seconds() * 2.5  # several runs fall due meanwhile
            pause = self.random.choice((2, 20, 90, 400, away if name == "service_away" else 60))
            arguments = {"worker": self.random.randrange(3), "pause": pause, "choice": self.random.random()}
            arguments["skew"] = self.random.choice((-600, -5, 0, 5, 600))
            made.append(Happening(self.at(), name, arguments))
        return made


def _is_valid(fields: dict[str, Any]) -> bool:
    try:
        read_dag(fields)
    except ValueError:
        return False
    return True
