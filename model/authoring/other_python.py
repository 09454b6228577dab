"""Functions that another Python interpreter calls: Airflow's virtualenv and external_python operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..base import Model
from ..errors import InvalidInputError
from .dags import DAG
from .mapped import Mappable
from .operators import call_of


class OtherPython(Model):
    """How a function is called by an interpreter that is not the worker's. Names are Airflow's.

    The function has to import what it uses: of the file that it is in, nothing else is there.
    """

    function: Any
    python: str | None = None
    """The interpreter; None: one of a virtual environment, made for the try."""
    requirements: tuple[str, ...] = ()
    python_version: str | None = None
    system_site_packages: bool = True
    pip_install_options: tuple[str, ...] = ()
    index_urls: tuple[str, ...] = ()
    venv_cache_path: str | None = None
    """Where environments are kept for further tries, by their requirements; None: nowhere."""
    env_vars: dict[str, str] = {}
    inherit_env: bool = True
    serializer: Literal["pickle", "cloudpickle", "dill"] = "pickle"
    skip_on_exit_code: tuple[int, ...] = ()


WITHOUT_EFFECT = {"expect_airflow", "expect_pendulum", "use_airflow_context", "string_args", "templates_exts"}
OPTIONS = OtherPython.model_fields.keys() - {"function"}


def other_python(function: Callable[..., Any], options: dict[str, Any]) -> tuple[OtherPython, dict[str, Any]]:
    """How *function* is called, by those of *options* that are about it, and the other options.

    Raises InvalidInputError for an option that makes no sense.
    """
    rest = {name: value for name, value in options.items() if name not in OPTIONS | WITHOUT_EFFECT}
    given = {name: value for name, value in options.items() if name in OPTIONS and value is not None}
    for name in ("requirements", "pip_install_options", "index_urls"):
        if isinstance(given.get(name), str):
            given[name] = tuple(line for line in given[name].splitlines() if line.strip())
    if isinstance(given.get("skip_on_exit_code"), int):
        given["skip_on_exit_code"] = (given["skip_on_exit_code"],)
    try:
        return OtherPython(function=function, **given), rest
    except ValueError as error:
        raise InvalidInputError(f"{function.__name__}: {error}") from None


class _OtherPythonOperator(Mappable):
    """What both operators have in common."""

    kind = "python"

    def __init__(
        self,
        task_id: str,
        *,
        python_callable: Callable[..., Any],
        op_args: Sequence[Any] = (),
        op_kwargs: dict[str, Any] | None = None,
        dag: DAG | None = None,
        **options: Any,
    ) -> None:
        work, rest = other_python(python_callable, options)
        fields = {**rest, **call_of(python_callable, op_args, op_kwargs)}
        super().__init__(self.kind, task_id, fields, dag=dag, function=work)


class PythonVirtualenvOperator(_OtherPythonOperator):
    """A call of *python_callable* in a virtual environment that is made for it, with *requirements*."""


class BranchPythonVirtualenvOperator(PythonVirtualenvOperator):
    """The same; the function returns the task_ids to go on with."""

    kind = "branch"


class ExternalPythonOperator(_OtherPythonOperator):
    """A call of *python_callable* by the interpreter *python*, which has to be there."""

    def __init__(self, task_id: str, *, python: str, **options: Any) -> None:
        super().__init__(task_id, python=python, **options)


class BranchExternalPythonOperator(ExternalPythonOperator):
    """The same; the function returns the task_ids to go on with."""

    kind = "branch"
