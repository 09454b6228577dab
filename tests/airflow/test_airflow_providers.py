"""Airflow's providers, with real clients and real servers on loopback; and its Spark operators, by tidemill."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import Envelope
from airflow_stack import DAGS, airflow_place, answer_of, needs_airflow, read_file, register
from object_store import s3
from postgresql import postgresql
from support import Stack, stack
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.views import RunDetails
from tidemill.model.spec.dag import DagSpec
from tidemill.model.spec.tasks import AirflowTask
from tidemill.worker.app.dev import free_port

pytestmark = needs_airflow


class Web(BaseHTTPRequestHandler):
    """Answers, sometimes later."""

    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(0.5)
        body = json.dumps({"said": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""


@pytest.fixture
def web() -> Iterator[int]:
    """The port of an HTTP server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
async def airflow(server: str, tmp_path: Path) -> AsyncIterator[Stack]:
    home = tmp_path / "home"
    async with stack(server, home, place=airflow_place(home)) as made:
        yield made


async def run_file(made: Stack, name: str, dag_id: str) -> tuple[DagSpec, RunDetails]:
    plugin: Any = made.tidemill.client.config()["plugins"][0]
    specs = await asyncio.to_thread(read_file, plugin.place, DAGS / f"{name}.py")
    await register(made, [specs[dag_id]])
    run = await made.tidemill.runs.trigger(dag_id, TriggerRequest())
    return specs[dag_id], await made.finished(dag_id, run.run_id)


@pytest.mark.thorough
async def test_http_also_deferred(airflow: Stack, web: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WEB", f"http://127.0.0.1:{web}")
    _, details = await run_file(airflow, "providers", "http_provider")
    assert [str(task.state) for task in details.tasks] == ["success"] * 3, [task.error for task in details.tasks]
    first, second = await airflow.result_of(details, "both")
    assert first == "/hello"
    assert json.loads(second) == {"said": "/slow"}


async def test_sql(airflow: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = {"conn_type": "sqlite", "host": str(tmp_path / "rows.db")}
    monkeypatch.setenv("AIRFLOW_CONN_ROWS", json.dumps(described))
    _, details = await run_file(airflow, "providers", "sql_provider")
    assert [str(task.state) for task in details.tasks] == ["success"] * 2, [task.error for task in details.tasks]
    [row] = await airflow.result_of(details, "reads")
    assert (row["__classname__"], row["__data__"]) == ("builtins.tuple", [3])  # as Airflow's serde writes it


async def test_postgresql(airflow: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    with postgresql() as url:
        monkeypatch.setenv("AIRFLOW_CONN_BASE", url)
        _, details = await run_file(airflow, "providers", "postgres_provider")
    assert [str(task.state) for task in details.tasks] == ["success"] * 2, [task.error for task in details.tasks]
    [row] = await airflow.result_of(details, "reads")
    assert row["__data__"] == [3]


class Letterbox:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.letters: list[Envelope] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:  # noqa: N802
        self.letters.append(envelope)
        return "250 OK"


def started(box: Letterbox) -> Controller:
    """A mail server on a port that is free, also when another has just taken the one that was."""
    for _ in range(5):
        post = Controller(box, hostname="127.0.0.1", port=free_port())
        try:
            post.start()
        except OSError:
            post.loop.close()
        else:
            return post
    raise AssertionError("five free ports were all taken by others")


async def test_mail(airflow: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    box = Letterbox()
    post = started(box)
    try:
        settings = {"disable_ssl": True, "disable_tls": True, "from_email": "dags@example.com"}
        described = {"conn_type": "smtp", "host": "127.0.0.1", "port": post.port, "extra": settings}
        monkeypatch.setenv("AIRFLOW_CONN_POST", json.dumps(described))
        _, details = await run_file(airflow, "providers", "mail_provider")
    finally:
        post.stop()
    assert [str(task.state) for task in details.tasks] == ["success"], [task.error for task in details.tasks]
    [letter] = box.letters
    assert letter.rcpt_tos == ["data@example.com"]
    [part] = [part for part in message_from_bytes(bytes(letter.content or b"")).walk() if not part.is_multipart()]
    assert part.get_payload(decode=True) == b"<p>It is there</p>"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A store that speaks S3, as a connection of Airflow's."""
    with s3(tmp_path / "store") as (_, keys):
        extra = {"endpoint_url": keys["AWS_ENDPOINT_URL"], "region_name": keys["AWS_DEFAULT_REGION"]}
        login = {"login": keys["AWS_ACCESS_KEY_ID"], "password": keys["AWS_SECRET_ACCESS_KEY"]}
        yield {"AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "aws", **login, "extra": extra})}


async def test_s3_also_deferred(airflow: Stack, lake: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in lake.items():
        monkeypatch.setenv(name, value)
    _, details = await run_file(airflow, "providers", "s3_provider")
    assert [str(task.state) for task in details.tasks] == ["success"] * 3, [task.error for task in details.tasks]
    assert await airflow.result_of(details, "listed") == ["s3_provider/rows.csv"]


def test_a_provider_without_its_service_is_read(tmp_path: Path) -> None:
    place = airflow_place(tmp_path / "home")
    try:
        dag = read_file(place, DAGS / "providers.py")["kubernetes_provider"]
    finally:
        place.close()
    [pod] = dag.tasks
    assert isinstance(pod, AirflowTask)
    assert pod.operator_name == "KubernetesPodOperator"
    assert "busybox" not in dag.model_dump_json()


def test_spark_operators_are_carried_out_by_tidemill_where_they_can_be(tmp_path: Path) -> None:
    place = airflow_place(tmp_path / "home")
    try:
        dag = read_file(place, DAGS / "spark_jobs.py")["spark_jobs"]
        notices = answer_of(place, DAGS / "spark_jobs.py").notices
    finally:
        place.close()
    kinds = {task.task_id: task.kind for task in dag.tasks}
    assert kinds == {"submit": "spark_submit", "sql": "spark_sql", "as_it_is": "airflow", "other_binary": "airflow"}
    submit: Any = dag.by_id["submit"]
    assert (submit.spark.driver_memory, submit.spark.name, submit.retries) == ("512m", "rows-of-{{ ds }}", 1)
    assert submit.application_args == ("{{ params.rows }}", "{{ ds }}")
    assert "it has callbacks" in str(notices)
    assert "spark_binary asks for another program" in str(notices)


def test_values_that_tidemill_has_no_place_for_are_left_to_the_provider(tmp_path: Path) -> None:
    """They are no error of the file: Airflow's code takes them."""
    file = tmp_path / "values.py"
    file.write_text(VALUES)
    place = airflow_place(tmp_path / "home")
    try:
        dag = read_file(place, file)["values"]
        notices = str(answer_of(place, file).notices)
    finally:
        place.close()
    kinds = {task.task_id: task.kind for task in dag.tasks}
    assert kinds == {"plain": "spark_submit", "number": "airflow", "text": "airflow", "keytab": "spark_sql"}
    assert dag.by_id["keytab"].spark.keytab == "a.keytab"  # type: ignore[union-attr]
    assert "env.A is of type int: input should be a valid string" in notices
    assert "conf" in notices


VALUES = """
from airflow.providers.apache.spark.operators.spark_sql import SparkSqlOperator
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

with DAG("values", schedule=None):
    SparkSubmitOperator(task_id="plain", application="a.py", env_vars={"A": "1"}, conf={"spark.a": 1, "spark.b": True})
    SparkSubmitOperator(task_id="number", application="a.py", env_vars={"A": 1})
    SparkSqlOperator(task_id="text", sql="SELECT 1", conf="spark.a=1,spark.b=2")
    SparkSqlOperator(task_id="keytab", sql="SELECT 1", principal="ann@EXAMPLE.COM", keytab="a.keytab")
"""


@pytest.mark.thorough
@pytest.mark.spark
async def test_an_airflow_file_submits_spark_exactly_once(airflow: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    plugin: Any = airflow.tidemill.client.config()["plugins"][0]
    spec = (await asyncio.to_thread(read_file, plugin.place, DAGS / "spark_jobs.py"))["spark_jobs"]
    alone = spec.model_copy(update={"tasks": tuple(task for task in spec.tasks if task.task_id == "submit")})
    await register(airflow, [alone])
    run = await airflow.tidemill.runs.trigger("spark_jobs", TriggerRequest(logical_date="2026-03-01T00:00:00Z"))
    details = await airflow.finished("spark_jobs", run.run_id)
    assert [str(task.state) for task in details.tasks] == ["success"], [task.error for task in details.tasks]
    assert "counted 3 2026-03-01" in airflow.log_of("spark_jobs", run.run_id, "submit")
