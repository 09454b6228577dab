"""The page of what holds in which mode says what the tests show."""

import subprocess
import sys
from pathlib import Path

from spark_capabilities import CAPABILITIES, MODES, is_test

ROOT = Path(__file__).parents[2]


def test_every_mode_has_a_test_or_a_reason() -> None:
    for capability in CAPABILITIES:
        for mode in MODES:
            shown = capability.shown_by(mode)
            assert is_test(shown) or len(shown.split()) > 3, (capability.title, mode)


def test_the_tests_are_there() -> None:
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", "tests/spark"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    there = {line.removeprefix("tests/spark/") for line in listed.splitlines()}
    shown = {capability.shown_by(mode) for capability in CAPABILITIES for mode in MODES}
    assert {one for one in shown if is_test(one)} - there == set()


def test_the_page_is_of_this_table() -> None:
    """Written by `make docs`."""
    sys.path.append(str(ROOT / "scripts"))
    from write_spark_modes import PAGE, page  # type: ignore[import-not-found]

    assert PAGE.read_text() == page(), "run `make docs`"
