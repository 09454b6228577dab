"""Options of Spark among the arguments of an operator, and among default_args."""

from collections.abc import Sequence
from typing import Any

from ..errors import InvalidInputError
from ..spec.tasks import SparkOptions

SPARK_OPTIONS = frozenset(SparkOptions.model_fields)
LISTS = {"packages", "exclude_packages", "repositories", "jars", "py_files", "files", "archives"}
"""Those that are lists, or texts with commas between."""


def spark_options(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of `SparkOptions` among *options*, also those of a dict `spark`, and all other options.

    What is named by itself goes before what is in the dict; None says that nothing inherited holds.
    """
    given = options.get("spark") or {}
    if not isinstance(given, dict):
        raise InvalidInputError(f"spark={given!r} is no dict of Spark's options. Give one, or each by its own name")
    named = {name: value for name, value in options.items() if name in SPARK_OPTIONS}
    spark = {**given, **named}
    for name in LISTS & spark.keys():
        if isinstance(spark[name], str):  # as spark-submit takes them
            spark[name] = tuple(part.strip() for part in spark[name].split(",") if part.strip())
    if isinstance(spark.get("conf"), dict):
        spark["conf"] = {str(key): value for key, value in spark["conf"].items()}
    return spark, {name: value for name, value in options.items() if name not in (*SPARK_OPTIONS, "spark")}


def merged_options(inherited: Sequence[dict[str, Any]], own: dict[str, Any]) -> dict[str, Any]:
    """Return a task's *own* options of Spark over those of *inherited* default_args, of which later ones go first.

    A level that names a connection, and no master, leaves no master of those before it. A `conf` of default_args that
    is not Spark's is for tasks of another kind.
    """
    merged: dict[str, Any] = {}
    for level in (*map(_of_defaults, inherited), own):
        if level.get("conn_id") is not None and "master" not in level:
            merged = {name: value for name, value in merged.items() if name not in ("master", "deploy_mode")}
        merged |= level
    return {name: value for name, value in merged.items() if value is not None}


def _of_defaults(default_args: dict[str, Any]) -> dict[str, Any]:
    conf = default_args.get("conf")
    if isinstance(conf, dict) and conf and not any(str(key).startswith("spark.") for key in conf):
        default_args = {name: value for name, value in default_args.items() if name != "conf"}
    return spark_options(default_args)[0]
