"""The processes in which a DAG file is imported once, and that fork its tasks."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from tidemill.activities.attempts.lifecycle import ChildListener
from tidemill.activities.masking import Masker
from tidemill.activities.processes.call import ForkSettings
from tidemill.activities.processes.forks import CodePlace, Forks

PLACES: list[CodePlace] = []


class GoesOn:
    def check(self) -> None:
        pass


@pytest.fixture
def forks(tmp_path: Path) -> Iterator[Forks]:
    with closing(Forks(ForkSettings(log=tmp_path / "server.log"))) as made:
        yield made


def call(forks: Forks, file: Path, content: str, **more: Any) -> None:
    """As tasks do it: each looks its DAG file up, and so has a `CodePlace` of its own, which others outlive."""
    request = {"argv": ["true"], "variables": {}, "directory": str(file.parent), "folder": str(file.parent), "grace": 0}
    code = CodePlace(file, (file.parent,), digest=lambda: content)
    PLACES.append(code)
    answer = forks.call("command", request, listener=ChildListener(None, Masker()), checks=GoesOn(), code=code, **more)
    assert answer.code == 0


def servers() -> set[psutil.Process]:
    """The first servers, of this test and of others in this process."""
    return {
        process
        for process in psutil.Process().children()
        if "tidemill.activities.work.fork_server" in process.cmdline()
    }


def test_tasks_of_one_version_of_a_file_share_the_parent_that_is_a_client_of_connect(
    forks: Forks, tmp_path: Path
) -> None:
    file = tmp_path / "dags.py"
    file.write_text("")
    others = servers()
    call(forks, file, "first", connect=True)
    [server] = servers() - others
    [parent] = server.children()
    call(forks, file, "first", connect=True)
    assert server.children() == [parent]
    call(forks, file, "second", connect=True)
    assert len(server.children()) == 2
