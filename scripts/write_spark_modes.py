"""Writes docs/spark_modes.md: what holds of a Spark task in which mode, and the test that shows it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from spark_capabilities import CAPABILITIES, MODES, is_test  # noqa: E402

PAGE = ROOT / "docs" / "spark_modes.md"
HEAD = """# What holds in which mode

What users can do with a Spark task ([Spark](spark.md)), by where its application runs. "yes" has a test of its own in that mode, on real parts; what is not there, or was not tried, says why.
This page is written from `tests/spark_capabilities.py` by `make docs`, and a test compares it with the tests that there are. Those of YARN, Kubernetes and the Spark operator are run by `make clusters`, those of tables by `make tables`,
and some by `make chaos` (marked `long`) or `make thorough`.

"""


def page() -> str:
    """The page: a table, and below it the tests."""
    lines = ["| | " + " | ".join(MODES.values()) + " |", "|---" * (len(MODES) + 1) + "|"]
    for capability in CAPABILITIES:
        shown = [capability.shown_by(mode) for mode in MODES]
        lines.append(" | ".join(["| " + capability.title, *("yes" if is_test(one) else one for one in shown)]) + " |")
    lines += ["", "## Shown by", ""]
    for capability in CAPABILITIES:
        tests = [capability.shown_by(mode) for mode in MODES]
        names = dict.fromkeys(one.partition("[")[0] for one in tests if is_test(one))
        lines.append(f"- {capability.title}: {', '.join(f'`tests/spark/{name}`' for name in names)}")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
