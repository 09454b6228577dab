"""Which one-line changes of the deciding code the simulated worlds notice, and by which property.

Each change is tried in a process of its own, on seeds that run its line, for some seconds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]
from dst.drawing import draw
from dst.mutations import Mutation, mutated, mutations
from dst.reach import Place, Reach
from dst.recompiled import Source, deciding_sources, functions_of, put
from dst.simulation import simulate

BUILD = Path(__file__).parents[2] / "build" / "dst"
SHOWN_ONLY = (
    "model.asset.watching", "model.dag.explaining", "model.dag.previews", "model.dag.row", "model.dag.views",
    "model.run.asset_context", "model.run.context", "model.run.current_context", "model.run.facts", "model.run.forms",
    "model.run.lineage", "model.run.progress", "model.run.row", "model.run.spark_figures", "model.run.views",
    "workflows.kinds", "workflows.lineage", "workflows.metrics", "workflows.replaying", "workflows.run.pinned",
    "workflows.run.spark_work",
)  # fmt: skip
"""Modules that decide nothing, or that no simulated world has: what is shown, figures, Spark, readers of contexts."""
APART = frozenset({"no-workflow-task-fails", "replay-gives-the-same-commands", "no-defect-of-the-simulation"})
"""What finds a change without a promise that it breaks: an error that nobody handles, or another replay."""
FEW = 2_000
"""Workflow tasks of a seed here: many seeds find more than long ones."""
GRACE = 60.0
"""Seconds beyond its share after which a change has the simulation run for ever."""


@dataclass
class Found:
    """What came of one change."""

    mutation: Mutation
    outcome: str
    """The name of the property, `lives`, `never ends` or `not reached`."""
    seed: int | None = None
    about: str = ""
    tried: int = 0


def decided_by(sources: Sequence[Source]) -> list[Source]:
    """The sources that decide something."""
    return [source for source in sources if not source.name.startswith(SHOWN_ONLY)]


# Which seeds run a line


def _digest(seeds: Sequence[int]) -> str:
    digest = hashlib.sha256(f"{seeds[0]} {seeds[-1]}".encode())
    for folder in ("tests/dst", "tests/properties", "model", "workflows"):
        for path in sorted((Path(__file__).parents[2] / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _reached(seeds: Sequence[int]) -> list[tuple[int, float, list[tuple[str, int]]]]:
    logging.disable(logging.WARNING)
    reach = Reach(deciding_sources())
    found = []
    for seed in seeds:
        began = time.monotonic()
        simulate(draw(seed), most_steps=FEW)
        places = [(place.module, place.line) for place in reach.taken()]
        found.append((seed, time.monotonic() - began, places))
    return found


def seeds_by_place(seeds: Sequence[int], jobs: int) -> dict[Place, list[int]]:
    """The seeds that run each place, in any order: the quickest are those in which little happens. Kept until the code
    changes."""
    path = BUILD / f"reach-{_digest(seeds)}.json"
    if path.is_file():
        known = json.loads(path.read_text())
    else:
        parts = [seeds[n :: 8 * jobs] for n in range(8 * jobs)]
        with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
            known = [one for part in pool.imap_unordered(_reached, parts) for one in part]
        BUILD.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(known))
    found: dict[Place, list[int]] = {}
    for seed, _, places in random.Random("places").sample(known, len(known)):
        for module, line in places:
            found.setdefault(Place(module, line), []).append(seed)
    return found


# One change


def _try(client: Source, mutation: Mutation, seeds: Sequence[int], seconds: float, end: object) -> None:
    """In a process of its own: tells what the first seed has found, or how many have found nothing."""
    logging.disable(logging.CRITICAL)
    put(mutated(client, mutation.number), client.path, functions_of(client.path))
    deadline, tried = time.monotonic() + seconds, 0
    for seed in seeds:
        if tried and time.monotonic() > deadline:
            break
        tried += 1
        try:
            violations = [(found.name, str(found)) for found in simulate(draw(seed), most_steps=FEW).violations]
        except Exception as error:
            violations = [("no-defect-of-the-simulation", f"{type(error).__name__}: {error}")]
        if violations:
            end.send((violations[0][0], seed, violations[0][1][:400], tried))  # type: ignore[attr-defined]
            os._exit(0)
    end.send(("lives", None, "", tried))  # type: ignore[attr-defined]
    os._exit(0)


def try_one(client: Source, mutation: Mutation, seeds: Sequence[int], seconds: float) -> Found:
    """What *seeds* find of a change within so many seconds."""
    if not seeds:
        return Found(mutation, "not reached")
    context = multiprocessing.get_context("fork")
    mine, other = context.Pipe(duplex=False)
    process = context.Process(target=_try, args=(client, mutation, seeds, seconds, other))
    process.start()
    other.close()
    try:
        outcome = mine.recv() if mine.poll(seconds + GRACE) else ("never ends", None, "", 0)
    except EOFError:
        outcome = ("no-defect-of-the-simulation", None, "the process has ended", 0)
    process.kill()
    process.join()
    return Found(mutation, *outcome)


def try_all(chosen: Sequence[Mutation], places: dict[Place, list[int]], seconds: float, jobs: int) -> Iterator[Found]:
    """Tries changes, so many at a time."""
    sources = {source.name: source for source in deciding_sources()}

    def one(mutation: Mutation) -> Found:
        seeds = places.get(Place(mutation.module, mutation.line), [])
        return try_one(sources[mutation.module], mutation, seeds, seconds)

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(one, chosen)


def sample(places: dict[Place, list[int]], wanted: int, seed: int, names: Sequence[str]) -> list[Mutation]:
    """Changes of lines that some seed runs, drawn at random; all of them where fewer are there."""
    every = [
        mutation
        for source in decided_by(deciding_sources())
        if not names or any(name in source.name for name in names)
        for mutation in mutations(source)
        if Place(mutation.module, mutation.line) in places
    ]
    return random.Random(seed).sample(every, min(wanted, len(every)))


def _kind(outcome: str) -> str:
    if outcome in ("lives", "never ends", "not reached"):
        return outcome
    return "apart" if outcome in APART else "property"


def main() -> int:
    """Tries a sample of changes and prints what found each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help="parts of the names of the modules to change; all")
    parser.add_argument("--sample", type=int, default=300, help="how many changes")
    parser.add_argument("--draw", type=int, default=1, help="which sample")
    parser.add_argument("--seeds", type=int, default=200, help="from which seeds those are taken that run the line")
    parser.add_argument("--seconds", type=float, default=20, help="for each change")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, default=BUILD / "mutants.jsonl", help="where results are written")
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    for warm in (1, 2):  # everything is imported, the last release too
        simulate(draw(warm))
    places = seeds_by_place(range(1, asked.seeds + 1), asked.jobs)
    chosen = sample(places, asked.sample, asked.draw, asked.modules)
    counts: Counter[str] = Counter()
    asked.keep.parent.mkdir(parents=True, exist_ok=True)
    with asked.keep.open("w") as kept:
        for found in try_all(chosen, places, asked.seconds, asked.jobs):
            kind = _kind(found.outcome)
            counts[kind] += 1
            print(f"{kind:10} {found.outcome:45} seed {found.seed or '-':5} {found.mutation}", flush=True)
            kept.write(json.dumps(asdict(found)) + "\n")
    total = sum(counts.values()) or 1
    print(", ".join(f"{name} {n} ({n / total:.0%})" for name, n in counts.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
