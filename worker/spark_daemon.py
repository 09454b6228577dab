"""Becomes a Spark master or worker of pip's pyspark: the cluster of docker-compose.yml is of the drivers' version.

python -m tidemill.worker.spark_daemon master --port 7077
python -m tidemill.worker.spark_daemon worker spark://host:7077
"""

import os
import sys

from ..activities.spark_command import SPARK_HOME, environment
from ..activities.workplace import find_java

CLASSES = {
    "master": "org.apache.spark.deploy.master.Master",
    "worker": "org.apache.spark.deploy.worker.Worker",
}


def main() -> None:
    """Replaces this process by Spark's, so that signals and the exit code are Spark's own."""
    if len(sys.argv) < 2 or sys.argv[1] not in CLASSES:
        sys.exit("usage: spark_daemon master|worker [SPARK'S OWN ARGUMENTS]")
    launcher = str(SPARK_HOME / "bin" / "spark-class")
    os.execve(launcher, [launcher, CLASSES[sys.argv[1]], *sys.argv[2:]], environment({}, find_java()))  # noqa: S606


if __name__ == "__main__":
    main()
