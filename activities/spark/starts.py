"""One start of a Spark attempt, with all that its way of running needs to know."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ...model.errors import InvalidInputError
from ...model.run.attempts import TaskAttempt
from ...model.run.task_instances import Outcome, StagedOutput, StagedTable
from ...model.spec.references import RETURN_VALUE
from ...model.spec.tasks import (
    PySparkTask,
    SparkMode,
    SparkOptions,
    SparkSqlFunctionTask,
    SparkSqlTask,
    SparkSubmitTask,
)
from ...model.states import TaskState
from ..attempts.folder import RESULT, AttemptFolder
from ..attempts.lifecycle import attempt_supervisor, attempt_variables, made_folder
from ..attempts.outcomes import outcome_of
from ..attempts.supervision import AttemptSupervisor
from ..processes.answers import read_result
from ..secrets import new_masker
from ..worker_context import WorkerContext
from .place import invalid, place_of, spark_task
from .staging import stage
from .tables import stage_table

SHORTEST = timedelta(seconds=1)
"""The least time that an application has, whatever came before it."""


class Mode(ABC):
    """All that differs by where the driver of an application runs: one of these for each `SparkMode`."""

    outlives_worker: ClassVar[bool] = False
    """Whether the driver goes on without its worker: then it is submitted, and followed by an activity of its own."""
    is_below_worker: ClassVar[bool] = False
    """Whether the driver is a JVM below the worker, which waits until there is room for it."""
    has_own_python: ClassVar[bool] = False
    """Whether Python is that of an image or an archive, and the worker's is none of the driver's."""
    writes_log: ClassVar[bool] = False
    """Whether the driver itself writes the try's log, and not this worker."""
    read_from_conf: ClassVar[tuple[str, ...]] = ()
    """Properties that are looked up in the task's conf, and would be passed over in a file of properties."""
    conf: ClassVar[Mapping[str, str]] = {"spark.ui.port": "0"}
    """Defaults of drivers: a port of their own for the user interface."""

    def driver_folder(self, start: "SparkStart") -> str:
        """Return where the driver leaves what it leaves: in the attempt's folder, or in a container of its own."""
        return str(start.folder.work)

    def application(self, _: "SparkStart") -> list[str] | None:
        """Return what follows spark-submit's flags, of Python; None: the driver's side on the worker's disk."""
        return None

    def identity(self, _: "SparkStart") -> dict[str, str]:
        """Return the conf by which the cluster knows the attempt, and does not start it twice."""
        return {}

    @abstractmethod
    def run(self, start: "SparkStart") -> Outcome:
        """Run the application to its end, or submit it. Raises the task's failure."""

    @abstractmethod
    def end(self, start: "SparkStart", application_id: str | None) -> None:
        """End whatever the attempt has, and return when it is dead. *application_id*: what is known of it."""


def filled_script(task: object, filled: dict[str, Any]) -> SparkSubmitTask | None:
    """*task* with the name of its application filled in, which says whether it is Java's; None for another kind."""
    if not isinstance(task, SparkSubmitTask):
        return None
    return task.model_copy(update={"application": str(filled["application"])})


@dataclass(frozen=True)
class SparkStart:
    """An attempt, where it runs, and its files."""

    part: ClassVar[str] = ""
    """Which part of the attempt's work it is, where that has files and sessions of its own."""

    attempt: TaskAttempt
    worker_context: WorkerContext
    options: SparkOptions
    mode: Mode
    folder: AttemptFolder
    filled: dict[str, Any]
    """The templated fields of the task, filled in."""
    number: int
    """Which start of the attempt this is, from 1: a killed worker's attempt is started again elsewhere."""

    @classmethod
    def of(
        cls, attempt: TaskAttempt, worker_context: WorkerContext, modes: Mapping[SparkMode, Mode], number: int = 1
    ) -> "SparkStart":
        """Raises the task's failure if it cannot be run as it is written."""
        supervisor = attempt_supervisor(worker_context, attempt.timeout)
        options, fields = place_of(
            attempt, worker_context, supervisor, lambda name: worker_context.file_of(attempt, name)
        )
        task = filled_script(attempt.task, fields) or spark_task(attempt)
        if (problem := task.impossible_with(options.placed)) is not None:
            raise invalid(problem)
        folder = made_folder(worker_context, attempt)
        return cls(attempt, worker_context, options, modes[options.mode], folder, fields, number)

    @property
    def variables(self) -> dict[str, str]:
        """The driver's environment, where that is not its worker's: whose it is, and what the task says."""
        return {**attempt_variables(self.attempt), **self.filled["env"]}

    @property
    def directory(self) -> Path:
        return self.worker_context.directory(self.attempt)

    def file(self, name: str) -> Path:
        """The file that the task calls *name*, in the version of its DAG."""
        return self.worker_context.file_of(self.attempt, name)

    @property
    def driver_folder(self) -> str:
        return self.mode.driver_folder(self)

    @cached_property
    def staged(self) -> StagedOutput | None:
        return stage(self.attempt, self.filled["output"], self._number, self.directory, self.worker_context.home)

    @cached_property
    def staged_table(self) -> StagedTable | None:
        """The branch of a table that this start writes to; None without a table."""
        return stage_table(self.attempt, self.filled["table"], self.filled["replace_where"], self._number)

    @property
    def script(self) -> SparkSubmitTask | None:
        """The task whose application is a file, its name filled in; None for functions, SQL and tidemill's own work."""
        return filled_script(self.attempt.task, self.filled)

    @property
    def is_java(self) -> bool:
        """Whether the application is none of Python's, and so has nobody of tidemill's beside it in the driver."""
        return self.script is not None and self.script.is_java

    @property
    def keeps_session(self) -> bool:
        """Whether the session on a Connect server stays open after success."""
        return not self.part and spark_task(self.attempt).keep_session

    @property
    def calls_code(self) -> bool:
        """Whether the driver calls a function of the DAG file."""
        return isinstance(self.attempt.task, PySparkTask)

    def watch(self) -> AttemptSupervisor:
        return attempt_supervisor(self.worker_context, self.attempt.timeout, progress=self.progress)

    def progress(self) -> dict[str, Any] | None:
        """What the driver has told of itself last."""
        return self.folder.left("progress.json")

    def earlier_result(self) -> Outcome | None:
        """What an earlier start of the attempt came to; raises its failure. None if there is nothing yet."""
        result = self.folder.left(RESULT)
        return None if result is None else self.ended(result)

    def ended(self, result: dict[str, Any]) -> Outcome:
        """The outcome that *result* tells of, with what is to be published. Raises the failure."""
        outcome = outcome_of(read_result(result), new_masker())
        # These the worker alone says.
        outcome = outcome.model_copy(update={"staged": None, "staged_table": None, "submission": None})
        if outcome.state is not TaskState.SUCCESS:
            return outcome
        number, filled = self._start_of(result), self.filled
        staged = stage(self.attempt, filled["output"], number, self.directory, self.worker_context.home)
        table = stage_table(self.attempt, filled["table"], filled["replace_where"], number)
        return outcome.model_copy(update={"staged": staged, "staged_table": table})

    def _start_of(self, result: dict[str, Any]) -> int:
        """Which start of the attempt has written. Of what a driver says, no more than a number is taken."""
        places = ((result.get(field), name) for field, name in (("staged", "staged"), ("table", "branch")))
        written = (str(place.get(name)) for place, name in places if isinstance(place, dict))
        found = (re.search(r"[-_]0{0,4}([1-9][0-9]{0,5})$", name) for name in written)
        return next((int(number[1]) for number in found if number is not None), self._number)

    @property
    def _number(self) -> int:
        # Of those that outlive their workers only one driver ever has the attempt, whichever start asked for it.
        return 1 if self.mode.outlives_worker else self.number

    def plan(self, **more: Any) -> dict[str, Any]:
        """What the driver's own side has to know, as JSON."""
        task = self.attempt.task
        plan: dict[str, Any] = {"staged": self.staged.model_dump() if self.staged is not None else None, **more}
        if self.staged_table is not None:
            plan["table"] = self.staged_table.model_dump()
        if isinstance(task, PySparkTask):
            code = self.worker_context.code_of(self.attempt)
            plan["function"] = {"path": str(code.path), "roots": [str(root) for root in code.roots]}
        if (side := spark_task(self.attempt).driver_side) is not None:
            plan["side"] = {
                "file": side,
                **spark_task(self.attempt).plan(self.filled, lambda name: str(self.file(name))),
            }
        if isinstance(task, SparkSqlTask):
            plan |= {
                "statements": self.statements(),
                "max_rows": task.max_rows,
                "output_format": task.output_format,
            }
        return plan

    def leave_plan(self, **more: Any) -> None:
        """Leaves in the attempt's folder what the driver's own side reads there."""
        self.folder.hand_over("attempt.json", self.attempt.model_dump_json())
        self.folder.hand_over("plan.json", json.dumps(self.plan(**more)))

    def statements(self) -> list[str]:
        """The SQL statements of the task, templates filled in."""
        from .sql_statements import statements_of  # needs what is of the extra for Spark

        try:
            statements = statements_of(str(self.filled["sql"]))
        except InvalidInputError as error:
            raise invalid(str(error)) from None
        if not statements:
            raise invalid("there is no statement in the task's SQL. Write one")
        return statements


def cluster_name(start: SparkStart) -> str:
    """Return what a cluster knows the attempt by: the name of its driver's pod, the tag of its YARN application."""
    return f"tidemill-{start.attempt.uuid.hex}"


def sql_of(attempt: TaskAttempt, returned: Outcome, taken: timedelta) -> TaskAttempt:
    """Return the attempt as one of the SQL that its function has returned, with the time that it has *taken* off.

    Fails the task if that is no text.
    """
    task = attempt.task
    assert isinstance(task, SparkSqlFunctionTask)  # noqa: S101
    sql = returned.xcom.get(RETURN_VALUE)
    if not isinstance(sql, str) or not sql.strip():
        raise invalid(f"@task.spark_sql returned {sql!r}. Return the SQL, or the path of a .sql file, as text")
    shared = {name: getattr(task, name) for name in SparkSqlTask.model_fields if name not in ("kind", "sql")}
    if attempt.timeout is not None:
        shared["execution_timeout"] = max(SHORTEST, attempt.timeout - taken)
    return attempt.model_copy(update={"task": SparkSqlTask(**shared, sql=sql)})
