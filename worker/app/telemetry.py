"""How a worker is seen: Prometheus where the settings ask for it, OpenTelemetry and OpenLineage where the usual
variables, OTEL_* and OPENLINEAGE_*, do."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig
from temporalio.worker import Interceptor

from ...activities.lineage import is_configured
from ...model.errors import InvalidInputError

OF_SDK = timedelta(seconds=60)
"""How often workers report unless asked otherwise: the default of Temporal's SDK."""
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass(frozen=True)
class Telemetry:
    """What a worker's parts are made with so that they are seen."""

    interceptors: Sequence[Interceptor] = ()
    """For the worker: they trace runs."""
    runtime: Runtime | None = None
    """For the client: it keeps metrics. None: nobody wants them."""


@asynccontextmanager
async def telemetry(metrics_address: str | None, reports_every: timedelta | None = None) -> AsyncIterator[Telemetry]:
    """Traces, metrics and lineage, exported as long as the block.

    Raises InvalidInputError if an extra is not installed that they need.

    *reports_every*: how often a worker says to Temporal that it is there; None: as the SDK does, once a minute.
    Metrics wait at *metrics_address* for Prometheus where one is set; else OpenTelemetry gets them.
    """
    traced, measured = is_exported("TRACES"), metrics_address is None and is_exported("METRICS")
    async with AsyncExitStack() as exporting:
        interceptors, runtime = [], None
        if traced or measured:
            try:
                from . import otel
            except ImportError as error:
                raise InvalidInputError(
                    f"{ENDPOINT} is set, and OpenTelemetry is not installed ({error}). "
                    "Install it with: pip install 'tidemill[otel]'"
                ) from None
            interceptors = [otel.tracing(exporting)] if traced else []
            runtime = await otel.metrics(exporting, reports_every or OF_SDK) if measured else None
        if is_configured():
            try:
                from .lineage import lineage
            except ImportError as error:
                raise InvalidInputError(
                    f"OPENLINEAGE_* says where lineage goes, and its client is not installed ({error}). "
                    "Install it with: pip install 'tidemill[openlineage]'"
                ) from None
            exporting.enter_context(lineage())
        if metrics_address is not None:
            seen = TelemetryConfig(metrics=PrometheusConfig(bind_address=metrics_address))
            runtime = Runtime(telemetry=seen, worker_heartbeat_interval=reports_every or OF_SDK)
        elif runtime is None and reports_every is not None:
            runtime = Runtime(telemetry=TelemetryConfig(), worker_heartbeat_interval=reports_every)
        yield Telemetry(interceptors, runtime)


def is_exported(signal: str) -> bool:
    """Whether the OTEL_* variables ask for *signal*: TRACES or METRICS."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp") == "none":
        return False
    return bool(os.environ.get(ENDPOINT) or os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"))
