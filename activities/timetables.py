"""Asks timetables, outside of workflows: libraries for cron and time zones change between releases.

Local activities: their answers are kept in history, so that a replay with another release of such
a library, or other time-zone tables, decides the same. A timetable of the user's own is asked in
a process that may do anything.
"""

import os
import subprocess
import sys
import tempfile

from temporalio import activity

from ..model.backfills import BackfillBatch, BackfillQuestion, backfill_batch
from ..model.errors import InvalidInputError
from ..model.manual_runs import TriggerAnswer, TriggerQuestion, answer_trigger, question_of, read_and_check
from ..model.ticks import Question, Ticks, TicksQuestion, coming_runs
from ..model.timetables import Custom, DataInterval

ANSWER_WITHIN_SECONDS = 20


class TimetableRaisedError(Exception):
    """The user's timetable failed. The message is its last words."""


@activity.defn(name="tidemill.coming_runs")
def ask_timetable(question: TicksQuestion) -> Ticks:
    """The coming runs. What the timetable raises is part of the answer, for the DAG to show."""
    try:
        if isinstance(question.timetable, Custom):
            return Ticks.model_validate_json(ask_elsewhere(question))
        return coming_runs(question)
    except Exception as error:
        return Ticks(
            error=str(error) if isinstance(error, TimetableRaisedError) else f"{type(error).__name__}: {error}"
        )


@activity.defn(name="tidemill.backfill_batch")
def ask_backfill(question: BackfillQuestion) -> BackfillBatch:
    """Some of a backfill's runs. What the timetable raises is part of the answer."""
    try:
        if isinstance(question.timetable, Custom):
            return BackfillBatch.model_validate_json(ask_elsewhere(question))
        return backfill_batch(question)
    except Exception as error:
        return BackfillBatch(total=0, error=f"{type(error).__name__}: {error}")


@activity.defn(name="tidemill.answer_trigger")
def ask_trigger(question: TriggerQuestion) -> TriggerAnswer:
    """The run that a trigger asks for, or why there can be none."""
    try:
        request = read_and_check(question)
        asked = question_of(question.spec, request)
        interval = None
        if asked is not None and isinstance(asked.timetable, Custom):
            interval = DataInterval.model_validate_json(ask_elsewhere(asked))
        return answer_trigger(question, request, interval)
    except InvalidInputError as error:
        return TriggerAnswer(error=str(error))
    except Exception as error:
        return TriggerAnswer(error=f"the run cannot be worked out: {type(error).__name__}: {error}")


def ask_elsewhere(question: Question) -> str:
    """The answer of a user's timetable, as JSON. Raises TimetableRaisedError."""
    read, write = os.pipe()
    with tempfile.TemporaryFile() as words, os.fdopen(read) as answers:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "tidemill.activities.timetable_child", str(write)],
            stdin=subprocess.PIPE,
            stdout=words,
            stderr=subprocess.STDOUT,
            pass_fds=[write],
        )
        os.close(write)
        try:
            child.communicate(question.model_dump_json().encode(), timeout=ANSWER_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise TimetableRaisedError(f"the timetable did not answer within {ANSWER_WITHIN_SECONDS} s") from None
        answer = answers.read()
        if child.returncode != 0 or not answer:
            words.seek(0)
            last = words.read()[-2000:].decode(errors="replace").strip().split("\n")[-1]
            raise TimetableRaisedError(last or f"the timetable's process ended with exit code {child.returncode}")
        return answer
