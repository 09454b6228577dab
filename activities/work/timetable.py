"""Asks a user's own timetable, in a child of its own. The class is found by its name, also beside the DAG file."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import BaseModel

from ...model.dag.backfill_walk import BackfillQuestion, backfill_batch
from ...model.dag.ticks import IntervalQuestion, Question, TimetableQuery, question_adapter, walk
from ...model.spec.timetables import Custom
from ..processes.answers import TimetableAnswered

if TYPE_CHECKING:
    from .job import Job


PART_SECONDS = 1.0
"""How long one part of a long walk may take; who asks goes on from there."""


def in_time() -> Callable[[], bool]:
    """Whether there is time left for more of a walk that begins now."""
    until = time.monotonic() + PART_SECONDS
    return lambda: time.monotonic() < until


def run(job: Job) -> TimetableAnswered:
    """The timetable's answer to the question, or what it has raised."""
    try:
        return TimetableAnswered(text=answer(question_adapter.validate_json(job.request["question"])).model_dump_json())
    except BaseException as error:
        return TimetableAnswered(raised=f"{type(error).__name__}: {error}")


def answer(question: Question) -> BaseModel:
    assert isinstance(question.timetable, Custom)  # noqa: S101
    if question.folder is not None:
        sys.path.insert(0, question.folder)
    module, _, name = question.timetable.name.partition(":")
    timetable = getattr(importlib.import_module(module), name)(**question.timetable.arguments)
    match question:
        case IntervalQuestion():
            interval: BaseModel = timetable.manual_interval(question.run_after)
            return interval
        case TimetableQuery():
            return walk(timetable.next_dagrun_info, question)
        case BackfillQuestion():
            return backfill_batch(timetable.next_dagrun_info, question, in_time())
