"""The driver's side of a declarative pipeline: runs it by Spark's own command, and tells how its flows have ended.

Beside `driver.py`; only the standard library and pyspark, of 4.1 or later. A *pipeline* is what the plan of the attempt
says of it. Pipelines need Spark Connect: where there is no server, the driver's own JVM is one.
"""

import os
import re
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLOW = re.compile(r"Flow '?(.+?)'? (?:is|has) ([A-Z_]+)")
_NAME = r"(?:`[^`]+`|\w+)(?:\.(?:`[^`]+`|\w+))*"
_TEXT = r"""(?:'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")"""
SQL_FLOW = re.compile(
    rf"(?is)\bCREATE\s+FLOW\s+({_NAME})(?:\s+COMMENT\s+{_TEXT})?"
    rf"\s+AS\s+(?:AUTO\s+CDC|INSERT)\s+INTO\s+(?:TABLE\s+)?({_NAME})"
)
SQL_COMMENT = re.compile(rf"({_TEXT}|`[^`]*`)|--[^\n]*|(?s:/\*.*?\*/)")
COMPLETED, RUNNING = "completed", "running"
SHOWN = 3
"""Of the flows that are running, so many are named."""
PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
SERVICE = "org.apache.spark.sql.connect.service.SparkConnectService"
SERVER = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
}
"""What Spark sets for a server of the application's own, which nobody else reaches."""


class DatasetNotRefreshedError(Exception):
    """The pipeline has a dataset that no task of the DAG refreshes: another try would find the same."""

    tidemill_is_final = True


class PipelinesMissingError(Exception):
    """This release of Spark has no pipelines."""


def check_release() -> None:
    """Raises PipelinesMissingError where Spark is older than its pipelines."""
    try:
        import pyspark.pipelines  # noqa: F401
    except ImportError as error:
        raise PipelinesMissingError(f"this Spark runs no pipelines: {error}. Spark 4.1 or later does") from None


def run_below(pipeline: dict[str, Any], progress: dict[str, Any]) -> dict[str, Any]:
    """Run *pipeline* in this driver's own JVM; as `run_connected`."""
    check_release()
    from pyspark.sql import SparkSession

    token = secrets.token_hex()
    builder = SparkSession.builder.config("spark.connect.authenticate.token", token)
    for name, value in SERVER.items():
        builder = builder.config(name, value)
    session = with_plugin(builder).getOrCreate()
    try:
        service = getattr(getattr(session._jvm, f"{SERVICE}$"), "MODULE$")  # how py4j sees an object of Scala
        os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = token
        os.environ["SPARK_REMOTE"] = f"sc://localhost:{service.localPort()}"  # of any other host a token needs TLS
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        ConnectSession.builder.remote(os.environ["SPARK_REMOTE"]).getOrCreate()
        return run_connected(pipeline, progress)
    finally:
        session.stop()  # else the server's threads keep the JVM from its end


def with_plugin(builder: Any) -> Any:
    """*builder* with the server among the plugins that the application has been given."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    given = SparkConf().get("spark.plugins", "")
    return builder.config("spark.plugins", f"{given},{PLUGIN}" if given else PLUGIN)


def run_connected(pipeline: dict[str, Any], progress: dict[str, Any]) -> dict[str, Any]:
    """Run *pipeline* in the session that there is; return its result. Close the session.

    How far its flows have come is kept in *progress*, as `flows`. The result is how each flow has ended, by its name;
    and as `datasets` the names of what the flows have brought up to date. Raises PipelinesMissingError, and what
    Spark raises where the pipeline fails.
    """
    check_release()
    from pyspark.pipelines import cli
    from pyspark.sql.connect.session import SparkSession

    flows: dict[str, str] = {}
    handle = cli.handle_pipeline_events
    # In a driver, pyspark.sql's own session is that of the server.
    cli.SparkSession = SparkSession
    cli.handle_pipeline_events = lambda events: handle(noting(events, flows, progress))
    try:
        with noting_targets() as targets:
            cli.run(
                spec_path=Path(pipeline["spec"]),
                full_refresh=pipeline["full_refresh"],
                full_refresh_all=pipeline["full_refresh_all"],
                refresh=pipeline["refresh"],
                dry=pipeline["dry"],
            )
    finally:
        cli.handle_pipeline_events = handle
    check_datasets(flows, targets, pipeline.get("datasets", ()))
    check_there([*pipeline["refresh"], *pipeline["full_refresh"]], flows, targets)
    xcom = {"return_value": flows, "datasets": datasets(flows, targets)}
    return {"outcome": {"state": "success", "xcom": xcom}}


@contextmanager
def noting_targets() -> Iterator[dict[str, str]]:
    """Note which dataset each flow of the pipeline writes that has a name of its own, as its files say it."""
    from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry as Registry

    targets: dict[str, str] = {}
    register_flow, register_sql = Registry.register_flow, Registry.register_sql

    def note_flow(registry: Any, flow: Any) -> None:
        targets[flow.name] = flow.target
        register_flow(registry, flow)

    def note_sql(registry: Any, sql_text: str, file_path: Path) -> None:
        targets.update((name.replace("`", ""), into.replace("`", "")) for name, into in sql_flows(sql_text))
        register_sql(registry, sql_text, file_path)

    Registry.register_flow, Registry.register_sql = note_flow, note_sql
    try:
        yield targets
    finally:
        Registry.register_flow, Registry.register_sql = register_flow, register_sql


def sql_flows(text: str) -> list[tuple[str, str]]:
    """Return the flows with names of their own that a SQL file defines, each with what it writes; no comments'."""
    return SQL_FLOW.findall(SQL_COMMENT.sub(lambda found: found[1] or " ", text))


def datasets(flows: dict[str, str], targets: dict[str, str]) -> list[str]:
    """Return the whole names of the datasets that flows which have completed write, in the order of the flows.

    A flow is called as its dataset where *targets* says nothing else; names there may leave catalog and database out.
    """
    return written_by((flow for flow, state in flows.items() if state == COMPLETED), targets)


def check_datasets(flows: Iterable[str], targets: dict[str, str], known: Collection[str]) -> None:
    """Raise DatasetNotRefreshedError where *flows*, which are all of the pipeline, write what is none of *known*.

    Without *known* nothing is compared. Names there may leave catalog and database out; each means one dataset.
    """
    names = [name.replace("`", "").lower() for name in known]
    meant: dict[str, str] = {}
    for dataset in written_by(flows, targets) if names else ():
        fitting = [name for name in names if f".{dataset}".lower().endswith(f".{name}")]
        if not fitting:
            raise DatasetNotRefreshedError(
                f"the pipeline writes {dataset}, which no task of the DAG refreshes. Add it to datasets; where it is a "
                "sink, have one task run the whole pipeline"
            )
        name = max(fitting, key=len)
        if (other := meant.setdefault(name, dataset)) != dataset:
            raise DatasetNotRefreshedError(
                f"the pipeline writes {other} and {dataset}, and datasets has {name!r} for both. Write each with its "
                "database"
            )


def check_there(wanted: Iterable[str], flows: Iterable[str], targets: dict[str, str]) -> None:
    """Raise DatasetNotRefreshedError for one of *wanted* that no flow of the pipeline writes: Spark passes it over."""
    written = written_by(flows, targets)
    for name in wanted:
        if not any(f".{dataset}".lower().endswith(f".{name}".replace("`", "").lower()) for dataset in written):
            known = ", ".join(written) or "nothing"
            raise DatasetNotRefreshedError(f"refresh: the pipeline has no dataset {name!r}. It writes {known}")


def written_by(flows: Iterable[str], targets: dict[str, str]) -> list[str]:
    """As `datasets`, of flows in whatever state."""
    found = []
    for flow in flows:
        parts = flow.split(".")
        names = (".".join(parts[n:]) for n in range(len(parts)))
        target = next((targets[name] for name in names if name in targets), flow).split(".")
        found.append(".".join([*parts[: max(0, len(parts) - len(target))], *target]))
    return list(dict.fromkeys(found))


def noting(
    events: Iterator[dict[str, Any]], flows: dict[str, str], progress: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Give the *events* of a pipeline as they come; note what they say last of each flow."""
    for event in events:
        if "pipeline_event_result" in event:
            found = FLOW.match(event["pipeline_event_result"].event.message)
            if found is not None:
                flows[found[1]] = found[2].lower()
                progress["flows"] = in_words(flows)
        yield event


def in_words(flows: dict[str, str]) -> str:
    """Return how far the flows have come: how many there are in each state, and which are running."""
    counts = ", ".join(f"{count} {state}" for state, count in Counter(flows.values()).items())
    running = [name for name, state in flows.items() if state == RUNNING]
    more = f" and {len(running) - SHOWN} more" if len(running) > SHOWN else ""
    return f"{counts} ({', '.join(running[:SHOWN])}{more})" if running else counts
