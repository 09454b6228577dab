"""What a try's application came to: kept beside the try's log, and counted."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError
from temporalio.exceptions import ApplicationError

from ...model.run.spark_figures import SparkFigures
from .. import metrics
from ..attempts.beside_log import SPARK, keep_beside
from ..names import TASK_FAILED
from ..secrets import new_masker
from .starts import SparkStart

FIGURES = "figures.json"

log = logging.getLogger(__name__)


@contextmanager
def keeping_figures(start: SparkStart) -> Iterator[None]:
    """Keeps, however the block ends, what the driver has told of its application until then.

    Counts it where the try has ended by that: who is stopped has a successor, which counts the whole. Neither changes
    how the block ends.
    """
    has_ended = False
    try:
        yield
        has_ended = True
    except ApplicationError as error:
        has_ended = error.type == TASK_FAILED
        raise
    finally:
        try:
            _keep(start, has_ended=has_ended)
        except Exception as error:  # it is the word of a process that may say anything
            log.warning("what %s came to cannot be kept: %s", start.attempt.name, error)


def _keep(start: SparkStart, *, has_ended: bool) -> None:
    if (figures := figures_of(start)) is not None:
        keep_beside(start.folder.log, SPARK, figures.model_dump(mode="json", exclude_none=True), new_masker())
        if has_ended:
            metrics.of_application(figures, start.attempt.run.dag_id, start.attempt.task.task_id)
    # All other logs were written, and brought where logs go, by this worker.
    start.worker_context.upload_beside(start.folder.log, with_log=start.mode.writes_log)


def figures_of(start: SparkStart) -> SparkFigures | None:
    """Return what the driver has told. It is its word alone: what is no record of figures is none."""
    figures = start.folder.left(FIGURES)
    if figures is None and (progress := start.progress()) is not None:
        figures = {"application_id": progress.get("application_id"), "is_final": False}
    try:
        return SparkFigures.model_validate(figures, extra="ignore") if figures is not None else None
    except ValidationError:
        return None
