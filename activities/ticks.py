"""Asks timetables, outside of workflows: libraries for cron and time zones change between releases.

Local activities: their answers are kept in history, so that a replay with another release of such
a library, or other time-zone tables, decides the same.
"""

from temporalio import activity

from ..model.manual_runs import TriggerAnswer, TriggerQuestion, answer_trigger
from ..model.ticks import Ticks, TicksQuestion, coming_runs


@activity.defn(name="tidemill.coming_runs")
def ask_timetable(question: TicksQuestion) -> Ticks:
    """The coming runs. What the timetable raises is part of the answer, for the DAG to show."""
    try:
        return coming_runs(question)
    except Exception as error:
        return Ticks(error=f"{type(error).__name__}: {error}")


@activity.defn(name="tidemill.answer_trigger")
def ask_trigger(question: TriggerQuestion) -> TriggerAnswer:
    """The run that a trigger asks for, or why there can be none."""
    return answer_trigger(question)
