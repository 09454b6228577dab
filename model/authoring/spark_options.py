"""Options of Spark among the arguments of an operator, and among default_args."""

from typing import Any

from ..errors import InvalidInputError
from ..spec.tasks import SparkOptions

SPARK_OPTIONS = frozenset(SparkOptions.model_fields)
LISTS = {"packages", "exclude_packages", "repositories", "jars", "py_files", "files", "archives"}
"""Those that are lists, or texts with commas between."""


def spark_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of `SparkOptions` among *options*, also those of a dict `spark`, and all other options.

    What is named by itself goes before what is in the dict.
    """
    given = options.get("spark") or {}
    if not isinstance(given, dict):
        raise InvalidInputError(f"spark={given!r} is no dict of Spark's options. Give one, or each by its own name")
    named = {name: value for name, value in options.items() if name in SPARK_OPTIONS and value is not None}
    spark = {**given, **named}
    for name in LISTS & spark.keys():
        if isinstance(spark[name], str):  # as spark-submit takes them
            spark[name] = tuple(part.strip() for part in spark[name].split(",") if part.strip())
    if isinstance(spark.get("conf"), dict):
        spark["conf"] = {str(key): value for key, value in spark["conf"].items()}
    return spark, {name: value for name, value in options.items() if name not in (*SPARK_OPTIONS, "spark")}
