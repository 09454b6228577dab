"""Changes the rules of runs, DAGs, pools and assets, one line at a time, and counts which changes a test notices.

mutmut makes the changes, in a copy of the checkout in build/mutants, and remembers there what it has tried.

Usage: python scripts/find_mutants.py [--show] [name of a module ...]
       python scripts/find_mutants.py --worlds [--sample N] [name of a module ...]
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPY = ROOT / "build" / "mutants"
PACKAGES = ("model", "activities", "kinds", "workflows", "worker", "api", "examples")
LEFT_OUT = ("tests/histories/", "tests/releases/")
MUTMUT = [str(Path(sys.executable).with_name("mutmut"))]
SURVIVED, WITHOUT_TEST = 0, 33
"""Exit codes by which mutmut records a change that no test noticed, and one in a function that no test calls."""


def copy_checkout() -> None:
    """Copy what is versioned, with all packages below `tidemill`, as they are when installed."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        folder = name.split("/")[0]
        if folder not in (*PACKAGES, "tidemill", "tests", "docs", "pyproject.toml") or name.startswith(LEFT_OUT):
            continue
        places = [COPY / "tidemill" / name] if folder in PACKAGES else [COPY / name]
        if folder == "examples":  # tests read them where they are in the checkout
            places.append(COPY / name)
        content = (ROOT / name).read_bytes()
        for target in places:
            if not target.is_file() or target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)


def results() -> dict[str, dict[str, int]]:
    """Return exit codes by the name of the change, by module."""
    found = {}
    for path in sorted((COPY / "mutants").rglob("*.meta")):
        codes = json.loads(path.read_text())["exit_code_by_key"]
        module = str(path.relative_to(COPY / "mutants" / "tidemill")).removesuffix(".py.meta")
        found[module] = {name: code for name, code in codes.items() if code is not None}
    return {module: codes for module, codes in found.items() if codes}


def print_survivors(codes: dict[str, int]) -> None:
    """Print each change that no test has noticed."""
    for name, code in codes.items():
        if code in (SURVIVED, WITHOUT_TEST):
            shown = subprocess.run([*MUTMUT, "show", name], cwd=COPY, capture_output=True, text=True, check=True).stdout
            changed = [line for line in shown.splitlines() if line[:1] in "+-" and not line.startswith(("+++", "---"))]
            print(name, *changed, sep="\n", end="\n\n")


def try_on_worlds(arguments: list[str]) -> int:
    """Change the deciding code, and count which changes the simulated worlds notice."""
    command = [sys.executable, "-P", str(ROOT / "tests" / "dst" / "mutants.py"), *arguments]
    return subprocess.run(command, check=False).returncode


def main() -> int:
    """Try all changes that were not tried before, and print the score of each module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help="a part of the names of the modules to look at; all")
    parser.add_argument("--show", action="store_true", help="print what no test has noticed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many to try at a time")
    asked = parser.parse_args()
    copy_checkout()
    wanted = [f"*{name}*" for name in asked.modules]
    # mutmut imports the changed modules from its own folder, before those of the environment.
    done = subprocess.run([*MUTMUT, "run", "--max-children", str(asked.jobs), *wanted], cwd=COPY, check=False)
    if done.returncode:
        return done.returncode
    total: Counter[bool] = Counter()
    for module, codes in results().items():
        if asked.modules and not any(name in module for name in asked.modules):
            continue
        noticed = Counter(code not in (SURVIVED, WITHOUT_TEST) for code in codes.values())
        total += noticed
        print(f"{module:30} {noticed[True]:5} of {noticed.total():5} noticed  {noticed[True] / noticed.total():.1%}")
        if asked.show:
            print_survivors(codes)
    print(f"{'all':30} {total[True]:5} of {total.total():5} noticed  {total[True] / max(1, total.total()):.1%}")
    return 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(try_on_worlds([each for each in given if each != "--worlds"]) if "--worlds" in given else main())
