"""Traces and metrics by OpenTelemetry, received by a collector of the test's own over HTTP."""

import gzip
import sys
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from support import bash, dag, end_workflows, eventually, worker_environment, worker_process
from temporalio.client import Client
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.views import RunDetails
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import RunState
from tidemill.worker.app.telemetry import telemetry
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin

APPS = Path(__file__).parents[1] / "dags" / "spark_apps"
CONTINUES = "echo $TRACEPARENT | grep -E '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'"
DAY = {"start_date": "2024-03-04T00:00:00Z", "schedule": {"kind": "once"}}


class Collector:
    """Takes what OTLP exporters send."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.metrics: set[str] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path == "/v1/traces":
                    traces = ExportTraceServiceRequest.FromString(body)
                    outer.spans += [s for r in traces.resource_spans for scope in r.scope_spans for s in scope.spans]
                else:
                    metrics = ExportMetricsServiceRequest.FromString(body)
                    scopes = [scope for resource in metrics.resource_metrics for scope in resource.scope_metrics]
                    outer.metrics |= {metric.name for scope in scopes for metric in scope.metrics}
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


async def traced(server: str, home: Path, collector: Collector, spec: DagSpec) -> RunDetails:
    """The first scheduled run of *spec*, by a worker that sends to *collector* and has ended since."""
    queue = f"test-{uuid.uuid4().hex[:8]}"
    client = await Client.connect(server, plugins=[TidemillPlugin(home)])
    tidemill = Tidemill(client, queue)
    env = {
        **worker_environment(server, home, queue),
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }

    async def finished() -> RunDetails | None:
        runs = await tidemill.runs.list(spec.dag_id)
        return await tidemill.runs.describe_workflow(runs[0].workflow_id) if runs and runs[0].ended_at else None

    try:
        with worker_process(env) as worker:
            await eventually(lambda: tidemill.dags.register(spec), bool)
            details = await eventually(finished, bool)
            worker.terminate()
            worker.wait(60)
    finally:
        await end_workflows(client, queue)
    assert details is not None
    return details


def spans_of(collector: Collector, trace_id: bytes) -> dict[str, Span]:
    return {span.name: span for span in collector.spans if span.trace_id == trace_id}


async def test_a_run_is_one_trace_from_its_tick_to_its_tasks(server: str, tmp_path: Path, collector: Collector) -> None:
    spec = dag("traced", [bash("say", CONTINUES), bash("again", "true", "say")], **DAY)
    details = await traced(server, tmp_path / "home", collector, spec)
    assert details.state is RunState.SUCCESS
    begun = [span for span in collector.spans if not span.parent_span_id]
    assert [span.name for span in begun] == ["StartChildWorkflow:DagRun"], "only runs begin a trace"
    spans = [span for span in collector.spans if span.trace_id == begun[0].trace_id]
    assert len(spans) == len(collector.spans)
    attempts = [span for span in spans if span.name == "RunActivity:tidemill.bash"]
    told = [{a.key: a.value.string_value or a.value.int_value for a in span.attributes} for span in attempts]
    assert {one["tidemill.task_id"] for one in told} == {"say", "again"}
    assert {(one["tidemill.dag_id"], one["tidemill.run_id"], one["tidemill.try_number"]) for one in told} == {
        ("traced", details.run.run_id, 1)
    }
    assert {"tidemill_running_attempts", "temporal_workflow_completed"} <= collector.metrics


@pytest.mark.thorough
@pytest.mark.spark
async def test_the_trace_of_a_run_reaches_its_spark_application(
    server: str, spark_home: Path, collector: Collector
) -> None:
    application = {
        "kind": "spark_submit",
        "task_id": "count",
        "application": str(APPS / "count.py"),
        "application_args": ["plain", "10", "{{ ds }}"],
        "spark": {"master": "local[2]", "driver_memory": "1g", "conf": {"spark.sql.shuffle.partitions": 2}},
    }
    await traced(server, spark_home, collector, dag("traced_spark", [application], **DAY))
    [begun] = [span for span in collector.spans if not span.parent_span_id]
    spans = spans_of(collector, begun.trace_id)
    [job] = [span for name, span in spans.items() if name.startswith("spark ")]
    attempt = spans["RunActivity:tidemill.spark"]
    assert job.parent_span_id == attempt.span_id
    assert any(a.key == "spark.application_id" and a.value.string_value for a in job.attributes)
    assert job.end_time_unix_nano > job.start_time_unix_nano


async def test_an_exporter_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "tidemill.worker.app.otel", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'tidemill\[otel\]'"):
        async with telemetry(None):
            pass
