"""`make dst`: runs installations seed after seed, and tells what was reached and which properties do not hold.

make dst                                   two minutes on all cores, with seeds that no run before has had
make dst ARGS="--minutes 5 --from 1000"    seeds of one's own, for longer
make dst ARGS="--seeds 200 --reach"        which situations were reached seldom or never
make dst ARGS="--seed 17 --trace"          one seed, event by event
make dst ARGS="--plan build/dst/17.json"   a plan that was made smaller
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]
from dst.drawing import draw
from dst.exhaustive import explore_all
from dst.installation import Plan
from dst.shrink import shrink
from dst.simulation import Result, simulate
from dst.situations import every_situation

PLANS = Path(__file__).parents[2] / "build" / "dst"
KEPT = Path(__file__).parent / "plans"
"""Plans that have violated a property: tests run them again and again."""
NEXT = PLANS / "next"
"""Keeps the first seed that has not been run yet."""
OFTEN = 3
"""So often a situation has to have been reached before silence means anything."""


@dataclass
class Seed:
    """What came of one seed, as it travels from one process to another."""

    seed: int
    seconds: float
    days: float = 0
    counts: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[str, str]] = field(default_factory=list)


def run_seed(seed: int) -> Seed:
    """Runs one seed. What it raises is a violation, too."""
    logging.disable(logging.CRITICAL)
    began = time.monotonic()
    try:
        result = simulate(draw(seed))
    except Exception as error:
        where = traceback.format_exc(limit=-3)
        found = [("no-defect-of-the-simulation", f"{type(error).__name__}: {error}\n{where}")]
        return Seed(seed, time.monotonic() - began, violations=found)
    violations = [(found.name, str(found)) for found in result.violations]
    return Seed(seed, time.monotonic() - began, result.days, result.counts, result.reached, violations)


def _seeds(first: int, minutes: float, seeds: int | None) -> Iterator[int]:
    deadline = time.monotonic() + 60 * minutes
    number = first
    while (seeds is not None and number < first + seeds) or (seeds is None and time.monotonic() < deadline):
        yield number
        number += 1


def run_many(first: int, minutes: float, seeds: int | None, jobs: int, *, stops: bool = False) -> list[Seed]:
    """Runs seeds from *first* on, for that long or so many, in *jobs* processes; *stops* at the first violation."""
    done: list[Seed] = []
    over = threading.Event()
    began = time.monotonic()
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs) as pool:
        for seed in pool.imap_unordered(run_seed, _ahead(_seeds(first, minutes, seeds), done, jobs, over)):
            done.append(seed)
            for name, about in seed.violations[:1]:
                print(f"seed {seed.seed}: {name}: {about}", flush=True)
            if stops and seed.violations:
                over.set()
                pool.terminate()
                break
    elapsed = time.monotonic() - began
    each = len(done) / elapsed * 3600 / jobs
    print(f"{len(done)} seeds in {elapsed:.0f} s by {jobs} processes: {each:.0f} an hour each")
    return done


def _ahead(seeds: Iterator[int], done: list[Seed], jobs: int, over: threading.Event) -> Iterator[int]:
    """Gives out no more seeds than processes can have under way: time, or *over*, ends the run, not a queue."""
    for given, seed in enumerate(seeds, 1):
        yield seed
        while given - len(done) >= 2 * jobs:
            if over.wait(0.005):
                return


def report(done: list[Seed], *, names_all: bool) -> None:
    """Prints what was reached; with *names_all* also each situation that was not, or seldom."""
    counts: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for seed in done:
        counts += seed.counts
        reached += seed.reached
    days = sum(seed.days for seed in done)
    print(f"{days:,.0f} simulated days, {counts['workflow tasks']:,} workflow tasks, {counts['events']:,} events, "
          f"{counts['replays']:,} replays; {counts['seeds cut short']} seeds cut short")  # fmt: skip
    print(
        "faults:",
        ", ".join(f"{k.removeprefix('fault ')} {n:,}" for k, n in counts.most_common() if k.startswith("fault")),
    )
    print(
        "people:",
        ", ".join(f"{k.removeprefix('action ')} {n:,}" for k, n in counts.most_common() if k.startswith("action")),
    )
    every = every_situation()
    often = sum(reached[name] >= OFTEN for name in every)
    once = sum(reached[name] > 0 for name in every)
    print(f"situations: {once} of {len(every)} reached, {often} at least {OFTEN} times")
    for name in every if names_all else ():
        if reached[name] < OFTEN:
            print(f"  {reached[name]} times: {name}")
    bad = Counter(name for seed in done for name, _ in seed.violations[:1])
    print("violations:", ", ".join(f"{name} {n}" for name, n in bad.most_common()) or "0")


def next_seed() -> int:
    """The first seed that no run without `--from` has had."""
    return int(NEXT.read_text()) if NEXT.is_file() else 1


def seed_of_commit() -> int:
    """A seed that is another one for each commit: 0 where there is no commit to ask."""
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=PLANS.parents[1], capture_output=True, text=True, check=False
    )
    return int(asked.stdout[:7], 16) if asked.returncode == 0 else 0


def make_smaller(seed: Seed, seconds: float) -> None:
    """Writes a smaller plan that violates what the seed has violated."""
    name = seed.violations[0][0]
    plan = shrink(draw(seed.seed), name, seconds)
    PLANS.mkdir(parents=True, exist_ok=True)
    path = PLANS / f"{seed.seed}.json"
    path.write_text(json.dumps(plan.to_json(), indent=1))
    shown = path.relative_to(PLANS.parents[1])
    print(
        f'seed {seed.seed} made smaller: {draw(seed.seed).size} -> {plan.size} pieces. make dst ARGS="--plan {shown}"'
    )


def show(plan: Plan, *, trace: bool) -> int:
    """Runs one plan, and prints it."""
    result: Result = simulate(plan, trace=trace)
    print(json.dumps(plan.to_json(), indent=1))
    if trace:
        print("\n".join(result.trace))
    for found in result.violations:
        print(found)
    print(
        f"{result.days:.1f} days, {result.counts['workflow tasks']} workflow tasks, {len(result.violations)} violations"
    )
    return bool(result.violations)


def main() -> int:
    logging.disable(logging.CRITICAL)  # workflows say what they pass over, which here is what is drawn
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seeds", type=int, help="so many, however long that takes")
    parser.add_argument("--from", dest="first", type=int, help="the first seed; where the last run has ended")
    parser.add_argument("--reach", action="store_true", help="name the situations that were reached seldom or never")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stop", action="store_true", help="end at the first violation")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--plan", type=Path, help="a plan that was made smaller")
    parser.add_argument("--trace", action="store_true", help="print every event")
    parser.add_argument("--exhaustive", action="store_true", help="all states of a larger system, too: 5 minutes, 3 GB")
    parser.add_argument("--shrink-seconds", type=float, default=30)
    arguments = parser.parse_args()
    if arguments.plan is not None:
        return show(Plan.from_json(json.loads(arguments.plan.read_text())), trace=arguments.trace)
    if arguments.seed is not None:
        return show(draw(arguments.seed), trace=arguments.trace)
    failed = not explore_all(larger=arguments.exhaustive)
    first = arguments.first if arguments.first is not None else next_seed()
    done = run_many(first, arguments.minutes, arguments.seeds, arguments.jobs, stops=arguments.stop)
    last = max((seed.seed for seed in done), default=first)
    print(f"seeds {first} to {last}")
    if arguments.first is None:
        NEXT.parent.mkdir(parents=True, exist_ok=True)
        NEXT.write_text(str(last + 1))
    report(done, names_all=arguments.reach)
    bad = [seed for seed in done if seed.violations]
    if bad:
        print(f"a plan that stays violated belongs into {KEPT.relative_to(PLANS.parents[1])}, where tests run it")
    for seed in bad[:3]:
        if seed.violations[0][0] != "no-defect-of-the-simulation":
            make_smaller(seed, arguments.shrink_seconds)
    return bool(bad) or failed


if __name__ == "__main__":
    sys.exit(main())
