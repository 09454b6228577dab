"""Prints how the code grows and how far changes reach: files of a commit, lines of a room, concepts that are alive.

Shown, and not enforced. Usage: house.py [COMMITS]
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
LAYERS = ("model", "activities", "kinds", "workflows", "worker", "api")
COMMITS = 300
REACHES_FAR = 5
"""A commit that touches more product files than that goes through half of the house."""
TWO_ARMS, READ_ONLY = (re.compile(rf"""{name}\(\s*["']([\w-]+)""") for name in ("patched", "deprecate_patch"))
SHAPES_OF_A_RUN = ("RunIdentity", "RunView", "RunRecord", "RunRow", "RunSummary", "RunSpan", "RunAnswer")


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def product_files() -> list[Path]:
    return sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))


def commits(count: int) -> list[tuple[int, int]]:
    """Of each of the last *count* commits that touch product code: how many files, and by how many lines it grew."""
    found: list[tuple[int, int]] = []
    for text in git("log", f"-{count}", "--no-merges", "--no-renames", "--numstat", "--format=%x00").split("\0")[1:]:
        lines = [line.split("\t") for line in text.splitlines() if line.count("\t") == 2]
        mine = [line for line in lines if line[2].startswith(LAYERS) and line[2].endswith(".py")]
        if mine:
            found.append((len(mine), sum(int(added) - int(removed) for added, removed, _ in mine)))
    return found


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def concepts(texts: list[str]) -> dict[str, int]:
    from tidemill.worker.settings.reading import Settings

    whole = "\n".join(texts)
    return {
        "patch markers, two arms": len({*TWO_ARMS.findall(whole)}),
        "the same, of 0.N alone": len({*READ_ONLY.findall(whole)}),
        "shapes of a run": sum(f"class {name}(" in whole for name in SHAPES_OF_A_RUN),
        "settings": len(Settings.model_fields),
        "suffixes of task queues": len(re.findall(r"^[A-Z]+_SUFFIX = ", whole, re.MULTILINE)),
    }


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COMMITS
    found = commits(count)
    if found:
        files = [files for files, _ in found]
        far = sum(many > REACHES_FAR for many in files) / len(files)
        growth = sum(lines for _, lines in found) / len(found)
        print(f"the last {len(found)} commits that touch product code")
        print(f"  files of a commit, median:  {median(files):g}; {far:.0%} touch more than {REACHES_FAR}")
        print(f"  growth of a commit:         {growth:+.0f} lines")
    texts = {path: path.read_text() for path in product_files()}
    print("concepts that are alive")
    for name, many in concepts([*texts.values()]).items():
        print(f"  {name + ':':27} {many}")
    rooms: Counter[str] = Counter()
    for path, text in texts.items():
        rooms[room_of(path)] += text.count("\n")
    print(f"lines of {len(texts)} files: {rooms.total():,}")
    for name, lines in rooms.most_common():
        print(f"  {lines:6,}  {name}")
    print(
        "one-line mutants that the tests beside them catch: `make mutants`; its last figures are in docs/reliability.md"
    )


if __name__ == "__main__":
    main()
