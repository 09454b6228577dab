"""Tasks that are commands or functions of the DAG file."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from .base import BaseTask

SKIP_EXIT_CODE = 99


def _listed(value: Any) -> Any:
    return () if value is None else (value,) if isinstance(value, int) else value


ExitCodes = Annotated[tuple[int, ...], BeforeValidator(_listed)]
"""Exit codes after which a command's task is skipped: one, several, or None."""


class EmptyTask(BaseTask):
    """Does nothing: joins and names a point in the graph (Airflow: EmptyOperator)."""

    airflow_name: ClassVar[str] = "EmptyOperator"
    kind: Literal["empty"] = "empty"


class BashTask(BaseTask):
    """A bash command; its last line of output is the result (Airflow: BashOperator)."""

    activity: ClassVar[str | None] = "tidemill.bash"
    template_ext: ClassVar[tuple[str, ...]] = (".sh", ".bash")
    airflow_name: ClassVar[str] = "BashOperator"
    template_fields: ClassVar[tuple[str, ...]] = ("command", "env", "cwd")
    kind: Literal["bash"] = "bash"
    command: Annotated[str, Field(min_length=1)]
    """The command, or the name of a .sh or .bash file; a template."""
    env: dict[str, str] = {}
    """Environment variables of the command; templates."""
    cwd: str | None = None
    """The working directory; None: the try's own folder."""
    skip_on_exit_code: ExitCodes = (SKIP_EXIT_CODE,)
    """Exit codes by which the task is skipped."""


class CallTask(BaseTask):
    """A call of the function that the DAG file defines for this task_id.

    The function may take the context's names (`ds`, `params`, `ti`, ...) as keyword arguments.
    """

    args: tuple[Any, ...] = ()
    """Positional arguments of the function: values, templates, or results of other tasks."""
    kwargs: dict[str, Any] = {}
    """Keyword arguments of the function, as `args`."""
    takes_context: bool = False
    """Whether the function asks for `ti` or `**kwargs`, and so may pull any result."""
    multiple_outputs: bool = False
    """Whether each key of the dict that is returned is a result of its own, beside the whole."""
    templates_dict: dict[str, Any] = {}
    """Values that the function finds in its context, templates filled in."""
    templates_exts: tuple[str, ...] = ()
    """How names of template files end."""
    template_fields: ClassVar[tuple[str, ...]] = ("args", "kwargs", "templates_dict")

    @property
    def pulls_xcom(self) -> bool:
        return self.takes_context or super().pulls_xcom


class PythonTask(CallTask):
    """A Python function, called in a child process of its own (Airflow: PythonOperator)."""

    activity: ClassVar[str | None] = "tidemill.python"
    airflow_name: ClassVar[str] = "PythonOperator"
    kind: Literal["python"] = "python"


class BashFunctionTask(CallTask):
    """A Python function that returns the bash command to run (Airflow: @task.bash)."""

    activity: ClassVar[str | None] = "tidemill.bash_function"
    airflow_name: ClassVar[str] = "@task.bash"
    kind: Literal["bash_function"] = "bash_function"
    skip_on_exit_code: ExitCodes = (SKIP_EXIT_CODE,)
    """Exit codes by which the task is skipped."""


class BranchTask(CallTask):
    """A function that returns the task_ids, or ids of groups, to go on with (Airflow: BranchPythonOperator).

    Tasks directly downstream that are neither named nor downstream of one that is are skipped.
    """

    activity: ClassVar[str | None] = "tidemill.python"
    airflow_name: ClassVar[str] = "BranchPythonOperator"
    kind: Literal["branch"] = "branch"


class ShortCircuitTask(CallTask):
    """A function; if it returns something false, what is downstream is skipped (Airflow: ShortCircuitOperator)."""

    activity: ClassVar[str | None] = "tidemill.python"
    airflow_name: ClassVar[str] = "ShortCircuitOperator"
    kind: Literal["short_circuit"] = "short_circuit"
    ignore_downstream_trigger_rules: bool = True
    """Whether everything downstream is skipped, or only what is directly so, the rest by its own trigger rules."""


class LatestOnlyTask(BaseTask):
    """Skips what is directly downstream unless its run is the latest of the schedule (Airflow: LatestOnlyOperator)."""

    airflow_name: ClassVar[str] = "LatestOnlyOperator"
    kind: Literal["latest_only"] = "latest_only"


CodeTask = EmptyTask | BashTask | PythonTask | BashFunctionTask | BranchTask | ShortCircuitTask | LatestOnlyTask
"""Any kind of task that runs a command or a function, or does nothing."""
