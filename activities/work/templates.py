"""Fills templates in a task's arguments, in the child that does the task's work or in one of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jinja2 import StrictUndefined
from jinja2.nativetypes import NativeEnvironment
from jinja2.sandbox import SandboxedEnvironment

from ...model.errors import InvalidInputError
from ...model.run.attempts import TaskAttempt
from ...model.run.context import context, resolve
from ...model.spec.references import texts
from ..secrets import TEMPLATE_NAMES
from .limits import limited
from .template_errors import advice
from .template_filters import FILTERS

if TYPE_CHECKING:
    from .child import Job

PROCESSOR_SECONDS = 10
"""How long the templates of a task may take: they fill in values, and work belongs into tasks."""
MEGABYTES = 1024


class _Sandboxed(SandboxedEnvironment):
    """As in Airflow, templates reach values and not the insides of Python."""


class _NativeSandboxed(SandboxedEnvironment, NativeEnvironment):
    """The same, giving Python values instead of text (render_template_as_native_obj)."""


class _Refused:
    """In the place of `var` and `conn` where what is filled in comes into Temporal's history."""

    def __getattr__(self, name: str) -> Any:
        raise InvalidInputError(
            f"{name!r} is a variable or connection, and this would come into history. Read it where the work is done"
        )


NOT_IN_HISTORY = {"var": _Refused(), "conn": _Refused()}


def is_template(value: Any) -> bool:
    """Whether there is anything in *value* to be filled in by a template."""
    return any("{" in text for text in texts(value))


def filled(attempt: TaskAttempt, value: Any, known: Mapping[str, Any], *, native: bool = False) -> Any:
    """*value* with templates filled in, and then results of other tasks: what those returned is data, and no template.

    Raises InvalidInputError naming the template. Templates that take too long, or too much memory, end the process.
    """
    if is_template(value):
        with limited(processor_seconds=PROCESSOR_SECONDS, megabytes=MEGABYTES):
            value = render(value, known, native=native)
    return resolve(value, attempt.xcom)


def render(value: Any, context: Mapping[str, Any], *, native: bool = False) -> Any:
    """*value* with every template in it filled from *context*.

    An unknown variable is an error, as in Airflow. Raises InvalidInputError naming the template.
    """
    kind = _NativeSandboxed if native else _Sandboxed
    known = {**TEMPLATE_NAMES, **context}
    environment = kind(undefined=StrictUndefined, cache_size=0, keep_trailing_newline=True)
    environment.filters.update(FILTERS)
    return _render(value, known, environment)


def _render(value: Any, context: Mapping[str, Any], environment: SandboxedEnvironment) -> Any:
    if isinstance(value, str) and "{" in value:
        try:
            return environment.from_string(value).render(context)
        except Exception as error:  # a template can raise whatever its functions do
            reason = str(error) or type(error).__name__
            raise InvalidInputError(f"template {value!r}: {reason}. {advice(reason, context)}") from None
    if isinstance(value, dict):
        return {key: _render(part, context, environment) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_render(part, context, environment) for part in value]
    return value


def run(job: Job) -> dict[str, Any]:
    """Fills in the values of the request; `for_history` says that they will be kept where everybody can read them."""
    attempt = TaskAttempt.model_validate(job.request["attempt"])
    known = {**context(attempt), **(NOT_IN_HISTORY if job.request["for_history"] else {})}
    native = job.request["for_history"] and attempt.render_template_as_native_obj
    try:
        return {"values": filled(attempt, job.request["values"], known, native=native)}
    except InvalidInputError as error:
        return {"invalid": str(error)}
