"""What a try of a task adds to the trace of its run. Does nothing where OpenTelemetry is not set up."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..model.run.attempts import TaskAttempt

propagate: Any = None
trace: Any = None
with suppress(ImportError):  # they are of the extra `otel`
    from opentelemetry import propagate, trace


def describe(attempt: TaskAttempt) -> None:
    """Says on the activity's span which try it is."""
    if trace is None:
        return
    run = attempt.run
    attributes: dict[str, Any] = {
        "dag_id": run.dag_id,
        "run_id": run.run_id,
        "task_id": attempt.task.task_id,
        "map_index": attempt.map_index,
        "try_number": attempt.try_number,
    }
    trace.get_current_span().set_attributes({f"tidemill.{name}": value for name, value in attributes.items()})


def environment() -> dict[str, str]:
    """TRACEPARENT and its like, by which a task's process goes on with the trace (OpenTelemetry's variables)."""
    if trace is None:
        return {}
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {name.upper(): value for name, value in carrier.items()}


@contextmanager
def spark_application(name: str, progress: Callable[[], dict[str, Any] | None]) -> Iterator[None]:
    """A span over a Spark application, from its submission to its end. *progress* tells its application_id."""
    if trace is None:
        yield
        return
    with trace.get_tracer("tidemill").start_as_current_span(f"spark {name}") as span:
        try:
            yield
        finally:
            reported = progress() or {}
            if reported.get("application_id") is not None:
                span.set_attribute("spark.application_id", reported["application_id"])
