"""What is assumed of a simulated world, as the options say it, and the changes of `--what-if`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...model.errors import InvalidInputError, explain
from ...model.run.planner import listing
from ...model.simulation.assumptions import Assumptions, Downtime
from ...model.spec.dag import DagSpec, read_dag, with_default_pools
from ..pictures.simulation_input import SimulationInput
from .dag_files import read_path
from .output import read_instant

CHANGEABLE = ("max_active_runs", "max_active_tasks", "schedule", "catchup", "start_date", "end_date")
"""Of a DAG."""
NOTHING = ""
"""The name of a duration that is for all tasks that are not named."""
NAMED = ("duration", "fails", "mapped", "pool")
"""Options that name what they are about; in a change it stands behind a colon."""
HOW = (
    f"[DAG.]NAME=VALUE, where NAME is one of {', '.join(CHANGEABLE)}; duration[:DAG.TASK]=SECONDS, "
    "fails:DAG.TASK=TRIES, mapped:DAG.TASK=INSTANCES, pool:NAME=SLOTS, slots=TASKS, downtime=FROM/TO, or dags=PATH"
)


@dataclass(frozen=True)
class Assumed:
    """What the options of `tidemill simulate` say, as they are written."""

    duration: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()
    mapped: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    slots: str | None = None
    downtime: tuple[str, ...] = ()
    rescheduled: tuple[str, ...] = ()
    """The DAGs whose schedule is changed: as when one is registered, it takes over where the last run ended."""

    def check_names(self, specs: Iterable[DagSpec]) -> None:
        """Raises InvalidInputError where a task or a pool is named that *specs* have not."""
        tasks = {f"{spec.dag_id}.{task.task_id}": task for spec in specs for task in with_default_pools(spec).tasks}
        pools = {task.pool for task in tasks.values()}
        for option, texts in (("--duration", self.duration), ("--fails", self.fails), ("--mapped", self.mapped)):
            for name, _ in _pairs(option, texts, bare=NOTHING if option == "--duration" else None):
                if name != NOTHING and name not in tasks:
                    raise InvalidInputError(f"{option} {name!r}: there is no such task. {_nearest(name, tasks)}")
        for name, _ in _pairs("--pool", self.pool):
            if name not in pools:
                raise InvalidInputError(
                    f"--pool {name!r}: no task is in that pool. {_nearest(name, [pool for pool in pools if pool])}"
                )

    def assumptions(self, simulation_input: SimulationInput) -> Assumptions:
        """With *known* of what is not said. Raises InvalidInputError."""
        durations = {name: _seconds(text) for name, text in _pairs("--duration", self.duration, bare=NOTHING)}
        fields: dict[str, Any] = {
            "durations": {
                **simulation_input.durations,
                **{name: value for name, value in durations.items() if name != NOTHING},
            },
            "failing_tries": dict(_pairs("--fails", self.fails)),
            "map_lengths": dict(_pairs("--mapped", self.mapped)),
            "pools": {
                **simulation_input.pools,
                **{name: {"slots": value} for name, value in _pairs("--pool", self.pool)},
            },
            "last_intervals": simulation_input.last_intervals,
            "resume_at": {
                dag_id: last.end
                for dag_id, last in simulation_input.last_intervals.items()
                if dag_id in self.rescheduled
            },
            "worker_slots": self.slots,
            "downtimes": [_downtime(text) for text in self.downtime],
        }
        if NOTHING in durations:
            fields["duration"] = durations[NOTHING]
        try:
            return Assumptions.model_validate(fields)
        except ValidationError as error:
            raise explain(error, "what is assumed") from None


def with_changes(specs: Iterable[DagSpec], assumed: Assumed, changes: Iterable[str]) -> tuple[list[DagSpec], Assumed]:
    """The DAGs, and what is assumed, with what is asked for. Raises InvalidInputError."""
    written = {spec.dag_id: spec.model_dump(mode="json") for spec in specs}
    for change in changes:
        where, sign, value = change.partition("=")
        kind, _, about = where.partition(":")
        if sign and kind in NAMED and (about or kind == "duration"):
            text = f"{about}={value}" if about else value
            more: dict[str, Any] = {kind: (*getattr(assumed, kind), text)}
            assumed = replace(assumed, **more)
        elif where == "slots" and sign:
            assumed = replace(assumed, slots=value)
        elif where == "downtime" and sign:
            assumed = replace(assumed, downtime=(*assumed.downtime, value))
        elif where == "dags" and sign:
            written |= {spec.dag_id: spec.model_dump(mode="json") for spec in _more_dags(change, Path(value))}
        else:
            changed = _change_dags(written, change)
            assumed = replace(assumed, rescheduled=(*assumed.rescheduled, *changed))
    return [read_dag(document) for document in written.values()], assumed


def _change_dags(written: dict[str, dict[str, Any]], change: str) -> list[str]:
    """Changes a field of one DAG, or of all; the DAGs whose schedule is another now."""
    where, sign, value = change.partition("=")
    dag_id, _, name = where.rpartition(".")
    if not sign or name not in CHANGEABLE:
        raise InvalidInputError(f"--what-if {change!r}: write {HOW}")
    if dag_id and dag_id not in written:
        raise InvalidInputError(f"--what-if {change!r}: there is no DAG {dag_id!r}. There are: {', '.join(written)}")
    concerned = [dag_id] if dag_id else [*written]
    for each in concerned:
        if name == "schedule":
            written[each] |= _as_scheduled(written[each]["schedule"])
        written[each][name] = value
    return concerned if name == "schedule" else []


def _as_scheduled(timetable: dict[str, Any]) -> dict[str, Any]:
    """How a bare expression in the place of *timetable* is meant: in its time zone, and about the same dates."""
    timetable = timetable.get("timetable", timetable)
    meant: dict[str, Any] = {name: timetable[name] for name in ("timezone", "dst_policy") if name in timetable}
    if "trigger" in timetable["kind"]:
        meant["schedule_kind"] = "trigger"
    return meant


def _more_dags(change: str, path: Path) -> list[DagSpec]:
    if not path.exists():
        raise InvalidInputError(f"--what-if {change!r}: there is no such file or folder")
    specs, problems = read_path(path)
    if problems:
        raise InvalidInputError(f"--what-if {change!r}: {problems[0]}")
    return specs


def _nearest(name: str, known: Iterable[str]) -> str:
    named = sorted(known)
    if found := get_close_matches(name, named, n=1):
        return f"Did you mean {found[0]!r}?"
    return f"There are: {listing(named, 10) or 'none'}"


def _seconds(text: str) -> float | str:
    """A number of seconds; or a duration by ISO 8601, such as PT2H."""
    try:
        return float(text)
    except ValueError:
        return text


def _downtime(text: str) -> Downtime:
    start, sign, end = text.partition("/")
    if not sign:
        raise InvalidInputError(f"--downtime {text!r} has no end. Write FROM/TO")
    try:
        return Downtime(start=read_instant(start, "--downtime"), end=read_instant(end, "--downtime"))
    except ValidationError as error:
        raise explain(error, f"--downtime {text!r}", Downtime) from None


def _pairs(option: str, texts: Iterable[str], bare: str | None = None) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, sign, value = text.rpartition("=")
        if not name and (sign or bare is None):
            raise InvalidInputError(f"{option} {text!r} names nothing. Write NAME=VALUE")
        yield (name if name or bare is None else bare), value
