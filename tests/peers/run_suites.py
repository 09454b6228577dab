"""Run the tests that Airflow's people wrote for Airflow against `tidemill dev`, and say which do not pass, and why.

Usage: run_suites.py [SPEC ...] Names of end-to-end specs, such as `pools`; by default all of them.
"""

from __future__ import annotations

import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / part) for part in ("", "peers", "api", "airflow")]

from airflow_stack import PYTHON  # noqa: E402
from browser_suite import FIRST, run_browser_suite, served_examples  # noqa: E402

DIFFERENCES = Path(__file__).with_name("differences.toml")


def browser_results(specs: Sequence[str]) -> dict[str, str]:
    """How each of Airflow's end-to-end tests ends, of the *specs*."""
    with tempfile.TemporaryDirectory() as folder, served_examples(Path(folder), PYTHON) as (url, token):
        found: dict[str, str] = {}
        results = Path(folder) / "results.json"
        if first := [name for name in FIRST if not specs or name in specs]:
            found |= run_browser_suite(url, token, results, first)
        later = [name for name in specs if name not in FIRST]
        if later or not specs:
            found |= run_browser_suite(url, token, results, later, but=FIRST)
        return found


def unexplained(suite: str, results: dict[str, str]) -> list[str]:
    """What *results* have that the list of differences has not, and the other way round; nothing else is a failure."""
    known = tomllib.loads(DIFFERENCES.read_text()).get(suite, {})
    failed = {name for name, ended in results.items() if ended == "failed"}
    wrong = [f"newly different: {name}" for name in sorted(failed - known.keys())]
    return wrong + [f"passes now: {name}" for name in sorted((known.keys() & results.keys()) - failed)]


def main(specs: Sequence[str]) -> int:
    """Print a table and what is not explained. Return 1 if there is such."""
    results = browser_results(specs)
    counts = Counter(results.values())
    print("| suite | tests | passed | failed | skips itself |\n|---|---|---|---|---|")
    print(f"| UI end to end | {len(results)} | {counts['passed']} | {counts['failed']} | {counts['skipped']} |")
    for name, one in tomllib.loads(DIFFERENCES.read_text())["browser"].items():
        if results.get(name) == "failed":
            print(f"{name}: {one['why']}: {one['reason']}")
    wrong = unexplained("browser", results)
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
