"""Whether this machine can run Spark."""

import os
from importlib.util import find_spec

from ...activities.worker_context import find_java


def lacks_for_spark() -> str | None:
    """What this machine lacks to run Spark, and how it is had; None if it has all of it."""
    if not os.environ.get("SPARK_HOME") and find_spec("pyspark") is None:
        return "it is not installed: pip install 'tidemill[spark]'"
    return None if find_java() is not None else "there is no Java: install one, or set JAVA_HOME"
