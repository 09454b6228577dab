"""Fills templates in a task's arguments, in the child that does the task's work or in one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateNotFound, TemplateSyntaxError
from jinja2.nativetypes import NativeEnvironment
from jinja2.sandbox import SandboxedEnvironment

from ...model.authoring.dags import DAG
from ...model.errors import InvalidInputError
from ...model.run.attempts import TaskAttempt
from ...model.run.context import context, resolve
from ...model.run.task_instances import Failure
from ...model.spec.references import texts
from ..processes.answers import Failed, Filled
from ..secrets import TEMPLATE_NAMES, refuse_lookups
from .dag_code import dag_of
from .limits import limited
from .macros import MACROS
from .rendered import shown
from .template_errors import advice
from .template_filters import FILTERS

if TYPE_CHECKING:
    from .job import Job

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
            f"{name!r} of a variable or connection would come into Temporal's history. Read it where the work is done"
        )


NOT_IN_HISTORY = {"var": _Refused(), "conn": _Refused()}


@dataclass(frozen=True)
class TemplateSettings:
    """What templates of a task may use beside its context."""

    folders: tuple[str, ...] = ()
    """Where template files are looked for, in this order."""
    extensions: tuple[str, ...] = ()
    """How the names of template files end."""
    macros: Mapping[str, Any] = field(default_factory=dict)
    filters: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of Jinja's Environment (Airflow: jinja_environment_kwargs)."""

    def environment(self, *, native: bool = False) -> Environment:
        """Jinja as these settings have it; a name that is not there is an error, as in Airflow."""
        kind = _NativeSandboxed if native else _Sandboxed
        usual = {"undefined": StrictUndefined, "cache_size": 0}
        made = kind(**{**usual, "loader": FileSystemLoader(self.folders), **self.options})
        made.filters.update({**FILTERS, **self.filters})
        return made

    def is_file(self, text: str) -> bool:
        """Whether *text* stands for the content of the file that it names."""
        return bool(self.extensions) and text.endswith(self.extensions)


def settings_of(extensions: Sequence[str], dag: DAG | None, folders: Sequence[str] = ()) -> TemplateSettings:
    """The settings of a task whose template files end so; *dag* is its DAG as its file makes it, where it has to be."""
    if dag is None:
        return TemplateSettings(folders=tuple(folders), extensions=tuple(extensions))
    return TemplateSettings(
        folders=tuple(folders) or template_folders(dag),
        extensions=tuple(extensions),
        macros=dag.user_defined_macros,
        filters=dag.user_defined_filters,
        options=dag.jinja_environment_kwargs,
    )


def template_folders(dag: DAG) -> tuple[str, ...]:
    """Where template files of *dag* are: beside its file, and where its template_searchpath says."""
    if dag.defined_in is None:
        return dag.template_searchpath
    folder = Path(dag.defined_in).parent
    return (str(folder), *(str(folder / path) for path in dag.template_searchpath))


def settings_for(job: Job, attempt: TaskAttempt) -> TemplateSettings:
    """The settings of *attempt*'s templates in the child that does *job*."""
    dag = dag_of(job.imported().dags, attempt) if attempt.templates_need_code else None
    return settings_of(attempt.task.template_ext, dag, job.request.get("template_folders", ()))


def is_template(value: Any, settings: TemplateSettings) -> bool:
    """Whether there is anything in *value* to be filled in by a template."""
    return any("{" in text or settings.is_file(text) for text in texts(value))


def filled(
    attempt: TaskAttempt, value: Any, known: Mapping[str, Any], settings: TemplateSettings, *, native: bool = False
) -> Any:
    """*value* with templates filled in, and then results of other tasks: what those returned is data, and no template.

    Raises InvalidInputError naming the template. Templates that take too long, or too much memory, end the process.
    """
    if is_template(value, settings):
        with limited(processor_seconds=PROCESSOR_SECONDS, megabytes=MEGABYTES):
            value = render(value, known, settings, native=native)
    return resolve(value, attempt.xcom)


def render(
    value: Any, context: Mapping[str, Any], settings: TemplateSettings | None = None, *, native: bool = False
) -> Any:
    """*value* with every template in it filled from *context*; the name of a template file becomes what is in that.

    An unknown variable is an error, as in Airflow. Raises InvalidInputError naming the template.
    """
    settings = settings or TemplateSettings()
    known = {**TEMPLATE_NAMES, "macros": MACROS, **settings.macros, **context}
    return _render(value, known, settings, settings.environment(native=native))


def _render(value: Any, context: Mapping[str, Any], settings: TemplateSettings, environment: Environment) -> Any:
    if isinstance(value, str) and ("{" in value or settings.is_file(value)):
        try:
            is_file = settings.is_file(value)
            template = environment.get_template(value) if is_file else environment.from_string(value)
            return template.render(context)
        except TemplateNotFound as error:
            raise InvalidInputError(missing_file(str(error.name or value), settings)) from None
        except Exception as error:  # a template can raise whatever its functions do
            reason = str(error) or type(error).__name__
            raise InvalidInputError(f"template {value!r}: {reason}. {advice(reason, context)}") from None
    if isinstance(value, dict):
        return {key: _render(part, context, settings, environment) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_render(part, context, settings, environment) for part in value]
    return value


def missing_file(name: str, settings: TemplateSettings) -> str:
    """Says that the template file *name* is nowhere, and what to do."""
    places = ", ".join(settings.folders) or "any folder"
    return (
        f"template file {name!r} is not in {places}. Put it there, name its folder in the DAG's template_searchpath, "
        "or add a blank to the end of a value that is no file"
    )


def check(value: Any, settings: TemplateSettings) -> None:
    """Raises InvalidInputError for a template in *value* that could never be filled in, or a file that is nowhere."""
    environment = settings.environment()
    for text in texts(value):
        is_file = settings.is_file(text) and "{" not in text
        try:
            if is_file:
                environment.get_template(text)
            elif "{" in text and not settings.is_file(text):
                environment.compile(text, raw=True)
        except TemplateNotFound as error:
            raise InvalidInputError(missing_file(str(error.name or text), settings)) from None
        except TemplateSyntaxError as error:
            where = f"{text}, line {error.lineno}" if is_file else repr(text)
            raise InvalidInputError(
                f"template {where}: {str(error.message).rstrip('.')}. Correct the template"
            ) from None


def filled_fields(job: Job, attempt: TaskAttempt) -> dict[str, Any]:
    """Return the template fields of the attempt's task, filled in, and have them kept for people to see.

    Raises InvalidInputError for a template that cannot be filled in.
    """
    found: dict[str, Any] = filled(attempt, attempt.task.written(), context(attempt, job), settings_for(job, attempt))
    job.tell(rendered=shown(found))
    return found


def run(job: Job) -> Filled | Failed:
    """Fills in the values of the request; `for_history` says that they will be kept where everybody can read them."""
    attempt = TaskAttempt.model_validate(job.request["attempt"])
    if job.request["for_history"]:
        refuse_lookups()
    known = {**context(attempt, job), **(NOT_IN_HISTORY if job.request["for_history"] else {})}
    native = job.request["for_history"] and attempt.render_template_as_native_obj
    try:
        return Filled(values=filled(attempt, job.request["values"], known, settings_for(job, attempt), native=native))
    except Exception as error:  # also what its DAG file raises, where that is needed
        return Failed(failure=Failure(error_type="TemplateError", message=str(error)))
