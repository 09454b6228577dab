"""A simulation: DAGs over a time, each group that shares something in a world of its own."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ..base import to_utc
from ..errors import InvalidInputError
from ..spec.dag import DagSpec
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
            notes=tuple(f"pool {name!r} is taken to be unlimited" for name in sorted(unknown)),
        )
        more = exceeded(found, all_specs, assumptions) - tight
        if not more:
            return found
        tight |= more
