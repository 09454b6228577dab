"""Turning a trigger into a run: checked against the DAG's params, its interval worked out."""

from pydantic import ValidationError

from ..base import Instant, Model, Request
from ..errors import InvalidInputError, explain
from ..json_values import Conf
from ..run.identity import RunIdentity, TriggeredBy, TriggerRequest, manual_run
from ..sizes import check_conf_size
from ..spec.dag import DagSpec
from ..spec.params import conf_problem
from ..spec.timetables import DataInterval
from .ticks import IntervalQuestion


class TriggerQuestion(Model):
    """A trigger as it arrived, and the DAG that it is for."""

    spec: DagSpec
    request: object
    now: Instant
    about_conf: bool = False
    """Whether only the request's conf is looked at, for a run that there is."""


class TriggersQuestion(Model):
    """Several triggers in one request, with the DAG once."""

    spec: DagSpec
    requests: list[object]
    now: Instant

    def one_by_one(self) -> list[TriggerQuestion]:
        return [TriggerQuestion(spec=self.spec, request=request, now=self.now) for request in self.requests]


class ConfChange(Request):
    """Another conf for a run that has not begun."""

    run_id: str
    conf: Conf


class TriggerAnswer(Model):
    """The run to create, or why there is none."""

    run: RunIdentity | None = None
    error: str | None = None

    def made(self) -> RunIdentity:
        """The run. Raises InvalidInputError where there is none."""
        if self.run is None:
            raise InvalidInputError(self.error or "the trigger was refused")
        return self.run


def read_and_check(question: TriggerQuestion) -> TriggerRequest:
    """The trigger, found to be in order. Raises InvalidInputError."""
    request = read_request(question.request, question.spec.dag_id)
    if request.dated_now:
        request = request.model_copy(update={"logical_date": question.now, "dated_now": False})
    check_conf_size(request.conf)
    check_conf(question.spec, request)
    if question.about_conf:
        return request
    by_operator = request.triggered_by is TriggeredBy.OPERATOR
    question.spec.check_run_type("operator_triggered" if by_operator else request.run_type)
    return request


def question_of(spec: DagSpec, request: TriggerRequest) -> IntervalQuestion | None:
    """What the timetable has to be asked for *request*; None if nothing."""
    if request.logical_date is None or request.data_interval_start is not None:
        return None
    return IntervalQuestion(
        timetable=spec.schedule,
        run_after=request.logical_date,
        folder=spec.folder,
        bundle=spec.bundle,
        owns=spec.owns,
    )


def answer_trigger(
    question: TriggerQuestion, request: TriggerRequest, interval: DataInterval | None = None
) -> TriggerAnswer:
    """The run. *interval* is that of a timetable which only its own process can ask."""
    spec = question.spec
    return TriggerAnswer(run=manual_run(spec.dag_id, spec.schedule, request, question.now, interval))


def read_request(document: object, dag_id: str) -> TriggerRequest:
    """*document* as a request; nothing at all is a request for a plain run. Raises InvalidInputError."""
    try:
        return TriggerRequest.model_validate({} if document is None else document, extra="forbid")
    except ValidationError as error:
        raise explain(error, f"trigger of DAG {dag_id!r}", TriggerRequest) from None


def check_conf(spec: DagSpec, request: TriggerRequest) -> None:
    """Holds the run's conf against those of the DAG's params that are not costly to look at.

    A param is a plain default, or {"value": ..., "schema": {...}} with a JSON schema for what conf gives. Raises
    InvalidInputError.
    """
    if (problem := conf_problem(spec.params, request.conf, costly=False)) is not None:
        raise InvalidInputError(f"DAG {spec.dag_id!r}: {problem}")
