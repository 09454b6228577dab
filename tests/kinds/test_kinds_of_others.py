"""A kind of task is a folder: one that somebody else has installed is found by its entry point, and runs."""

import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tidemill.model.spec.tasks.folders import found_kinds, packages

INIT = '''"""Asks a URL."""
import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"operator": ["HttpGetOperator"]})
'''
SPEC = '''"""What a task is that asks a URL."""
from typing import ClassVar, Literal
from tidemill.model.spec.tasks.base import BaseTask


class HttpGetTask(BaseTask):
    """Asks a URL."""

    activity: ClassVar[str | None] = "acme.http_get"
    airflow_name: ClassVar[str] = "HttpGetOperator"
    template_fields: ClassVar[tuple[str, ...]] = ("url",)
    kind: Literal["http_get"] = "http_get"
    url: str
'''
OPERATOR = '''"""How DAG files write it."""
from typing import Any
from tidemill.model.authoring.mapped import Mappable


class HttpGetOperator(Mappable):
    def __init__(self, task_id: str, *, url: str, dag: Any = None, **options: Any) -> None:
        super().__init__("http_get", task_id, {**options, "url": url}, dag=dag)
'''
WORK = '''"""What is done for it."""
import httpx
from tidemill.activities.processes.answers import Failed, Performed
from tidemill.activities.work.failures import describe_failure
from tidemill.activities.work.job import Job
from tidemill.activities.work.templates import filled_fields
from tidemill.model.run.task_instances import Outcome
from .spec import HttpGetTask


def run(job: Job) -> Performed | Failed:
    attempt, task = job.attempt_of(HttpGetTask)
    try:
        answer = httpx.get(filled_fields(job, attempt)["url"]).raise_for_status()
    except Exception as error:
        return Failed(failure=describe_failure(error))
    return Performed(outcome=Outcome(xcom={"return_value": answer.text}, started_at=job.started_at))
'''
DAG_FILE = """from acme_http import HttpGetOperator
from tidemill import DAG

with DAG("asks", schedule=None):
    there = HttpGetOperator(task_id="there", url="{url}/{{{{ ds }}}}")
    mapped = HttpGetOperator.partial(task_id="mapped").expand(url=["{url}/a", "{url}/b"])
    missing = HttpGetOperator(task_id="missing", url="{url}/404")
"""


ASKED: list[str] = []


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        ASKED.append(self.path)
        self.send_response(404 if self.path == "/404" else 200)
        self.end_headers()
        self.wfile.write(f"you asked {self.path}".encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder as site-packages has it, with a distribution of somebody else's in it."""
    package = tmp_path / "site" / "acme_http"
    package.mkdir(parents=True)
    for name, text in (("__init__", INIT), ("spec", SPEC), ("operator", OPERATOR), ("work", WORK)):
        (package / f"{name}.py").write_text(text)
    info = package.parent / "acme_http-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-http\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tidemill.kinds]\nhttp_get = acme_http\n")
    return package.parent


def tidemill(site: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(site), "HOME": str(site.parent), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "tidemill.worker", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)


def test_it_runs_and_is_mapped_and_fails_as_any_other(site: Path, tmp_path: Path, url: str) -> None:
    file = tmp_path / "asks.py"
    file.write_text(DAG_FILE.format(url=url))
    shown = tidemill(site, "dags", "validate", str(file), "--json")
    assert shown.returncode == 0, shown.stderr
    ended = tidemill(site, "dags", "test", str(file), "asks", "2026-03-05")
    text = ended.stdout + ended.stderr
    assert ended.returncode == 1, text
    assert "404 Not Found" in text
    assert {*ASKED} == {"/2026-03-05", "/a", "/b", "/404"}


def test_a_field_that_it_does_not_have_is_refused_by_name(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "asks.py"
    file.write_text(DAG_FILE.format(url="http://x").replace('task_id="missing",', 'task_id="missing", methd="GET",'))
    shown = tidemill(site, "dags", "validate", str(file))
    assert shown.returncode != 0
    assert "methd" in shown.stdout + shown.stderr


def test_one_that_cannot_be_imported_is_named(site: Path) -> None:
    (site / "acme_http" / "spec.py").write_text("import not_there\n")
    shown = tidemill(site, "dags", "list")
    assert shown.returncode != 0
    assert "the kind of task acme_http cannot be imported" in shown.stdout + shown.stderr


def test_one_that_imports_its_operator_too_early_is_told_how_not_to(site: Path) -> None:
    (site / "acme_http" / "__init__.py").write_text("from .operator import HttpGetOperator\n")
    shown = tidemill(site, "dags", "list")
    assert shown.returncode != 0
    assert "have that imported when it is used" in shown.stdout + shown.stderr


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "defines 0 kinds of task"),
        (SPEC + SPEC.replace("HttpGetTask", "Other"), "defines 2 kinds of task"),
        (SPEC.replace("http_get", "file_sensor"), "'file_sensor' is in tidemill.kinds.file_sensor and in acme_other"),
    ],
)
def test_what_is_no_kind_is_named(spec: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_other").mkdir()
    (tmp_path / "acme_other" / "__init__.py").write_text("")
    (tmp_path / "acme_other" / "spec.py").write_text(spec)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith("acme_other")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=message):
        found_kinds(iter([*packages(), "acme_other"]))
