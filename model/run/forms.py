"""What a person is asked while a task waits, and what the task hears of the answer (Airflow: human in the loop)."""

from datetime import datetime
from typing import Any

from ..base import Instant, Model, OmitDefaults
from ..errors import InvalidInputError
from ..sizes import json_size
from ..spec.params import is_costly, param_problem
from .messages import Answer

RESERVED = "__classname__"
"""By which Airflow's serde knows what it has written itself."""


class InputForm(OmitDefaults, Model):
    """What a person is asked (Airflow: HITLDetail)."""

    subject: str
    options: tuple[str, ...]
    body: str | None = None
    defaults: tuple[str, ...] | None = None
    multiple: bool = False
    params: dict[str, Any] = {}
    """By name: value, schema and description."""
    assigned_users: tuple[str, ...] = ()
    """Who may answer; none: everybody who may answer at all."""


class Response(OmitDefaults, Model):
    """What a person was asked, and what came of it (Airflow: HITLDetail, with its response)."""

    form: InputForm
    """Without its text and fields where those are large: a run keeps all its answers."""
    chosen: tuple[str, ...]
    params: dict[str, Any] = {}
    by: str | None = None
    """Whose answer it is; None: nobody answered in time, and the defaults were taken, or it is not known."""
    at: Instant


KEPT_OF_A_FORM = 2_000
"""Bytes of a form, or of what was filled in, as JSON, that a run keeps after the answer: the result has all of it."""


def kept_form(form: InputForm) -> InputForm:
    """Return what is kept of *form* when it is not asked any more."""
    if json_size(form.model_dump(mode="json")) <= KEPT_OF_A_FORM:
        return form
    return InputForm(subject=form.subject[:200], options=tuple(one[:100] for one in form.options[:10]))


def _small(params: dict[str, Any]) -> dict[str, Any]:
    return params if json_size(params) <= KEPT_OF_A_FORM else {}


def response_to(form: InputForm, answer: Answer, at: datetime) -> Response:
    """Return what is kept of *answer*."""
    params = _small({**_defaults(form), **answer.params})
    return Response(form=kept_form(form), chosen=answer.chosen, params=params, by=answer.by, at=at)


def response_of_defaults(form: InputForm | None, at: datetime) -> Response | None:
    """Return what is kept where nobody has answered in time; None where that is an error."""
    if form is None or form.defaults is None:
        return None
    return Response(form=kept_form(form), chosen=form.defaults, params=_small(_defaults(form)), at=at)


def check_answer(form: InputForm, answer: Answer) -> None:
    """Raise InvalidInputError for params that the task would fail of when it goes on: a person can still correct them.

    Schemas that take long to be held against a value are left to the task.
    """
    check_fields(form, answer)
    prefix = f"task {answer.task!r}: params_input"
    for name, value in answer.params.items():
        if _has_reserved(value):
            raise InvalidInputError(f"{prefix}.{name} has a key {RESERVED!r}, which results cannot have. Leave it out")
        param = form.params.get(name)
        schema = param.get("schema") if isinstance(param, dict) else None
        if isinstance(schema, dict) and (why := _problem(schema, value)):
            raise InvalidInputError(f"{prefix}.{name} = {value!r} does not fit its param: {why}. Correct the value")


def _problem(schema: dict[str, Any], value: Any) -> str | None:
    if is_costly(schema):
        return None
    try:
        return param_problem({"schema": schema}, value)
    except Exception:  # a schema that is none, of a file that is anybody's: the task says so
        return None


def _has_reserved(value: Any) -> bool:
    if isinstance(value, dict):
        return RESERVED in value or any(map(_has_reserved, value.values()))
    return isinstance(value, list) and any(map(_has_reserved, value))


def check_fields(form: InputForm, answer: Answer) -> None:
    """Raise InvalidInputError for params that the form does not have."""
    if unknown := sorted(answer.params.keys() - form.params.keys()):
        known = f"It has: {', '.join(form.params)}" if form.params else "It has none"
        raise InvalidInputError(f"task {answer.task!r}: {', '.join(unknown)} is no field of its form. {known}")


def check_choice(form: InputForm, answer: Answer) -> None:
    """Raise InvalidInputError for a choice that is not offered."""
    unknown = [choice for choice in answer.chosen if choice not in form.options]
    if unknown or not answer.chosen or (len(answer.chosen) > 1 and not form.multiple):
        many = "one or more" if form.multiple else "one"
        raise InvalidInputError(
            f"task {answer.task!r}: {list(answer.chosen)} is no answer. Choose {many} of {', '.join(form.options)}"
        )


def answered(form: InputForm, answer: Answer, at: datetime) -> dict[str, Any]:
    """What a task hears of a person's answer. Raises InvalidInputError for one that is not offered, or not theirs."""
    check_choice(form, answer)
    if form.assigned_users and answer.by not in form.assigned_users:
        raise InvalidInputError(
            f"task {answer.task!r} waits for {', '.join(form.assigned_users)}, and not for {answer.by or 'somebody'}"
        )
    check_fields(form, answer)
    params = {**_defaults(form), **answer.params}
    return _heard(answer.chosen, params, at, {"id": answer.by, "name": answer.by} if answer.by else None)


def unanswered(form: InputForm | None, at: datetime) -> dict[str, Any]:
    """What it hears where nobody has answered in time."""
    if form is None or form.defaults is None:
        message = "The Human-in-the-loop response timeout has passed without a response."
        return {"error": message, "error_type": "timeout"}
    return {**_heard(form.defaults, _defaults(form), at, None), "timedout": True}


def _defaults(form: InputForm) -> dict[str, Any]:
    return {
        name: param["value"] if isinstance(param, dict) and "value" in param else param
        for name, param in form.params.items()
    }


def _heard(chosen: tuple[str, ...], params: dict[str, Any], at: datetime, by: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "chosen_options": [*chosen],
        "params_input": params,
        "responded_at": _written(at),
        "responded_by_user": by,
        "timedout": False,
    }


def _written(at: datetime) -> dict[str, Any]:
    """An instant as Airflow's serde writes it."""
    zone = {
        "__classname__": "builtins.tuple",
        "__version__": 1,
        "__data__": ["UTC", "pendulum.tz.timezone.Timezone", 1, True],
    }
    data = {"timestamp": at.timestamp(), "tz": zone}
    return {"__classname__": "datetime.datetime", "__version__": 2, "__data__": data}
