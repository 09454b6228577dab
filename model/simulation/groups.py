"""Which DAGs of a simulation have to do with each other: the others are simulated apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..run.instance_keys import split_key
from ..spec.dag import DagSpec, with_default_pools
from ..spec.tasks import BaseTask, EmptyTask, TimeTask
from ..spec.timetables.assets import waited_for
from .assumptions import Assumptions
from .load import peak_held
from .simulation import Simulation
from .spans import TrySpan

ASSETS, WORKERS = "assets", "workers"


def groups(specs: Iterable[DagSpec], tight: set[str]) -> list[list[DagSpec]]:
    """*specs* by what they share: a limit of *tight* (`workers`, or the `pool:` of a name), or assets."""
    all_specs = [*specs]
    assets_matter = any(waited_for(spec.schedule) is not None for spec in all_specs)
    alone: list[list[DagSpec]] = []
    together: list[tuple[set[str], list[DagSpec]]] = []
    for spec in all_specs:
        shared = (limits_of(spec) & tight) | ({ASSETS} if assets_matter and _has_to_do_with_assets(spec) else set())
        if not shared:
            alone.append([spec])
            continue
        joined = [group for group in together if group[0] & shared]
        together = [group for group in together if not group[0] & shared]
        members = [each for _, group in joined for each in group]
        together.append((shared.union(*(limits for limits, _ in joined)), [*members, spec]))
    order = {spec.dag_id: n for n, spec in enumerate(all_specs)}
    return alone + [sorted(members, key=lambda spec: order[spec.dag_id]) for _, members in together]


def limits_of(spec: DagSpec) -> set[str]:
    """What the DAG shares with others that may be short."""
    pools = {f"pool:{task.pool}" for task in with_default_pools(spec).tasks if task.pool is not None}
    return {WORKERS, *pools}


def _has_to_do_with_assets(spec: DagSpec) -> bool:
    return waited_for(spec.schedule) is not None or any(task.outlets for task in spec.tasks)


def exceeded(simulation: Simulation, specs: Iterable[DagSpec], assumptions: Assumptions) -> set[str]:
    """The limits that DAGs kept to by themselves, and not all together: how they share them has to be simulated.

    A limit that is never reached by all of them holds nobody up. What counts is a little more than what is held: a
    task that waits outside of a worker is counted all the same.
    """
    limits = {f"pool:{name}": pool.slots for name, pool in assumptions.pools.items() if pool.slots >= 0}
    if assumptions.worker_slots is not None:
        limits[WORKERS] = assumptions.worker_slots
    tasks = {spec.dag_id: with_default_pools(spec).by_id for spec in specs}
    # A task without work leaves no try behind, and may wait all the same.
    waits = {f"pool:{task.pool}" for of in tasks.values() for task in of.values() if isinstance(task, EmptyTask)}
    return {limit for limit, slots in limits.items() if limit in waits or _peak(simulation, limit, tasks) > slots}


def _peak(simulation: Simulation, limit: str, tasks: Mapping[str, Mapping[str, BaseTask]]) -> int:
    return peak_held(simulation, lambda one: _held(one, limit, tasks))


def _held(one: TrySpan, limit: str, tasks: Mapping[str, Mapping[str, BaseTask]]) -> int:
    """How many slots of *limit* the try holds."""
    task = tasks[one.dag_id][split_key(one.key)[0]]
    if limit == WORKERS:
        return 0 if isinstance(task, EmptyTask) or (isinstance(task, TimeTask) and task.target_time is None) else 1
    return task.pool_slots if limit == f"pool:{one.pool}" else 0
