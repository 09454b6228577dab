"""Answers to the recorded questions about assets: tidemill's decisions, in a small world of DAGs and passes."""

import itertools
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from registry import Registry
from tidemill.model.asset.events import AssetEvent
from tidemill.model.asset.gathering import Gathering
from tidemill.model.asset.outlets import OutletEvent, emissions
from tidemill.model.asset.partitioning import Partitioning
from tidemill.model.spec.assets.condition import AssetAll, AssetAny, Condition, aliases_in, assets_in, holds
from tidemill.model.spec.assets.identity import Asset, AssetAlias, AssetRef
from tidemill.model.spec.assets.mappers import Mapper
from tidemill.model.spec.assets.partitioned import Partitioned
from tidemill.model.spec.assets.windows import MinimumCount, WaitForAll
from tidemill.model.spec.tasks import EmptyTask
from tidemill.model.spec.timetables import CronTrigger, DataInterval, TimeRestriction
from tidemill.model.spec.timetables.partition import CronPartition

Case = dict[str, Any]
conditions: TypeAdapter[Any] = TypeAdapter(Condition)
mappers: TypeAdapter[Any] = TypeAdapter(Mapper)
MAX_DAGS, MAX_STARTED = 10, 20


def asset(given: Any) -> Asset:
    fields = {"name": given} if isinstance(given, str) else given
    return Asset.model_validate(fields, extra="forbid")


def condition(given: Any) -> Any:
    """A recorded expression as tidemill has it."""
    if isinstance(given, list):
        return conditions.validate_python({"kind": "all", "of": [condition(part) for part in given]})
    [(kind, inner)] = given.items()
    match kind:
        case "asset":
            return asset(inner)
        case "alias":
            return AssetAlias(name=inner)
        case "ref":
            return AssetRef.model_validate(inner)
        case "any" | "all":
            return conditions.validate_python({"kind": kind, "of": [condition(part) for part in inner]})
    parts = [condition(part) for part in inner]
    return joined("any" if kind == "|" else "all", parts)


def joined(kind: str, parts: list[Any]) -> Any:
    """The operators, from the left: what stands there already takes the next one in."""
    whole = parts[0]
    for part in parts[1:]:
        before = whole.of if whole.kind == kind else (whole,)
        whole = conditions.validate_python({"kind": kind, "of": [*before, part]})
    return whole


def expression(condition: Condition) -> dict[str, Any]:
    """*condition* as Airflow writes it down: {"all": [...]}, {"any": [...]}, {"asset": {...}}, ..."""
    match condition:
        case AssetAll() | AssetAny():
            return {condition.kind: [expression(part) for part in condition.of]}
        case Asset():
            return {"asset": {"uri": condition.uri, "name": condition.name, "group": condition.group}}
        case AssetAlias():
            return {"alias": {"name": condition.name, "group": condition.group}}
        case AssetRef():
            return {"asset_ref": {"name": condition.name} if condition.name is not None else {"uri": condition.uri}}


# asset_identity, asset_condition, asset_partition


GROUPS = {"Asset": "asset", "Dataset": "dataset", "Model": "model"}


def identity(case: Case) -> Any:
    if case["kind"] == "same":
        first, second = map(asset, case["assets"])
        return {"same_asset": first.key == second.key, "equal": first == second}
    given = dict(zip(("name", "uri"), case.get("args", ()), strict=False))
    if len(case.get("args", ())) > 2:
        raise ValueError("at most two arguments are given by their place")
    fields = {"group": GROUPS[case.get("class", "Asset")], **given, **case.get("kwargs", {})}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = Asset.model_validate(fields, extra="forbid")
    shown = {name: getattr(made, name) for name in ("name", "uri", "group", "extra")}
    return {**shown, "warns": True} if told else shown


def evaluated(case: Case) -> Any:
    made = condition(case["expression"])
    known = {leaf.name: leaf.key for leaf in assets_in(made)} | {n: asset(n).key for n in case.get("assets", ())}
    key_of = lambda name: known.get(name, asset(name).key)  # noqa: E731
    links = {alias: [key_of(name) for name in names] for alias, names in case.get("aliases", {}).items()}
    gathering = Gathering(links=links)
    at = datetime.fromisoformat("2024-03-01T00:00:00+00:00")
    for name in case["ready"]:
        name_, uri = key_of(name)
        gathering.rows.append({"name": name_, "uri": uri, "since": at})  # type: ignore[arg-type]
    gathering = Gathering.model_validate(gathering.model_dump(warnings=False))
    for leaf in assets_in(made):  # a condition may name one asset by two uris
        if leaf.name in case["ready"] and leaf.key not in {row.key for row in gathering.rows}:
            gathering.rows.append(gathering.rows[0].model_copy(update={"name": leaf.name, "uri": leaf.uri}))
    inactive = {key_of(name) for name in case.get("inactive", ())}
    ready = holds(made, lambda leaf: gathering.is_there(leaf, inactive))
    return {"ready": ready, "expression": expression(made)}


def mapper(given: Any) -> Any:
    policy = given.get("wait_policy")
    fields = dict(given)
    if policy is not None:
        fields["wait_policy"] = wait_policy(policy).model_dump()
    for name in ("upstream_mapper", "downstream_mapper"):
        if fields.get(name) is not None:
            fields[name] = mapper(fields[name]).model_dump()
    if "mappers" in fields:
        fields["mappers"] = [mapper(one).model_dump() for one in fields["mappers"]]
    return mappers.validate_python(fields)


def wait_policy(given: Any) -> WaitForAll | MinimumCount:
    return WaitForAll() if given == "all" else MinimumCount(n=given["minimum"])


def partition(case: Case) -> Any:
    return PARTITION[case["kind"]](case)


def mapped(case: Case) -> Any:
    made = mapper(case["mapper"])

    def one(key: str) -> Any:
        try:
            return made.to_downstream(key)
        except (ValueError, TypeError) as error:
            return {"error": type(error).__name__}

    return [one(key) for key in case["keys"]]


def waits(case: Case) -> Any:
    policy = wait_policy(case["policy"])
    return {
        "satisfied": policy.is_met(case["matched"], case["expected"]),
        "unreachable": policy.is_unreachable(case["expected"]),
    }


def cron_partition(case: Case) -> CronPartition:
    fields = {"expression": case["cron"], "timezone": case.get("timezone", "UTC")}
    names = ("run_offset", "run_immediately", "key_format")
    return CronPartition.model_validate({**fields, **{n: case[n] for n in names if case.get(n) is not None}})


def cron_next(case: Case) -> Any:
    timetable, last, rows = cron_partition(case), None, []
    limits = TimeRestriction(earliest=case["start_date"], latest=case["end_date"], catchup=case["catchup"])
    for _ in range(case["n"]):
        info = timetable.next_dagrun_info(last, limits, datetime.fromisoformat(case["now"]))
        if info is None:
            return [*rows, None]
        date, key = timetable.partition_of(info.run_after)
        run_id = f"scheduled__{info.run_after.isoformat()}__{key}__*"
        rows.append([info.run_after, date, key, None, run_id])
        last = info.data_interval
    return rows


def cron_between(case: Case) -> Any:
    found = cron_partition(case).partitions_between(
        datetime.fromisoformat(case["earliest"]), datetime.fromisoformat(case["latest"])
    )
    return [[date, date, key] for date, key in found]


PARTITION: dict[str, Callable[[Case], Any]] = {
    "map": mapped,
    "upstream": lambda case: sorted(mapper(case["mapper"]).to_upstream(case["key"])),
    "date": lambda case: mapper(case["mapper"]).partition_date(case["key"]),
    "build": lambda case: {"ok": mapper(case["mapper"]).mapper},
    "wait": waits,
    "cron_next": cron_next,
    "cron_between": cron_between,
    "cron_decode": lambda case: cron_partition(case).decoded(case["key"]),
}


# asset_runs


class Run:
    """A run in the world."""

    def __init__(self, dag: "Dag", number: int, row: dict[str, Any]) -> None:
        self.dag, self.number, self.row = dag, number, row
        self.state = "queued"

    @property
    def name(self) -> str:
        return f"{self.dag.dag_id}#{self.number}"


class Dag:
    """A DAG in the world: what its file says, and tidemill's state of it."""

    def __init__(self, dag_id: str) -> None:
        self.dag_id = dag_id
        self.gathering, self.partitioning = Gathering(), Partitioning()
        self.runs: list[Run] = []
        self.made = 0
        self.paused = self.is_full = False
        self.present = True
        self.last: DataInterval | None = None
        self.tick: Any = None
        self.spec: dict[str, Any] = {}

    def read(self, spec: dict[str, Any]) -> None:
        self.spec, self.present = spec, True
        schedule = spec.get("schedule")
        self.condition = self.partitioned = self.timetable = None
        if isinstance(schedule, dict) and "partitioned" in schedule:
            self.partitioned = partitioned(schedule["partitioned"])
        elif isinstance(schedule, dict) and "cron_partition" in schedule:
            given = schedule["cron_partition"]
            self.timetable = cron_partition({"cron": given["cron"], **given})
        elif isinstance(schedule, dict) and "cron" in schedule:
            self.timetable = CronTrigger(expression=schedule["cron"], timezone="UTC")
            self.condition = condition(schedule["assets"]) if "assets" in schedule else None
        elif schedule is not None:
            self.condition = condition(schedule)

    @property
    def waited_for(self) -> Any:
        return self.partitioned.assets if self.partitioned is not None else self.condition

    @property
    def catchup(self) -> bool:
        return bool(self.spec.get("catchup", False))

    @property
    def limit(self) -> int:
        return int(self.spec.get("max_active_runs", 16))

    @property
    def active(self) -> list[Run]:
        return [run for run in self.runs if run.state in ("queued", "running")]

    def plan(self, now: datetime) -> None:
        """Works out the next run by time, as Airflow does at each parse, and when it has made one."""
        self.tick = None if self.timetable is None else self.next_tick(now)

    def next_tick(self, now: datetime) -> Any:
        start = datetime.fromisoformat(self.spec.get("start_date", "2024-01-01T00:00:00+00:00"))
        return self.timetable.next_dagrun_info(self.last, TimeRestriction(earliest=start, catchup=self.catchup), now)

    def make(self, **row: Any) -> Run:
        self.made += 1
        run = Run(self, self.made, row)
        self.runs.append(run)
        return run


def partitioned(given: dict[str, Any]) -> Partitioned:
    of = []
    for which, how in given.get("mappers", ()):
        leaf = condition(which)
        by = {"name": leaf.name} if leaf.name is not None else {"uri": leaf.uri}
        of.append({**by, "mapper": mapper(how).model_dump()})
    default = given.get("default_mapper")
    fields = {"assets": condition(given["assets"]).model_dump(), "mappers": of}
    return Partitioned.model_validate(fields if default is None else {**fields, "default_mapper": mapper(default)})


class World:
    """DAGs, assets, and a scheduling loop like Airflow's; every decision is tidemill's."""

    def __init__(self, case: Case) -> None:
        self.now = datetime.fromisoformat(case["start"])
        self.count_only = case.get("count_only", False)
        self.dags: dict[str, Dag] = {}
        self.registry = Registry()
        self.events: list[AssetEvent] = []
        self.numbers = itertools.count()
        self.define(case["dags"])

    def answers(self, case: Case) -> Iterator[Any]:
        for step in case["steps"]:
            self.now = datetime.fromisoformat(step["at"])
            [(what, given)] = [(name, value) for name, value in step.items() if name not in ("at", "state", "events")]
            if what == "loop":
                yield from (self.turn() for _ in range(given))
            elif what == "show":
                yield self.show(given)
            elif what == "finish":
                self.finish(given, step.get("state", "success"), step.get("events", []))
            else:
                getattr(self, what)(given)

    # What happens

    def define(self, dags: dict[str, Any]) -> None:
        for dag_id, spec in dags.items():
            new = dag_id not in self.dags
            dag = self.dags.setdefault(dag_id, Dag(dag_id))
            before = dag.waited_for if not new and dag.present else None
            dag.read(spec)
            if new:
                dag.paused = spec.get("paused", False)
            elif dag.timetable is not None or dag.condition is not None:
                dag.is_full = len(dag.active) >= dag.limit
            if dag.condition != before:
                dag.gathering.expect(dag.condition, self.now)
                dag.gathering.learn(self.events)
            dag.plan(self.now)
            self.declare(dag)

    def declare(self, dag: Dag) -> None:
        self.registry.declare(dag.dag_id, self.assets_of(dag), self.aliases_of(dag))

    def assets_of(self, dag: Dag) -> list[Asset]:
        found = [] if dag.waited_for is None else assets_in(dag.waited_for)
        for task in dag.spec.get("tasks", {}).values():
            for one in [*task.get("inlets", ()), *task.get("outlets", ())]:
                leaf = condition(one)
                found += [leaf] if isinstance(leaf, Asset) else []
        return found

    def aliases_of(self, dag: Dag) -> list[str]:
        return [] if dag.waited_for is None else aliases_in(dag.waited_for)

    def remove(self, dag_id: str) -> None:
        dag = self.dags[dag_id]
        dag.present = False
        dag.gathering.forget_references()
        self.registry.withdraw(dag_id)

    def sweep(self, _: Any) -> None:
        self.registry.sweep()

    def pause(self, dag_id: str) -> None:
        self.dags[dag_id].paused = True

    def unpause(self, dag_id: str) -> None:
        self.dags[dag_id].paused = False

    def unqueue(self, given: dict[str, Any]) -> None:
        before = datetime.fromisoformat(given["before"]) if given.get("before") else None
        key = self.registry.key_of(asset(given["asset"])) if given.get("asset") else None
        for dag in self.dags.values() if given.get("dag") is None else [self.dags[given["dag"]]]:
            dag.gathering.unqueue(key, before)

    def event(self, given: dict[str, Any]) -> None:
        key = self.registry.key_of(asset(given["asset"]))
        if not given.get("aliases") and not self.registry.knows(key):
            return
        self.emit(key, **{name: value for name, value in given.items() if name != "asset"})

    def emit(self, key: tuple[str, str], *, aliases: Any = (), extra: Any = None, **partition: Any) -> None:
        for alias in aliases:
            self.registry.link(alias, key)
        event = AssetEvent(
            cause=str(next(self.numbers)),
            name=key[0],
            uri=key[1],
            timestamp=self.now,
            extra=extra or {},
            aliases=tuple(aliases),
            **partition,
        )
        self.events.append(event)
        for dag in self.dags.values():
            waits = dag.condition if dag.present else None
            dag.gathering.hear(event, waits, paused=dag.paused)
            if dag.partitioned is not None and dag.present:
                dag.partitioning.hear(event, dag.partitioned, paused=dag.paused)

    def trigger(self, dag_id: str) -> None:
        self.dags[dag_id].make(run_type="manual")

    def finish(self, name: str, state: str, events: list[dict[str, Any]]) -> None:
        dag_id, _, number = name.partition("#")
        run = next(run for run in self.dags[dag_id].runs if run.number == int(number))
        run.state = state
        if state == "success":
            self.tasks_succeed(run, events)
        run.dag.is_full = len(run.dag.active) >= run.dag.limit

    def finish_all(self, _: Any) -> None:
        running = [run for dag in self.dags.values() for run in dag.runs if run.state == "running"]
        for run in sorted(running, key=lambda run: run.row["order"]):
            self.finish(run.name, "success", [])

    def tasks_succeed(self, run: Run, given: list[dict[str, Any]]) -> None:
        tasks = run.dag.spec.get("tasks", {})
        own = {name: run.row.get(name) for name in ("partition_key", "partition_date")}
        for task_id in ordered(tasks):
            outlets = tuple(condition(one) for one in tasks[task_id].get("outlets", ()))
            said = tuple(self.said(one) for one in given if one.get("task", task_id) == task_id)
            task = EmptyTask(task_id=task_id, outlets=outlets)
            for emission in emissions(task, said, {}, f"{run.name}/{task_id}", own):
                key, told = self.registry.key_of(emission.asset), emission.event
                if told.aliases:
                    self.registry.create(key)
                if told.aliases or self.registry.is_active(key):
                    fields = told.model_dump(include={"extra", "aliases", "partition_key", "partition_date"})
                    self.emit(key, **fields)

    def said(self, given: dict[str, Any]) -> OutletEvent:
        name, uri = self.registry.key_of(asset(given["asset"]))
        keys = () if given.get("partition_key") is None else (given["partition_key"],)
        return OutletEvent(
            asset=Asset.model_construct(name=name, uri=uri),
            alias=given.get("alias"),
            extra=given.get("extra") or {},
            partition_keys=keys,
        )

    # What the scheduler does

    def turn(self) -> Any:
        order = itertools.count(sum(dag.made for dag in self.dags.values()))
        created: dict[str, list[Run]] = {}
        for dag in self.dags.values():
            if dag.partitioned is not None and dag.present:
                for taken in dag.partitioning.take(dag.partitioned, self.registry.inactive):
                    row = {"run_type": "asset_triggered", "run_after": self.now, **taken.model_dump(exclude={"events"})}
                    run = dag.make(**row, events=list(taken.events), order=next(order))
                    created.setdefault(dag.dag_id, []).append(run)
        for dag in self.candidates(created):
            run = self.asset_run(dag) if self.is_due_by_assets(dag) else self.time_run(dag)
            if run is not None:
                run.row["order"] = next(order)
                created.setdefault(dag.dag_id, []).append(run)
        return self.told(created, self.started())

    def candidates(self, created: dict[str, list[Run]]) -> list[Dag]:
        due = []
        for dag in self.dags.values():
            if not dag.present or dag.paused or dag.dag_id in created or dag.partitioned is not None:
                continue
            tick = dag.tick
            by_time = tick is not None and tick.run_after <= self.now and not dag.is_full
            if self.is_due_by_assets(dag) or by_time:
                due.append((tick is not None, tick.run_after if tick is not None else self.now, dag))
        due.sort(key=lambda found: found[:2])
        return [dag for _, _, dag in due[:MAX_DAGS]]

    def is_due_by_assets(self, dag: Dag) -> bool:
        ready = dag.gathering.is_due(dag.condition, self.registry.inactive)
        return ready and len(dag.active) < dag.limit and not (dag.timetable is not None and dag.is_full)

    def asset_run(self, dag: Dag) -> Run:
        taken = dag.gathering.take(dag.condition, catchup=dag.catchup)
        return dag.make(run_type="asset_triggered", run_after=taken.run_after, events=list(taken.events))

    def time_run(self, dag: Dag) -> Run:
        tick = dag.tick
        dag.last = tick.data_interval
        row = {"run_type": "scheduled", "run_after": tick.run_after, "events": []}
        if isinstance(dag.timetable, CronPartition):
            date, key = dag.timetable.partition_of(tick.run_after)
            run = dag.make(**row, partition_key=key, partition_date=date)
        else:
            run = dag.make(**row, tick=tick)
        dag.plan(self.now)
        dag.is_full = len(dag.active) >= dag.limit
        return run

    def started(self) -> list[Run]:
        waiting = [run for dag in self.dags.values() for run in dag.runs if run.state == "queued"]
        waiting.sort(key=lambda run: run.row.get("order", -1))
        started = []
        for run in waiting:
            running = sum(other.state == "running" for other in run.dag.runs)
            if running < run.dag.limit and not run.dag.paused and len(started) < MAX_STARTED:
                run.state = "running"
                started.append(run)
        return started

    # What is told

    def told(self, created: dict[str, list[Run]], started: list[Run]) -> Any:
        if self.count_only:
            return {"created": sum(map(len, created.values())), "started": len(started)}
        queue = {
            dag.dag_id: sorted([row.name, row.since] for row in dag.gathering.rows)
            for dag in self.dags.values()
            if dag.gathering.rows
        }
        waiting = {d.dag_id: [one.key for one in d.partitioning.pending] for d in self.dags.values()}
        waiting = {dag_id: keys for dag_id, keys in waiting.items() if keys}
        shown = {
            "created": {dag_id: [run_row(run) for run in runs] for dag_id, runs in created.items()},
            "started": sorted(run.name for run in started),
            "queue": queue,
        }
        return {**shown, "waiting": waiting} if waiting else shown

    def show(self, what: str) -> Any:
        return {what: self.registry.shown_active() if what == "active" else self.registry.shown_warnings()}


def ordered(tasks: dict[str, Any]) -> list[str]:
    done: list[str] = []
    while len(done) < len(tasks):
        done += [t for t in tasks if t not in done and all(up in done for up in tasks[t].get("upstream", ()))]
    return done


def run_row(run: Run) -> dict[str, Any]:
    row, tick = run.row, run.row.get("tick")
    interval = None if tick is None else [tick.data_interval.start, tick.data_interval.end]
    found = {
        "run": run.name,
        "run_type": row["run_type"],
        "run_id": run_id_of(run),
        "logical_date": None if tick is None else tick.logical_date,
        "data_interval": interval,
        "run_after": row["run_after"],
        "events": [event_row(event) for event in row["events"]],
    }
    if "partition_key" in row:
        found |= {"partition_key": row["partition_key"], "partition_date": row["partition_date"]}
    return found


def run_id_of(run: Run) -> str:
    row = run.row
    head = f"{row['run_type']}__{row['run_after'].isoformat()}"
    if row["run_type"] == "scheduled":
        return f"{head}__{row['partition_key']}__*" if "partition_key" in row else head
    return f"{head}_*"


def event_row(event: AssetEvent) -> dict[str, Any]:
    row: dict[str, Any] = {"asset": event.name, "at": event.timestamp}
    if event.extra:
        row["extra"] = event.extra
    if event.partition_key is not None:
        row["partition_key"] = event.partition_key
    return row


def runs(case: Case) -> Any:
    return list(World(case).answers(case))


ANSWERS: dict[str, Callable[[Case], Any]] = {
    "asset_identity": identity,
    "asset_condition": evaluated,
    "asset_partition": partition,
    "asset_runs": runs,
}
