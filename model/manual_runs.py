"""Turning a trigger into a run: checked against the DAG's params, its interval worked out."""

from jsonschema import Draft202012Validator
from pydantic import ValidationError

from .base import Instant, Model
from .dag import DagSpec
from .errors import InvalidInputError, explain
from .runs import RunIdentity, TriggerRequest, manual_run


class TriggerQuestion(Model):
    """A trigger as it arrived, and the DAG that it is for."""

    spec: DagSpec
    request: object
    now: Instant


class TriggerAnswer(Model):
    """The run to create, or why there is none."""

    run: RunIdentity | None = None
    error: str | None = None


def answer_trigger(question: TriggerQuestion) -> TriggerAnswer:
    """What comes of the trigger. Bad input is an answer, not an exception."""
    spec = question.spec
    try:
        request = read_request(question.request, spec.dag_id)
        check_conf(spec, request)
        return TriggerAnswer(run=manual_run(spec.dag_id, spec.schedule, request, question.now))
    except InvalidInputError as error:
        return TriggerAnswer(error=str(error))


def read_request(document: object, dag_id: str) -> TriggerRequest:
    """*document* as a request; nothing at all is a request for a plain run. Raises InvalidInputError."""
    try:
        return TriggerRequest.model_validate({} if document is None else document)
    except ValidationError as error:
        raise explain(error, f"trigger of DAG {dag_id!r}", TriggerRequest) from None


def check_conf(spec: DagSpec, request: TriggerRequest) -> None:
    """Holds the run's conf against the DAG's params. Raises InvalidInputError.

    A param is a plain default, or {"value": ..., "schema": {...}} with a JSON schema for what conf gives.
    """
    for name, param in spec.params.items():
        if isinstance(param, dict) and "schema" in param and name in request.conf:
            problem = next(Draft202012Validator(param["schema"]).iter_errors(request.conf[name]), None)
            if problem is not None:
                raise InvalidInputError(
                    f"DAG {spec.dag_id!r}: conf.{name} = {request.conf[name]!r} does not fit its param: "
                    f"{problem.message}. Correct the value"
                )
