"""A class-data-sharing archive: half of a Spark driver's start-up, paid once per Spark and Java version."""

import fcntl
import logging
import subprocess
import tempfile
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from .command import environment, spark_home, spark_version

SMALL = "-XX:+UseSerialGC"
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
WARM_UP = """
from pyspark.sql import SparkSession
s = SparkSession.builder.getOrCreate()
df = s.createDataFrame([(1, "a", 1.5), (2, "b", 2.5)], "i int, s string, x double")
df.createOrReplaceTempView("t")
import tempfile, os
with tempfile.TemporaryDirectory() as d:
    df.write.parquet(os.path.join(d, "p"))
    df.write.option("header", True).csv(os.path.join(d, "c"))
    s.read.option("header", True).csv(os.path.join(d, "c")).count()
    s.read.parquet(os.path.join(d, "p")).groupBy("s").agg({"x": "avg"}).collect()
s.sql("select t.s, count(*) from t join t u on t.i = u.i group by t.s order by 2").collect()
s.stop()
"""

log = logging.getLogger(__name__)


def fast_start(home: Path, java: Path, *, small: bool) -> str:
    """Java options for a driver that starts quickly; "" where the archive is not there yet.

    A *small* driver, which is its own cluster, does better with a simple collector of garbage, too.
    """
    archive = archive_path(home, java)
    if not archive.is_file():
        return ""
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto {f'{SMALL} ' if small else ''}{QUIET}"


def archive_path(home: Path, java: Path) -> Path:
    known = spark_version(spark_home())
    spark = version("pyspark") if known is None else ".".join(map(str, known))
    return home / "cache" / f"spark-{spark}-{_java_version(java)}.jsa"


def build_archive(home: Path, java: Path) -> Path:
    """Makes the archive unless it is there; several processes may ask at once. Raises OSError if Spark cannot run."""
    archive = archive_path(home, java)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.is_file():
            return archive
        with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            made = Path(folder, "made.jsa")
            script = Path(folder, "warm_up.py")
            script.write_text(WARM_UP)
            done = subprocess.run(
                [
                    str(spark_home() / "bin" / "spark-submit"), "--master", "local[2]",
                    "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1",
                    "--conf", "spark.ui.port=0",
                    "--driver-java-options", f"-XX:ArchiveClassesAtExit={made} {SMALL} {QUIET}", str(script),
                ],
                env=environment({}, java), cwd=folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode != 0 or not made.is_file():
                raise OSError(f"Spark could not run its warm-up: {done.stderr.strip()[-2000:]}")
            made.replace(archive)
    return archive


@lru_cache(maxsize=4)
def _java_version(java: Path) -> str:
    completed = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=True)
    return sha256(completed.stderr.encode()).hexdigest()[:8]
