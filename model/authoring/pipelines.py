"""The datasets of a declarative pipeline of Spark as tasks of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidInputError
from .operators import SparkPipelinesOperator


def spark_pipeline(
    pipeline_spec: str, datasets: Mapping[str, Sequence[str]], **options: Any
) -> dict[str, SparkPipelinesOperator]:
    """Make a task for each of *datasets*, which refreshes it after those that it reads; return the tasks by dataset.

    *datasets*: for each dataset of the pipeline the others that it reads. A task's id is its dataset's name, with `_`
    for dots. *options* are those of `SparkPipelinesOperator`. The first of the tasks that read none fails where the
    pipeline has a dataset that no task refreshes. Raises InvalidInputError for what is read and is none of *datasets*.
    """
    if not isinstance(datasets, Mapping) or not datasets:
        raise InvalidInputError(f"datasets: {datasets!r} names none. Write {{'orders': [], 'totals': ['orders']}}")
    if taken := sorted({"task_id", "refresh", "full_refresh", "full_refresh_all", "pipeline_command"} & {*options}):
        raise InvalidInputError(f"{taken[0]}: each task of spark_pipeline refreshes its dataset. Leave it out")
    for dataset, sources in datasets.items():
        if isinstance(sources, str) or not isinstance(sources, Sequence):
            raise InvalidInputError(f"datasets: {dataset!r} reads {sources!r}, which is no list. Write []")
        if strange := [source for source in sources if source not in datasets]:
            raise InvalidInputError(
                f"datasets: {dataset!r} reads {strange[0]!r}, which is none of them: {', '.join(datasets)}. Add it, or "
                "leave it out where it is no dataset of the pipeline"
            )
    first = next((dataset for dataset, sources in datasets.items() if not sources), None)
    tasks = {
        dataset: SparkPipelinesOperator(
            re.sub(r"[^\w-]", "_", dataset),
            pipeline_spec=pipeline_spec,
            refresh=dataset,
            datasets=[*datasets] if dataset == first else [],
            **options,
        )
        for dataset in datasets
    }
    for dataset, sources in datasets.items():
        for source in sources:
            tasks[source] >> tasks[dataset]
    return tasks
