"""What an earlier start of a try has left on this host is ended before another begins."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tidemill.activities.attempts.folder import CLAIM, AttemptFolder
from tidemill.activities.names import MARK

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
apart = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(apart.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that does not end when it is asked to, and one that it has started in a session of its own."""
    environment = {**os.environ, MARK: "the-call"}
    command = [sys.executable, "-c", STUBBORN]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        apart = int(process.stdout.readline())
        try:
            yield process, apart
        finally:
            for pid in (apart, process.pid):
                if psutil.pid_exists(pid):
                    os.kill(pid, 9)


def test_all_that_a_start_has_left_is_ended(
    tmp_path: Path, left: tuple[subprocess.Popen[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.activities.attempts.folder.END_TIMEOUT_SECONDS", 0.5)
    process, apart = left
    folder = AttemptFolder(tmp_path / "try", tmp_path / "log").make()
    folder.claim("the-call", process.pid)
    assert folder.end_earlier_start() is True
    assert process.wait(30) == -9
    psutil.wait_procs([psutil.Process(apart)] if psutil.pid_exists(apart) else [], 30)
    assert not psutil.pid_exists(apart) or psutil.Process(apart).status() == psutil.STATUS_ZOMBIE


def test_a_process_that_has_only_the_number_of_one_that_was_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        folder = AttemptFolder(tmp_path / "try", tmp_path / "log").make()
        folder.claim("the-call", process.pid)
        known = folder.read(CLAIM)
        assert known is not None
        folder.write(CLAIM, {**known, "supervisor_started": known["supervisor_started"] - 100})
        assert folder.end_earlier_start() is False
        folder.write(CLAIM, {**known, "host": "another"})
        assert folder.end_earlier_start() is False
        assert process.poll() is None
        process.kill()


def test_who_is_gone_by_then_is_not_claimed(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    folder = AttemptFolder(tmp_path / "try", tmp_path / "log").make()
    folder.claim("the-call", process.pid)
    assert folder.read(CLAIM) is None
    assert folder.end_earlier_start() is False
