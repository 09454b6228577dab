"""A simulation: DAGs over a time, each group that shares something in a world of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from ..base import to_utc
from ..errors import InvalidInputError
from ..spec.assets.identity import AssetAlias
from ..spec.dag import DagSpec
from ..spec.tasks import ExternalTaskTask, TriggerDagTask
from ..spec.timetables import Custom
from .assumptions import Assumptions
from .calendars import Calendars
from .groups import exceeded, groups
from .simulation import Simulation
from .world import World


def simulate(specs: Iterable[DagSpec], start: datetime, end: datetime, assumptions: Assumptions) -> Simulation:
    """What the DAGs do from *start* to *end*, if they are registered and unpaused at *start*.

    Runs that fall due before *start* are made as `catchup` says. Raises InvalidInputError where a DAG cannot be
    simulated, or the period is none.
    """
    begin, until = to_utc(start), to_utc(end)
    if begin >= until:
        raise InvalidInputError(f"from {begin.isoformat()} to {until.isoformat()} is no period. Let it end later")
    all_specs = [*specs]
    check_unique(spec.dag_id for spec in all_specs)
    for spec in all_specs:
        if isinstance(spec.schedule, Custom):
            raise InvalidInputError(
                f"DAG {spec.dag_id!r}: its timetable is a class of its own, which is not simulated. Leave the DAG out"
            )
    calendars, tight = Calendars(), set[str]()
    lived: dict[tuple[str, ...], World] = {}
    while True:
        worlds = []
        for group in groups(all_specs, tight):
            members = tuple(spec.dag_id for spec in group)
            if members not in lived:
                lived[members] = World(group, begin, until, assumptions, calendars)
                lived[members].live()
            worlds.append(lived[members])
        unknown = set[str]().union(*(world.pools.unknown for world in worlds))
        found = Simulation(
            start=begin,
            end=until,
            dag_ids=tuple(sorted(spec.dag_id for spec in all_specs)),
            periods=tuple(period for world in worlds for period in world.periods),
            max_waiting=max_by_name(world.pools.max_waiting for world in worlds),
            notes=(
                *(f"pool {name!r} is taken to be unlimited" for name in sorted(unknown)),
                *(note for spec in all_specs for note in not_simulated(spec)),
                *(note for world in worlds for note in world.notes()),
            ),
        )
        more = exceeded(found, all_specs, assumptions) - tight
        if not more:
            return found
        tight |= more


def max_by_name(found: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    """By name, the largest number that is found."""
    largest: dict[str, int] = {}
    for numbers in found:
        for name, number in numbers.items():
            largest[name] = max(number, largest.get(name, 0))
    return largest


def check_unique(dag_ids: Iterable[str]) -> None:
    """Raises InvalidInputError where two DAGs have one dag_id."""
    twice = sorted(dag_id for dag_id, n in Counter(dag_ids).items() if n > 1)
    if twice:
        raise InvalidInputError(f"dag_id = {twice[0]!r}: two DAGs have it. Leave one out, or rename it")


def not_simulated(spec: DagSpec) -> Iterator[str]:
    """What *spec* does that the simulation takes for other work."""
    for task in spec.tasks:
        what = f"task {spec.dag_id}.{task.task_id}"
        if isinstance(task, TriggerDagTask):
            yield f"{what} is taken for other work: it triggers no run of {task.trigger_dag_id!r} here"
        elif isinstance(task, ExternalTaskTask):
            yield f"{what} is taken for other work: it does not wait for {task.external_dag_id!r}"
        if any(isinstance(outlet, AssetAlias) for outlet in task.outlets):
            yield f"{what}: events by an alias are not simulated"
    if spec.max_consecutive_failed_dag_runs:
        yield f"DAG {spec.dag_id} is not paused after failed runs (max_consecutive_failed_dag_runs)"
