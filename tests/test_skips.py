"""What is left out is told, and in CI only what is on the list may be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import skips


def test_a_reason_on_the_list_has_its_command() -> None:
    told = skips.lines({"no Chromium on this host (apt-get install chromium)": ["a", "b"], "no reason": ["c"]})
    assert told == [
        "2 left out: no Chromium on this host (apt-get install chromium); apt-get install chromium",
        "1 left out: no reason; no command is known",
    ]


def test_ci_takes_no_reason_that_it_could_have_avoided() -> None:
    reasons = ["no Chromium on this host", "no compose client is installed; the next", "something new"]
    assert skips.unexpected(reasons, in_ci=True) == ["no Chromium on this host", "something new"]
    assert skips.unexpected(reasons, in_ci=False) == []


def test_a_run_with_a_skip_of_no_listed_reason_fails_in_ci(tmp_path: Path) -> None:
    """By pytest itself, in a process of its own, as `make test` runs it."""
    test = Path(__file__).parent / "test_skipped_by_a_test.py"
    test.write_text("import pytest\n\n\ndef test_a():\n    pytest.skip('because of nothing')\n")
    try:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
        for ci, code in (("", 0), ("true", 1)):
            done = subprocess.run(
                command, env={**os.environ, "CI": ci}, capture_output=True, text=True, timeout=120, check=False
            )
            assert done.returncode == code, done.stdout
            assert "1 left out: because of nothing; no command is known" in done.stdout
    finally:
        test.unlink()
