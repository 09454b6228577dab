"""Becomes a daemon of pip's pyspark: clusters of docker-compose.yml and of `tidemill dev` are of the drivers' version.

python -m tidemill.worker.spark_daemon master --port 7077
python -m tidemill.worker.spark_daemon worker spark://host:7077
python -m tidemill.worker.spark_daemon connect --master local[2] --conf spark.connect.grpc.binding.port=15002
"""

import os
import sys

from ..activities.spark.command import environment, spark_home
from ..activities.worker_context import find_java

CLASSES = {
    "master": "org.apache.spark.deploy.master.Master",
    "worker": "org.apache.spark.deploy.worker.Worker",
}
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


def command(kind: str, arguments: list[str]) -> list[str]:
    """The command line of a daemon."""
    if kind == "connect":
        return [str(spark_home() / "bin" / "spark-submit"), *arguments, "--class", CONNECT]
    return [str(spark_home() / "bin" / "spark-class"), CLASSES[kind], *arguments]


def main() -> None:
    """Replaces this process by Spark's, so that signals and the exit code are Spark's own."""
    if len(sys.argv) < 2 or sys.argv[1] not in (*CLASSES, "connect"):
        sys.exit("usage: spark_daemon master|worker|connect [SPARK'S OWN ARGUMENTS]")
    argv = command(sys.argv[1], sys.argv[2:])
    os.execve(argv[0], argv, environment({}, find_java()))  # noqa: S606


if __name__ == "__main__":
    main()
