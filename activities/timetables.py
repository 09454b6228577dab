"""Asks timetables, outside of workflows: libraries for cron and time zones change between releases.

Their answers are kept in history, so that a replay with another release of such a library, or other
time-zone tables, decides the same. A timetable of the user's own is asked in a child that may do anything.
"""

import time
from collections.abc import Callable
from typing import Any

from temporalio import activity

from ..model.dag.backfill_walk import BackfillBatch, BackfillQuestion, backfill_batch
from ..model.dag.manual_runs import (
    TriggerAnswer,
    TriggerQuestion,
    TriggersQuestion,
    answer_trigger,
    question_of,
    read_and_check,
)
from ..model.dag.ticks import Question, Ticks, TimetableQuery, coming_runs, named_by_run_after
from ..model.errors import InvalidInputError
from ..model.spec.dag import DagSpec
from ..model.spec.params import has_schema, is_costly
from ..model.spec.timetables import Custom, DataInterval
from .attempts.lifecycle import ChildListener
from .attempts.outcomes import describe_exit
from .attempts.supervision import infrastructure_error
from .masking import Masker
from .processes.answers import ConfChecked, TimetableAnswered
from .processes.call import ServerGone
from .processes.forks import Forks
from .work.airflow.schedules import OWN
from .work.airflow_detection import INSTALL
from .work.timetable import in_time
from .worker_context import WorkerContext

ANSWER_TIMEOUT_SECONDS = 20
SCHEMA_TIMEOUT_SECONDS = 5
"""Sound ones take milliseconds, and others wait for the thread meanwhile."""


class TimetableRaisedError(Exception):
    """The user's timetable, or a schema of theirs, failed. The message is its last words."""


class _Deadline:
    """Ends what is the user's own and does not answer."""

    def __init__(self, subject: str = "the timetable", seconds: float | None = None) -> None:
        self._subject, self._seconds = subject, seconds if seconds is not None else ANSWER_TIMEOUT_SECONDS
        self._at = time.monotonic() + self._seconds

    def check(self) -> None:
        if time.monotonic() > self._at:
            raise TimetableRaisedError(f"{self._subject} did not answer within {self._seconds:g} s")


class TimetableActivities:
    """What timetables are asked."""

    def __init__(self, worker_context: WorkerContext) -> None:
        self._worker_context = worker_context

    @activity.defn(name="tidemill.coming_runs")
    def ask_timetable(self, question: TimetableQuery) -> Ticks:
        """The coming runs. What the timetable raises is part of the answer, for the DAG to show."""
        try:
            if isinstance(question.timetable, Custom):
                return Ticks.model_validate_json(self._ask_elsewhere(question))
            found = coming_runs(question)
            renames = self._worker_context.names_runs_by_run_after and question.timetable.names_runs_by_interval
            return named_by_run_after(found) if renames else found
        except ServerGone:
            raise infrastructure_error("the process above the timetable's ended") from None
        except Exception as error:
            return Ticks(error=_last_words(error))

    @activity.defn(name="tidemill.backfill_batch")
    def ask_backfill(self, question: BackfillQuestion) -> BackfillBatch:
        """Some of a backfill's runs. What the timetable raises is part of the answer."""
        return self._backfill(question)

    @activity.defn(name="tidemill.backfill_part")
    def ask_backfill_part(self, question: BackfillQuestion) -> BackfillBatch:
        """Some of its runs, or how many more there are, from a place on: a name that the release before has not."""
        return self._backfill(question)

    @activity.defn(name="tidemill.answer_trigger")
    def ask_trigger(self, question: TriggerQuestion) -> TriggerAnswer:
        """The run that a trigger asks for, or why there can be none."""
        return self._answer(question, _Deadline())

    @activity.defn(name="tidemill.answer_triggers")
    def ask_triggers(self, question: TriggersQuestion) -> list[TriggerAnswer]:
        """The runs that several triggers ask for, up to the first that there can be none for."""
        answers: list[TriggerAnswer] = []
        deadline = _Deadline()
        for each in question.one_by_one():
            answers.append(self._answer(each, deadline))
            if answers[-1].run is None:
                break
        return answers

    def _answer(self, question: TriggerQuestion, deadline: _Deadline) -> TriggerAnswer:
        try:
            request = read_and_check(question)
            self._check_conf_elsewhere(question.spec, request.conf)
            query = question_of(question.spec, request)
            interval = None
            if query is not None and isinstance(query.timetable, Custom):
                interval = DataInterval.model_validate_json(self._ask_elsewhere(query, deadline))
            return answer_trigger(question, request, interval)
        except InvalidInputError as error:
            return TriggerAnswer(error=str(error))
        except ServerGone:
            raise infrastructure_error("the process above the timetable's ended") from None
        except Exception as error:
            return TriggerAnswer(error=f"the run cannot be worked out: {_last_words(error)}")

    def _backfill(self, question: BackfillQuestion) -> BackfillBatch:
        try:
            if isinstance(question.timetable, Custom):
                return BackfillBatch.model_validate_json(self._ask_elsewhere(question))
            return backfill_batch(question.timetable.next_dagrun_info, question, in_time())
        except ServerGone:
            raise infrastructure_error("the process above the timetable's ended") from None
        except Exception as error:
            return BackfillBatch(total=0, error=_last_words(error))

    def _check_conf_elsewhere(self, spec: DagSpec, conf: dict[str, Any]) -> None:
        """Holds *conf* against the params of *spec* that may take for ever. Raises InvalidInputError, or as below."""
        params = {name: one for name, one in spec.params.items() if has_schema(one) and is_costly(one["schema"])}
        if not params:
            return
        bundle, owns = (spec.source.bundle, spec.source.owns) if spec.source is not None else (None, None)
        request = {"params": params, "conf": {name: conf[name] for name in params if name in conf}}
        listener, checks = (
            ChildListener(None, Masker(), owns=owns, refused=self._refused_of(bundle, spec.dag_id)),
            _Deadline("a schema of its params", SCHEMA_TIMEOUT_SECONDS),
        )
        end = self._worker_context.forks(bundle).call("params", request, listener=listener, checks=checks)
        if not isinstance(end.answer, ConfChecked):
            raise TimetableRaisedError(f"the process that looks at its params {describe_exit(end.code)}")
        if end.answer.problem is not None:
            raise InvalidInputError(f"DAG {spec.dag_id!r}: {end.answer.problem}")

    def _refused_of(self, bundle: str | None, dag_id: str | None) -> Callable[[str, str], None]:
        """Keeps what code of a timetable or a schema is refused."""
        about = {"dag_id": dag_id} if dag_id is not None else {}
        return lambda operation, reason: self._worker_context.refusals.add(f"dag.{operation}", reason, bundle, about)

    def _ask_elsewhere(self, question: Question, deadline: _Deadline | None = None) -> str:
        """The answer of a user's timetable, as JSON. Raises TimetableRaisedError, or ServerGone."""
        request = {"question": question.model_dump_json()}
        refused = self._refused_of(question.bundle, None)
        listener = ChildListener(
            None, Masker(), key_values=self._worker_context.key_values, owns=question.owns, refused=refused
        )
        checks = deadline or _Deadline()
        end = self._forks_of(question).call("timetable", request, listener=listener, checks=checks)
        match end.answer:
            case TimetableAnswered(text=str(text)):
                return text
            case TimetableAnswered(raised=str(raised)):
                raise TimetableRaisedError(raised)
            case _:
                raise TimetableRaisedError(f"the timetable's process {describe_exit(end.code)}")

    def _forks_of(self, question: Question) -> Forks:
        """Where the class of a timetable can be imported: those written for Airflow, where Airflow is."""
        if not isinstance(question.timetable, Custom) or question.timetable.name != OWN:
            return self._worker_context.forks(getattr(question, "bundle", None))
        if (forks := self._worker_context.airflow_forks_of(question.bundle)) is None:
            raise TimetableRaisedError(INSTALL)
        return forks


def _last_words(error: Exception) -> str:
    return str(error) if isinstance(error, TimetableRaisedError) else f"{type(error).__name__}: {error}"
