"""Real servers for the tests: one for the session, and one that makes every workflow go on as new, soon."""

import faulthandler
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import skips
from hypothesis import settings
from kubernetes_cluster import (
    KubernetesCluster,
    SparkOperator,
    kubernetes_cluster,
    missing,
    operator_missing,
    spark_operator,
)
from spark_clusters import Standalone, spark_connect, standalone_cluster
from support import Stack, stack, temporal_server
from tidemill.activities.spark.archive import build_archive
from tidemill.activities.worker_context import find_java
from yarn_cluster import YarnCluster, yarn_cluster
from yarn_cluster import missing as yarn_missing

# Every JVM of the tests lives for seconds: what its second compiler would do costs more than it ever saves.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

# How long an example takes says something of the machine, not of the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

LONGEST = (
    "test_spark_kills.py",
    "test_bundles.py",  # needs no Spark, while the first one gets it ready
    "test_spark_modes.py",
    "test_spark.py",
    "test_demo.py",
    "test_storm.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that the last to end is not one that began last."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


CRASHES = Path(__file__).parents[1] / "build" / "crashes"
"""Where each process of the tests says what it was doing when it crashed."""


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Has a crash told where it can be read: the report of one is cut off before its first lines."""
    if hasattr(config, "workerinput"):
        faulthandler.enable((CRASHES / f"{config.workerinput['workerid']}.txt").open("w"), all_threads=False)
    elif "PYTEST_XDIST_WORKER" not in os.environ:  # else it is a run of a test's own
        shutil.rmtree(CRASHES, ignore_errors=True)
        CRASHES.mkdir(parents=True)
        config.pluginmanager.register(FailuresAtOnce(config))


class FailuresAtOnce:
    """Tells each failure when it happens: a run that CI cuts off has no summary."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter: Any = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.write_line(
                f"\n{report.nodeid} failed in its {report.when}, after {report.duration:.0f} s", red=True
            )
            reporter.write_line(report.longreprtext[-4000:])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tells what has crashed, and what was left out, at the end of each run."""
    for path in sorted(CRASHES.glob("*.txt")):
        for line in path.read_text().splitlines()[:40]:
            terminalreporter.write_line(f"{path.stem} crashed: {line[:300]}", red=True)
    found = skips.skipped(terminalreporter.stats.get("skipped", []))
    for line in skips.lines(found):
        terminalreporter.write_line(line)
    for reason in skips.unexpected(found, in_ci=skips.is_ci()):
        terminalreporter.write_line(f"not on the list of what CI may leave out (tests/skips.py): {reason}", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, a test that is left out for no reason on the list fails the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    left_out = skips.skipped(reporter.stats.get("skipped", [])) if reporter is not None else {}
    if session.exitstatus == 0 and skips.unexpected(left_out, in_ci=skips.is_ci()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Temporal server that lives as long as the session; or of the service that is to be tested."""
    if service := os.environ.get("TEST_TEMPORAL_SERVICE"):
        yield service
        return
    with temporal_server(tmp_path_factory.mktemp("temporal")) as address:
        yield address


@pytest.fixture(scope="session")
def impatient_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that suggests to continue as new after a few dozen events instead of thousands."""
    config = {"limit.historyCount.suggestContinueAsNew": 40}
    with temporal_server(tmp_path_factory.mktemp("impatient"), **config) as address:
        yield address


@pytest.fixture
async def here(server: str, tmp_path: Path) -> AsyncIterator[Stack]:
    """A worker on the session's server."""
    async with stack(server, tmp_path / "home") as made:
        yield made


@pytest.fixture(scope="session")
def spark_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose class-data-sharing archive is built: other homes link to it."""
    home = Path(__file__).parents[1] / "build" / "test-home"
    home.mkdir(parents=True, exist_ok=True)
    java = find_java()
    assert java is not None
    build_archive(home, java)
    return home / "cache"


@pytest.fixture(scope="session")
def standalone(spark_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A standalone Spark cluster."""
    with standalone_cluster(tmp_path_factory.mktemp("standalone"), spark_cache) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    """A cluster of Kubernetes whose pods are processes; `kubectl` and spark-submit find it."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with (
        kubernetes_cluster(tmp_path_factory.mktemp("kubernetes") / "cluster") as cluster,
        pytest.MonkeyPatch.context() as set_,
    ):
        set_.setenv("KUBECONFIG", str(cluster.kubeconfig))
        yield cluster


@pytest.fixture(scope="session")
def operator(request: pytest.FixtureRequest) -> Iterator[SparkOperator]:
    """The Spark operator of the cluster of Kubernetes."""
    if (reason := operator_missing()) is not None:
        pytest.skip(reason)
    with spark_operator(request.getfixturevalue("kubernetes")) as started:
        yield started


@pytest.fixture(scope="session")
def yarn(homes: Path) -> Iterator[YarnCluster]:
    """A cluster of YARN that sees nothing of workers' homes; spark-submit finds it."""
    if (reason := yarn_missing()) is not None:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="tidemill-yarn-"))
    try:
        with (
            yarn_cluster(folder / "cluster", [homes]) as cluster,
            pytest.MonkeyPatch.context() as set_,
        ):
            set_.setenv("HADOOP_CONF_DIR", str(cluster.conf))
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def connect(spark_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A Spark Connect server: its URL, and that of its UI."""
    with spark_connect(tmp_path_factory.mktemp("connect"), spark_cache.parent) as urls:
        yield urls


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the homes of workers are that run Spark: a cluster hides it from its containers."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture
def spark_home(spark_cache: Path, homes: Path) -> Path:
    """A home of the test's own in which Spark starts quickly."""
    home = Path(tempfile.mkdtemp(dir=homes))
    (home / "cache").symlink_to(spark_cache)
    return home
