"""OpenTelemetry's exporters and what is traced. Needs the extra `otel`; `telemetry` says when it is used."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes
from temporalio.contrib.opentelemetry import MetricsExporter, TracingInterceptor
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig
from temporalio.worker import Interceptor

BEGINNING = "StartChildWorkflow:DagRun"
"""The span that begins a trace."""
BUFFERED = 100_000
"""Updates of metrics that may wait for the exporter, which looks once a second."""


class TracesOfRuns(Sampler):
    """Lets a trace begin with a run only; then decides as *sampler* does.

    What the workflows of DAGs, pools and bundles do beside belongs to no run: traces of one span each.
    """

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        is_first = not trace.get_current_span(parent_context).get_span_context().is_valid
        if is_first and name != BEGINNING:
            return SamplingResult(Decision.DROP)
        return self._sampler.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        return f"TracesOfRuns({self._sampler.get_description()})"


def tracing(exporting: AsyncExitStack) -> Interceptor:
    """Has workflows and activities traced, as long as *exporting* is open."""
    by_environment = TracerProvider().sampler  # OTEL_TRACES_SAMPLER
    provider = TracerProvider(sampler=TracesOfRuns(by_environment))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    exporting.callback(provider.shutdown)
    # For workers, and not for their client: a DAG's workflow would else belong to the trace of its registration.
    return TracingInterceptor(provider.get_tracer("tidemill"), always_create_workflow_spans=True)


async def metrics(exporting: AsyncExitStack, reports_every: timedelta) -> Runtime:
    """A runtime whose metrics are exported, as long as *exporting* is open."""
    buffer: MetricBuffer = MetricBuffer(BUFFERED)
    runtime = Runtime(telemetry=TelemetryConfig(metrics=buffer), worker_heartbeat_interval=reports_every)
    provider = MeterProvider(metric_readers=[PeriodicExportingMetricReader(OTLPMetricExporter())])
    exporting.callback(provider.shutdown)
    await exporting.enter_async_context(MetricsExporter(buffer, provider))
    return runtime
