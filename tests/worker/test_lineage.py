"""OpenLineage events, received over HTTP and in files, and held against the published schemas."""

import json
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from support import bash, dag, empty, end_workflows, eventually, worker_environment, worker_process
from temporalio.client import Client
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.lineage import dataset_of
from tidemill.model.spec.assets.identity import Asset
from tidemill.model.spec.dag import DagSpec
from tidemill.worker.app.telemetry import telemetry
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin

SCHEMAS = Path(__file__).parents[1] / "data" / "openlineage"
APPS = Path(__file__).parents[1] / "dags" / "spark_apps"


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that takes OpenLineage events: its URL, and what it has got. It refuses the first of them."""
    got: list[dict[str, Any]] = []
    refused: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if refused:
                got.append(json.loads(body))
            self.send_response(200 if refused else 503)
            refused.append(1)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()


def check(events: list[dict[str, Any]]) -> None:
    """Holds events, and their facets, against the schemas that OpenLineage publishes."""
    schemas = {path.stem: json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")}
    registry: Registry[Any] = Registry().with_resources(
        (schema["$id"], Resource.from_contents(schema)) for schema in schemas.values()
    )
    whole = {"$ref": f"{schemas['OpenLineage']['$id']}#/$defs/RunEvent"}
    for event in events:
        Draft202012Validator(whole, registry=registry, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(
            event
        )
        for name, facet in {**event["run"]["facets"], **event["job"]["facets"]}.items():
            place = facet["_schemaURL"]
            known = {schema["$id"] for schema in schemas.values()}
            assert place.partition("#")[0] in known, name
            Draft202012Validator({"$ref": place}, registry=registry).validate(facet)


async def run_once(server: str, home: Path, variables: dict[str, str], spec: DagSpec) -> str:
    """A run of *spec* by a worker of its own, which has ended since. Its id."""
    queue = f"test-{uuid.uuid4().hex[:8]}"
    client = await Client.connect(server, plugins=[TidemillPlugin(home)])
    tidemill = Tidemill(client, queue)
    try:
        with worker_process({**worker_environment(server, home, queue), **variables}) as worker:
            await eventually(lambda: tidemill.dags.register(spec), bool)
            run = await tidemill.runs.trigger(spec.dag_id, TriggerRequest(logical_date="2026-01-01T00:00:00Z"))
            await eventually(lambda: tidemill.runs.find(spec.dag_id, run.run_id), lambda view: view.state.finished)
            worker.terminate()
            worker.wait(60)
    finally:
        await end_workflows(client, queue)
    return run.run_id


async def test_runs_and_tries_are_told_with_their_assets(
    server: str, tmp_path: Path, receiver: tuple[str, list[dict[str, Any]]]
) -> None:
    url, got = receiver
    lake = {"kind": "asset", "name": "orders", "uri": "s3://lake/raw/orders"}
    spec = dag(
        "lined",
        [
            {**bash("load", "true"), "inlets": [{"kind": "asset", "name": "plain"}], "outlets": [lake]},
            {**bash("fails", "echo no; exit 3"), "retries": 1, "retry_delay": 0.1, "outlets": [lake]},
            {**empty("never", "fails"), "outlets": [lake]},
        ],
        description="What is loaded",
    )
    variables = {"OPENLINEAGE_URL": url, "OPENLINEAGE_NAMESPACE": "test", "OPENLINEAGE__TRANSPORT__RETRY__TOTAL": "5"}
    await run_once(server, tmp_path, variables, spec)
    check(got)
    seen = [(event["job"]["name"], event["eventType"]) for event in got]
    assert sorted(seen) == [
        ("lined", "FAIL"),
        ("lined", "START"),
        ("lined.fails", "FAIL"),
        ("lined.fails", "FAIL"),
        ("lined.fails", "START"),
        ("lined.fails", "START"),
        ("lined.load", "COMPLETE"),
        ("lined.load", "START"),
    ]
    by = {(event["job"]["name"], event["eventType"]): event for event in got}
    run, loaded, failed = by["lined", "START"], by["lined.load", "COMPLETE"], by["lined.fails", "FAIL"]
    assert {event["job"]["namespace"] for event in got} == {"test"}
    assert run["run"]["facets"]["nominalTime"]["nominalStartTime"].startswith("2026-01-01T00:00:00")
    assert run["job"]["facets"]["documentation"]["description"] == "What is loaded"
    assert (
        loaded["run"]["facets"]["parent"]["run"]["runId"] == run["run"]["runId"] == by["lined", "FAIL"]["run"]["runId"]
    )
    assert loaded["run"]["runId"] == by["lined.load", "START"]["run"]["runId"]
    assert [(one["namespace"], one["name"]) for one in loaded["inputs"]] == [("test", "plain")]
    assert [(one["namespace"], one["name"]) for one in loaded["outputs"]] == [("s3://lake", "raw/orders")]
    assert failed["outputs"] == []
    assert "exit code 3" in failed["run"]["facets"]["errorMessage"]["message"]
    assert len({event["run"]["runId"] for event in got if event["job"]["name"] == "lined.fails"}) == 2


@pytest.mark.thorough
@pytest.mark.spark
async def test_a_spark_application_is_told_whom_it_belongs_to_and_tells_of_its_outlets(
    server: str, spark_home: Path, tmp_path: Path
) -> None:
    """By what openlineage-spark reads. Events go to a file here."""
    script = tmp_path / "app.py"
    script.write_text(
        "import json\n"
        "from pathlib import Path\n"
        "from pyspark.sql import SparkSession\n"
        "conf = SparkSession.builder.getOrCreate().sparkContext.getConf()\n"
        "parent = {k: v for k, v in conf.getAll() if k.startswith('spark.openlineage.')}\n"
        "said = {'sparked': {'extra': {'rows': 5, **parent}, 'partition_keys': ['a']}}\n"
        "Path(conf.get('spark.tidemill.result')).write_text(json.dumps({'outlet_events': said}))\n"
    )
    task = {
        "kind": "spark_submit",
        "task_id": "app",
        "application": str(script),
        "spark": {"master": "local[1]", "driver_memory": "1g"},
        "outlets": [{"kind": "asset", "name": "sparked"}],
    }
    log = tmp_path / "lineage.jsonl"
    variables = {
        "OPENLINEAGE__TRANSPORT__TYPE": "file",
        "OPENLINEAGE__TRANSPORT__LOG_FILE_PATH": str(log),
        "OPENLINEAGE__TRANSPORT__APPEND": "true",
    }
    await run_once(server, spark_home, variables, dag("lined_spark", [task]))
    events = [json.loads(line) for line in log.read_text().splitlines()]
    check(events)
    [start] = [event for event in events if event["job"]["name"] == "lined_spark.app" and event["eventType"] == "START"]
    client = await Client.connect(server, plugins=[TidemillPlugin(tmp_path)])
    history = await client.get_workflow_handle("asset:sparked").fetch_history()
    [told] = [
        json.loads(event.workflow_execution_signaled_event_attributes.input.payloads[0].data)
        for event in history.events
        if event.HasField("workflow_execution_signaled_event_attributes")
        and event.workflow_execution_signaled_event_attributes.signal_name == "tell"
    ]
    assert told["partition_key"] == "a"
    assert told["extra"] == {
        "rows": 5,
        "spark.openlineage.parentRunId": start["run"]["runId"],
        "spark.openlineage.parentJobName": "lined_spark.app",
        "spark.openlineage.parentJobNamespace": "tidemill",
    }


@pytest.mark.parametrize(
    ("uri", "dataset"),
    [
        ("file:///data/in", ("file", "/data/in")),
        ("s3://bucket/a/b", ("s3://bucket", "a/b")),
        ("postgres://host:5432/db/public/orders", ("postgres://host:5432", "db.public.orders")),
        ("orders", ("mine", "orders")),
    ],
)
def test_an_asset_is_a_dataset_by_its_uri(uri: str, dataset: tuple[str, str]) -> None:
    assert dataset_of(Asset.model_validate({"uri": uri}), "mine") == dataset


async def test_a_client_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    monkeypatch.setitem(__import__("sys").modules, "tidemill.worker.app.lineage", None)
    with pytest.raises(InvalidInputError, match=r"tidemill\[openlineage\]"):
        async with telemetry(None):
            pass
