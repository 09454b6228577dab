"""YARN: what tidemill asks for there, and makes of the answers.

The ResourceManager is a model of what one answers; `make clusters` asks a real one (tests/spark/test_spark_modes.py).
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread, Timer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from spark_starts import KUBERNETES, YARN, conf_of, start
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from tidemill.activities.spark import cluster, yarn_logs
from tidemill.activities.spark import yarn as yarn_module
from tidemill.activities.spark.activity import SparkActivities
from tidemill.activities.spark.clusters import AppState
from tidemill.activities.spark.command import DRIVER, spark_submit
from tidemill.activities.spark.driver import is_first, tell
from tidemill.activities.spark.shipping import ARCHIVE, archive
from tidemill.activities.spark.starts import SparkStart, cluster_name
from tidemill.activities.spark.yarn import LARGEST, Yarn, resource_managers, user_name
from tidemill.model.run.attempts import SubmittedAttempt
from tidemill.model.run.task_instances import Submission
from tidemill.worker.app.dev import free_port


def test_the_command_line_on_yarn(tmp_path: Path) -> None:
    work = start(tmp_path, YARN, env={"REGION": "eu"})
    argv, tag = spark_submit(work), work.attempt.uuid.hex
    flags = " ".join(argv[1:11])
    assert flags.startswith("--master yarn --deploy-mode cluster --name sales.load scheduled__2024-01-01")
    assert "--num-executors 4" in " ".join(argv)
    assert "--queue etl" in " ".join(argv)
    conf = conf_of(argv)
    assert conf["spark.yarn.tags"] == f"tidemill-{tag}"
    assert conf["spark.yarn.maxAppAttempts"] == "1"
    assert conf["spark.yarn.submit.waitAppCompletion"] == "false"
    assert conf["spark.yarn.appMasterEnv.REGION"] == "eu"
    assert conf["spark.tidemill.data_interval_end"] == "2024-01-02T00:00:00+00:00"
    assert argv[-3:] == ["attempt.zip", f"tidemill-{tag}/application/load.py", "2024-01-01"]
    assert conf["spark.tidemill.result"] == f"tidemill-{tag}/xcom.json"


def test_another_try_has_another_identity_and_the_same_try_the_same(tmp_path: Path) -> None:
    one, again = start(tmp_path, YARN).attempt, start(tmp_path, KUBERNETES).attempt
    assert one.uuid == again.uuid
    assert one.model_copy(update={"try_number": 3}).uuid != one.uuid
    assert one.model_copy(update={"map_index": 1}).uuid != one.uuid


class ResourceManager:
    """Answers as YARN's REST API does, over HTTP: applications by tag and by id, and the order to end one."""

    def __init__(self) -> None:
        self.apps: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.lists_all = False
        self.printed: dict[str, str] = {}
        """By the name of the log: what the driver of every application has printed; its node answers at this place."""
        self.standby_of: str | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                if outer.standby_of is not None:
                    self.send_response(307)
                    self.send_header("Location", outer.standby_of + self.path)
                    self.end_headers()
                    return
                outer.asked.append(f"{self.command} {unquote(self.path)}")
                *_, last = url.path.split("/")
                if "/node/containers/" in url.path:
                    self._text(outer.printed.get(last))
                elif last == "apps":
                    [tag] = parse_qs(url.query)["applicationTags"]
                    found = [app for app in outer.apps.values() if outer.lists_all or tag in app["applicationTags"]]
                    self._answer(200, {"apps": {"app": found} if found else None})
                elif last in outer.apps:
                    self._answer(200, {"app": outer.apps[last]})
                else:
                    self._answer(404, {"RemoteException": {"exception": "NotFoundException", "message": f"app {last}"}})

            def do_PUT(self) -> None:
                outer.asked.append(f"{self.command} {unquote(self.path)}")
                wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.apps[urlsplit(self.path).path.split("/")[-2]].update(state=wanted["state"], finalStatus="KILLED")
                self._answer(202, wanted)

            def _text(self, text: str | None) -> None:
                self.send_response(404 if text is None else 200)
                self.end_headers()
                self.wfile.write((text or "").encode())

            def _answer(self, code: int, body: dict[str, Any]) -> None:
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, tag: str, state: str, final: str = "UNDEFINED", diagnostics: str = "") -> str:
        name = f"application_1700000000000_{len(self.apps) + 9998:04}"
        app = {"id": name, "state": state, "finalStatus": final, "applicationTags": f"etl,{tag}", "user": "me"}
        logs = f"{self.url}/node/containerlogs/{name.replace('application', 'container')}_01_000001/me"
        self.apps[name] = {**app, "diagnostics": diagnostics, "amContainerLogs": logs}
        return name


@pytest.fixture
def resource_manager() -> Iterator[ResourceManager]:
    with ResourceManager() as running:
        yield running


def started(home: Path, resource_manager: ResourceManager) -> SparkStart:
    """An attempt whose script is there."""
    (home / "load.py").write_text("print('loads')")
    return start(home, {**YARN, "rest_url": resource_manager.url}, application=str(home / "load.py"))


def test_spark_submit_brings_the_plan_and_the_code_and_nothing_is_left_of_them(
    tmp_path: Path, resource_manager: ResourceManager
) -> None:
    work, seen = started(tmp_path, resource_manager), []

    killed = Path(tempfile.gettempdir(), f"{cluster_name(work)}-killed.zip")
    killed.touch()

    def launch(shipped: str) -> str:
        path, _, name = shipped.partition("#")
        assert name == "attempt.zip"
        assert ":" not in path  # Hadoop takes no such path, and run ids have colons
        assert f"--files {shipped}" in " ".join(spark_submit(work, shipped=[shipped]))
        with zipfile.ZipFile(path) as packed:
            assert packed.read("application/load.py") == b"print('loads')"
            plan = json.loads(packed.read("plan.json"))
        assert plan["only_one"] == {"tag": cluster_name(work), "resource_managers": [resource_manager.url]}
        seen.append(Path(path))
        return resource_manager.add(cluster_name(work), "ACCEPTED")

    assert Yarn(work, launch).submit() in resource_manager.apps
    assert not seen[0].exists()
    assert not killed.exists()  # what a start has left that was killed


def test_of_two_applications_of_an_attempt_the_older_one_works(
    tmp_path: Path, resource_manager: ResourceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was stopped in the middle of spark-submit wakes up, when another has taken over."""
    work = started(tmp_path, resource_manager)
    first, second = (resource_manager.add(cluster_name(work), "RUNNING") for _ in range(2))
    assert Yarn(work, lambda: "").find() == first
    for application, works in ((first, True), (second, False)):
        monkeypatch.setenv("CONTAINER_ID", f"{application.replace('application', 'container_e17')}_01_000001")
        assert is_first(cluster_name(work), [f"http://127.0.0.1:{free_port()}", resource_manager.url]) is works
    assert is_first(cluster_name(work), [f"http://127.0.0.1:{free_port()}"])  # nobody can say


def test_a_driver_whose_container_yarn_has_taken_does_not_begin_again(
    tmp_path: Path, resource_manager: ResourceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after preemption: YARN counts it for no failure, and what the first one has written is still there."""
    work = started(tmp_path, resource_manager)
    application = resource_manager.add(cluster_name(work), "RUNNING")
    (tmp_path / ARCHIVE).write_bytes(
        archive(work, LARGEST, only_one={"tag": cluster_name(work), "resource_managers": []})
    )
    for container, begins in (("01_000001", True), ("02_000001", False)):
        named = {**os.environ, "CONTAINER_ID": f"{application.replace('application', 'container_e17')}_{container}"}
        ran = subprocess.run(
            [sys.executable, DRIVER, tmp_path / ARCHIVE, tmp_path / "load.py"],
            cwd=tmp_path, env=named, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ("loads" in ran.stdout) is begins, ran.stderr
        resource_manager.printed = {"stdout": ran.stdout, "stderr": ""}
        resource_manager.apps[application].update(state="FINISHED", finalStatus="FAILED")
    Yarn(work, lambda: "").status(application)
    monkeypatch.setattr(cluster, "cluster_of", lambda *_: Yarn(work, lambda: ""))
    submission = Submission(application_id=application, submitted_at=datetime.now(UTC))
    with pytest.raises(ApplicationError, match=r"ContainerLostError: YARN has taken the driver's container") as raised:
        ActivityEnvironment().run(cluster.follow, work, submission)
    assert raised.value.details[0]["is_disruption"]


def test_the_end_waits_for_what_an_earlier_start_may_have_submitted(
    tmp_path: Path, resource_manager: ResourceManager
) -> None:
    """A worker that is stopped leaves a spark-submit that goes on: the run must not be over before that is."""
    first = started(tmp_path, resource_manager)
    assert Yarn(first, lambda: "").give_up()  # it stands over its own spark-submit
    late = Timer(1.5, lambda: resource_manager.add(cluster_name(first), "ACCEPTED"))
    late.start()
    assert not Yarn(replace(first, number=2), lambda: "").give_up()
    late.join()


def test_what_the_driver_has_printed_is_its_log_and_says_how_it_went(
    tmp_path: Path, resource_manager: ResourceManager, capfd: pytest.CaptureFixture[str]
) -> None:
    work = started(tmp_path, resource_manager)
    print("forty rows")
    tell(work.attempt.uuid.hex, "progress", {"stage": 1})
    tell(work.attempt.uuid.hex, "result", {"outcome": {"state": "success", "xcom": {"return_value": 40}}})
    sys.stdout.flush()
    resource_manager.printed = {"stdout": capfd.readouterr().out, "stderr": "WARN of Spark\n"}
    application = resource_manager.add(cluster_name(work), "RUNNING")
    assert yarn_logs.container_log(resource_manager.apps[application], "stderr", 5) == "park\n"
    yarn = Yarn(work, lambda: "")
    assert yarn.status(application).life is AppState.RUNNING
    assert work.progress() == {"stage": 1}
    assert work.earlier_result() is None  # it has not ended
    resource_manager.apps[application].update(state="FINISHED", finalStatus="SUCCEEDED")
    yarn._looked_at = -1000.0
    assert yarn.status(application).succeeded
    outcome = work.earlier_result()
    assert outcome is not None
    assert outcome.xcom == {"return_value": 40}
    log = work.folder.log.read_text()
    assert "WARN of Spark" in log
    assert "forty rows" in log
    assert "tidemill:" not in log


def test_a_log_that_is_nowhere_is_waited_for_and_then_counts_as_lost(
    tmp_path: Path, resource_manager: ResourceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yarn_logs, "_gathered", refused)
    yarn = Yarn(started(tmp_path, resource_manager), lambda: "")
    application = resource_manager.add("x", "FAILED", "FAILED", "exited with 1")
    with pytest.raises(OSError, match=r"404.*yarn logs"):
        yarn.status(application)
    monkeypatch.setattr(yarn_module, "LOG_TIMEOUT", 0.0)
    yarn._looked_at = -1000.0
    assert "Its log: http" in yarn.status(application).message


def refused(*_: str) -> str:
    raise OSError("yarn logs: nothing was gathered")


def test_an_application_on_yarn_is_found_by_its_tag(tmp_path: Path, resource_manager: ResourceManager) -> None:
    work = started(tmp_path, resource_manager)
    made: list[str] = []

    def launch(*_: str) -> str:
        made.append(resource_manager.add(f"tidemill-{work.attempt.uuid.hex}", "ACCEPTED"))
        return "spark-submit printed no id"

    yarn = Yarn(work, launch)
    resource_manager.add("tidemill-of-another", "RUNNING")
    assert yarn.find() is None
    assert [yarn.submit()] == [yarn.find()] == made
    assert not yarn.give_up()
    yarn.kill(made[0])
    assert yarn.status(made[0]).life is AppState.ENDED
    assert all("user.name=" in asked for asked in resource_manager.asked)
    assert yarn.status("application_1_1").life is AppState.UNKNOWN


def test_what_another_has_on_yarn_is_not_followed(tmp_path: Path, resource_manager: ResourceManager) -> None:
    """A standby of an old release redirects without the question: then everything is listed."""
    resource_manager.add("tidemill-of-another", "RUNNING")
    resource_manager.lists_all = True
    assert Yarn(started(tmp_path, resource_manager), lambda: "").find() is None


@pytest.mark.parametrize(("fields", "user"), [({}, None), ({"env": {"HADOOP_USER_NAME": "etl"}}, "etl")])
def test_yarn_is_asked_by_whom_the_application_is_of(
    tmp_path: Path, resource_manager: ResourceManager, fields: dict[str, Any], user: str | None
) -> None:
    Yarn(start(tmp_path, {**YARN, "rest_url": resource_manager.url}, **fields), lambda: "").find()
    options = {**YARN, "rest_url": resource_manager.url, "proxy_user": "ada"}
    Yarn(start(tmp_path, options, **fields), lambda: "").find()
    assert f"user.name={user or user_name()}" in resource_manager.asked[0]
    assert "user.name=ada" in resource_manager.asked[1]


@pytest.mark.parametrize(
    ("state", "final", "life", "succeeded"),
    [
        ("ACCEPTED", "UNDEFINED", AppState.WAITING, False),
        ("RUNNING", "UNDEFINED", AppState.RUNNING, False),
        ("FINISHED", "SUCCEEDED", AppState.ENDED, True),
        ("FINISHED", "FAILED", AppState.ENDED, False),
        ("KILLED", "KILLED", AppState.ENDED, False),
    ],
)
def test_what_yarn_says_of_an_application(
    tmp_path: Path, resource_manager: ResourceManager, state: str, final: str, life: AppState, succeeded: bool
) -> None:
    resource_manager.printed = {"stdout": "", "stderr": ""}
    yarn = Yarn(started(tmp_path, resource_manager), lambda: "")
    status = yarn.status(resource_manager.add("x", state, final, "AM exited with 13"))
    assert (status.life, status.succeeded) == (life, succeeded)
    assert ("AM exited with 13" in status.message) is (life is AppState.ENDED)


def test_a_resource_manager_that_stands_by_or_is_away_is_passed_over(
    tmp_path: Path, resource_manager: ResourceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ResourceManager() as standby:
        standby.standby_of = resource_manager.url
        (tmp_path / "yarn-site.xml").write_text(
            "<configuration><property><name>yarn.resourcemanager.ha.rm-ids</name><value>rm1, rm2</value></property>"
            f"<property><name>yarn.resourcemanager.webapp.address.rm1</name><value>127.0.0.1:{free_port()}</value>"
            "</property><property><name>yarn.resourcemanager.webapp.address.rm2</name>"
            f"<value>{standby.url.removeprefix('http://')}</value></property></configuration>"
        )
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        yarn = Yarn(start(tmp_path, YARN), lambda: "")
        assert yarn.status(resource_manager.add("x", "RUNNING")).life is AppState.RUNNING


def test_without_a_hadoop_configuration_yarn_is_not_guessed() -> None:
    with pytest.raises(OSError, match="HADOOP_CONF_DIR"):
        resource_managers({})


def test_what_is_on_a_cluster_is_not_taken_for_ended_where_its_connection_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = start(tmp_path, {"master": "local[1]"})
    submission = Submission(application_id="application_1_1", submitted_at=datetime.now(UTC))
    submitted = SubmittedAttempt(attempt=here.attempt, submission=submission)
    activities = SparkActivities(here.worker_context)
    monkeypatch.setattr(activities, "_start", lambda *_, **__: here)
    with pytest.raises(ApplicationError, match="was submitted to a cluster, and its connection says client"):
        activities.end(submitted)
    with pytest.raises(ApplicationError, match="was submitted to a cluster, and its connection says client"):
        cluster.follow(here, submission)
    activities.end(submitted.model_copy(update={"submission": None}))
