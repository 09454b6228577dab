"""Asks a user's own timetable. A throw-away process: the question on standard input, the answer on a descriptor.

The class is found by its name, also beside the DAG file.
"""

import importlib
import os
import sys

from pydantic import BaseModel

from ..model.backfills import BackfillQuestion, all_infos, cut
from ..model.ticks import IntervalQuestion, Question, TicksQuestion, question_adapter, walk
from ..model.timetables import Custom


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
        case TicksQuestion():
            return walk(timetable.next_dagrun_info, question)
        case BackfillQuestion():
            return cut(question, all_infos(timetable.next_dagrun_info, question))


def main() -> None:
    result = answer(question_adapter.validate_json(sys.stdin.read()))
    with os.fdopen(int(sys.argv[1]), "w") as out:
        out.write(result.model_dump_json())
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
