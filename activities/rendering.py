"""Fills templates in a task's arguments, where the task runs."""

from collections.abc import Mapping
from typing import Any

from jinja2 import StrictUndefined
from jinja2.nativetypes import NativeEnvironment
from jinja2.sandbox import SandboxedEnvironment

from ..model.errors import InvalidInputError
from .secrets import TEMPLATE_NAMES


class _Sandboxed(SandboxedEnvironment):
    """Templates are part of the DAG, but rendered beside other people's work."""


class _NativeSandboxed(SandboxedEnvironment, NativeEnvironment):
    """The same, giving Python values instead of text (render_template_as_native_obj)."""


def render(value: Any, context: Mapping[str, Any], *, native: bool = False) -> Any:
    """*value* with every template in it filled from *context*.

    An unknown variable is an error, as in Airflow. Raises InvalidInputError naming the template.
    """
    kind = _NativeSandboxed if native else _Sandboxed
    known = {**TEMPLATE_NAMES, **context}
    return _render(value, known, kind(undefined=StrictUndefined, cache_size=0, keep_trailing_newline=True))


def _render(value: Any, context: Mapping[str, Any], environment: SandboxedEnvironment) -> Any:
    if isinstance(value, str) and "{" in value:
        try:
            return environment.from_string(value).render(context)
        except Exception as error:  # a template can raise whatever its functions do
            raise InvalidInputError(
                f"template {value!r}: {error}. Use Airflow's variables, such as ds, params.x or data_interval_start"
            ) from None
    if isinstance(value, dict):
        return {key: _render(part, context, environment) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_render(part, context, environment) for part in value]
    return value
