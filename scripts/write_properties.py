"""Writes docs/properties.md: every property of the catalogue, with what the model of the service leaves out."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from properties.checking import PROPERTIES  # noqa: E402

PAGE = ROOT / "docs" / "properties.md"
LEVELS = {
    "DagRun": "A run, after each of its workflow tasks",
    "Dag": "A DAG, after each of its workflow tasks",
    "Pool": "A pool or a limit, after each of its workflow tasks",
    "Asset": "An asset",
    "Watcher": "A watcher",
    "DagBundle": "A bundle",
    "history": "One history",
    "installation": "All histories together",
    "still": "All workflows together, while nothing is on its way",
    "end": "When faults have stopped and everything has come to rest",
}
HEAD = """# Properties

What holds of every installation, each with a name. `make dst` checks all of them while it runs whole installations
under seeds; the same code checks those of workflows and histories on what each test leaves on a real server
(`tests/properties`), on what `make chaos` leaves, and on what benchmarks leave. This page is written from the code by `make docs`.

`make dst` drives the workflow classes that ship, through the SDK's own activations, on a model of Temporal's service
(`tests/dst/service.py`) in virtual time. Everything that happens is drawn from the seed, so that
`make dst ARGS="--seed 17 --trace"` shows the same events each time. The model is compared with a real server:
`tests/dst/test_service_model.py` runs the same scripts on both, and their histories are alike event type by event
type.

What is owed to tasks and schedules is said by rules that are written down once more (`tests/properties/rules.py`,
`owed.py`, `schedules.py`), and by nothing that the product decides by. `tests/properties/test_refusals.py` alters by hand
what simulated workflows have shown, and each of those properties has to refuse it.

## Where promises are hard to keep

Situations are derived from the tables of states and messages (`tests/dst/situations.py`): each message in each condition
of the workflow that it comes to, each change of a person in each state of a task, each wait met by a continue-as-new, a
pause, an end, a reset, another release, each limit at its edge. A seed has *hunts*: people and faults that wait until
they see a workflow in a certain situation, and then strike (`tests/dst/hunts.py`). `make dst` prints how many situations
were reached; `--reach` names those that were reached seldom or never.

"""
FAULTS = """## What goes wrong

| fault | how it is drawn |
|---|---|
| a worker is lost | at any moment; while it answers a workflow task; between doing an activity and telling of it |
| a worker without a way to the service (a zombie) | it goes on, its heartbeats are missed, and what it tells later does not count |
| completions that come late, twice or in vain | by seed, per completion |
| caches | evicted at any workflow task, one or all; a replay has to give the same commands to the byte |
| the service is away | for seconds to minutes; its timers fire when it is back |
| the store is an older copy of itself | the last minutes are lost, workers start anew |
| clocks of workers | ahead or behind by seconds or minutes |
| continue-as-new | suggested at any moment after 20, 30 or 60 events, or at 4,096, or where a hunt strikes; refused while something new has come |
| an operator | terminates, cancels or resets any workflow: a run, a DAG, a pool, a limit, an asset, a watcher, a bundle |
| lists | lag by up to five seconds |
| timetables | raise, again and again; ranges of backfills are counted in parts |
| releases | in every fifth seed workers are of the last release and of this one in turns, each with its own workflow classes |
| people | trigger, clear, mark, pause, register, backfill, delete, answer, change pools, remove and break files |

## What the model of the service leaves out

| not modelled | why it can be left out, or what shows it instead |
|---|---|
| limits on the size of payloads, histories and commands | counted as properties; `tests/workflows/test_too_large.py`, `tests/workflows/test_sizes.py` on a real server |
| local activities, Nexus, schedules, cron, search attributes of one's own | tidemill uses none of them |
| Worker Versioning | `tests/workflows/test_versioning.py` on a real server |
| updates that a reset would admit again | their senders are told that the execution has ended |
| what a task does | a behaviour that the seed draws: an end, a value, a wait, a time |
| a pool or an asset that is ended while workers of the last release still run | what those begin anew asks nobody, and has forgotten who waits until it goes on as new: end them after an upgrade (docs/upgrading.md) |
| workers that go on while the store becomes an older copy | they are started anew, as the manual asks |

"""


def page() -> str:
    """The page."""
    parts = [HEAD, FAULTS, f"## The {len(PROPERTIES)} properties\n"]
    for level, title in LEVELS.items():
        mine = [known for known in PROPERTIES if known.level == level]
        parts.append(f"\n### {title}\n\n| name | what holds |\n|---|---|\n")
        parts += [f"| {known.name} | {known.text} |\n" for known in mine]
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
