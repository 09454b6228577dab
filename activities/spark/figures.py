"""What a try's application came to: kept beside the try's log, and counted."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from ...model.run.spark_figures import SparkFigures
from .. import metrics
from ..attempts.beside_log import SPARK, keep_beside
from ..secrets import new_masker
from .starts import SparkStart

FIGURES = "figures.json"


@contextmanager
def keeping_figures(work: SparkStart) -> Iterator[None]:
    """Keeps, however the block ends, what the driver has told of its application until then."""
    try:
        yield
    finally:
        if (figures := figures_of(work)) is not None:
            keep_beside(work.folder.log, SPARK, figures.model_dump(mode="json", exclude_none=True), new_masker())
            metrics.of_application(figures, work.attempt.run.dag_id, work.attempt.task.task_id)
        work.workplace.upload_log(work.folder.log)


def figures_of(work: SparkStart) -> SparkFigures | None:
    """Return what the driver has told. It is its word alone: what is no record of figures is none."""
    told = work.folder.left(FIGURES)
    if told is None and (progress := work.progress()) is not None:
        told = {"application_id": progress.get("application_id"), "is_final": False}
    try:
        return SparkFigures.model_validate(told) if told is not None else None
    except ValidationError:
        return None
