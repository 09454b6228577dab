"""Runs one seed: its installation for some simulated days, then in calm until everything has come to its end."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from properties.catalogue import Look
from temporalio import workflow
from tidemill.activities.worker_context import WorkerContext  # noqa: F401 - registers nothing; the models need no worker
from tidemill.model.spec.dag import read_dag

from .clock import SECOND, microseconds
from .history import Execution
from .hunts import Hunts
from .installation import Folder, Happening, Plan
from .people import People
from .releases import last_release, this_release
from .situations import situations
from .work import Work
from .world import MAX_STEPS, Violation, World

LONG = 1000
"""Events from which on a history is long enough to be left at once, as a real service suggests."""
CALM_DAYS = 12
"""So long everything has to come to its end, once nothing goes wrong any more."""


@dataclass
class Result:
    """What came of one seed."""

    plan: Plan
    violations: list[Violation]
    counts: Counter[str]
    reached: Counter[str]
    """How often each situation was reached, by its name."""
    days: float
    world: World
    trace: list[str] = field(default_factory=list)


def simulate(plan: Plan, *, trace: bool = False, most_steps: int = MAX_STEPS) -> Result:
    """Runs *plan* to its end, to the first violation, or until it has taken *most_steps*."""
    with warnings.catch_warnings():  # an operator ends a DAG or a run while somebody waits for an answer
        for ignored in (workflow.UnfinishedUpdateHandlersWarning, workflow.UnfinishedSignalHandlersWarning):
            warnings.simplefilter("ignore", ignored)
        return _simulated(plan, trace=trace, most_steps=most_steps)


def _simulated(plan: Plan, *, trace: bool, most_steps: int) -> Result:
    from properties.checking import Checks

    start = microseconds(plan.start)
    specs = {fields["dag_id"]: read_dag(fields) for fields in plan.dags}
    folder = Folder([*specs.values()])
    work = Work(folder)
    checks = Checks()
    releases = [this_release(plan.parallelism)]
    if plan.two_releases:
        releases.append(last_release(plan.parallelism))
    world = World(
        plan.seed,
        start,
        releases=releases,
        perform=work.perform,
        workers=plan.workers,
        cached=plan.cached,
        suggests_from=plan.suggests_from,
        rates=dict(plan.rates),
        observe=lambda world, execution, instance: _observe(
            world, checks.step(world, execution, instance), execution, hunts
        ),
        rest=lambda world: checks.still(world, people.touched),
    )
    world.service.retention = int(plan.retention * SECOND)
    world.most_steps = most_steps
    world.suggests_rarely = plan.suggests_from < LONG
    if trace:
        world.trace = []
    people = People(world, plan, folder, dict(specs))
    hunts = Hunts(world, people, plan.hunts)
    people.begin()
    for happening in plan.happenings:
        _plan_happening(world, people, happening)
    world.run_until(start + int(plan.seconds * SECOND))
    _calm_down(world, people)
    _settle(world, people, checks)
    if world.cut_short:
        world.counts["seeds cut short"] += 1
    elif not world.violations:
        for name, about in checks.end(world, people, plan, specs):
            world.violate(name, about)
    days = (world.now - start) / SECOND / 86_400
    return Result(plan, world.violations, world.counts, world.reached, days, world, world.trace or [])


def _observe(world: World, look: Look | None, execution: Execution, hunts: Hunts) -> None:
    if look is not None:
        world.reached.update(situations(look, execution))
        hunts.saw(look, execution)


def _plan_happening(world: World, people: People, happening: Happening) -> None:
    world.plainly_later(int(happening.at * SECOND), lambda: world.plainly_later(0, lambda: people.do(happening)))


def _calm_down(world: World, people: People) -> None:
    """Nothing goes wrong any more, and nobody holds anything back."""
    world.calm = True
    world.end_the_last_release()
    for worker in world.workers:
        worker.down_until = min(worker.down_until, world.now + SECOND)
        worker.cut_off_until = min(worker.cut_off_until, world.now + SECOND)
    world.service_down_until = min(world.service_down_until, world.now)
    people.unpause_all()
    people.widen_pools()


def _settle(world: World, people: People, checks: Any) -> None:
    end = world.now + CALM_DAYS * 86_400 * SECOND
    pause, rounds = 600 * SECOND, 0
    while not world.violations and world.now < end and not world.cut_short:
        world.run_until(min(end, world.now + pause))
        rounds += 1
        if world.violations or checks.is_settled(world):
            return
        people.answer_approvals()
        people.unpause_all()
        people.widen_pools()  # of which an operator may have ended one at the last moment
        if rounds > 1:
            people.end_orphans()
        if rounds > 3:
            people.end_what_waits_for_the_past()
        pause = min(2 * pause, 86_400 * SECOND)
