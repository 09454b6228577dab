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
def keeping_figures(work: SparkStart) -> Iterator[None]:
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
            _keep(work, has_ended=has_ended)
        except Exception as error:  # it is the word of a process that may say anything
            log.warning("what %s came to cannot be kept: %s", work.attempt.name, error)


def _keep(work: SparkStart, *, has_ended: bool) -> None:
    if (figures := figures_of(work)) is not None:
        keep_beside(work.folder.log, SPARK, figures.model_dump(mode="json", exclude_none=True), new_masker())
        if has_ended:
            metrics.of_application(figures, work.attempt.run.dag_id, work.attempt.task.task_id)
    # All other logs were written, and brought where logs go, by this worker.
    work.workplace.upload_beside(work.folder.log, with_log=work.mode.writes_log)


def figures_of(work: SparkStart) -> SparkFigures | None:
    """Return what the driver has told. It is its word alone: what is no record of figures is none."""
    figures = work.folder.left(FIGURES)
    if figures is None and (progress := work.progress()) is not None:
        figures = {"application_id": progress.get("application_id"), "is_final": False}
    try:
        return SparkFigures.model_validate(figures, extra="ignore") if figures is not None else None
    except ValidationError:
        return None
