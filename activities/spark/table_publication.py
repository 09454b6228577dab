"""A Spark application of tidemill's own: makes the branch of an attempt that has succeeded its table's main one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ...model.run.attempts import TableAttempt
from ...model.run.task_instances import Outcome, StagedTable
from ...model.spec.tasks import SparkMode, SparkSubmitTask
from ...model.spec.tasks.spark import DEFAULT_MASTER
from ..attempts.outcomes import outcome_of
from ..names import MAX_STARTS
from ..processes.answers import read_result
from ..secrets import new_masker
from .starts import Mode, SparkStart
from .tables import signature

DRIVER_MEMORY = "1g"
"""What a publication takes of its worker in place of what the cluster gave to the task's driver."""


@dataclass(frozen=True)
class TablePublication(SparkStart):
    """Where and with what it runs: as its attempt, but never on a cluster that its worker would have to follow."""

    part: ClassVar[str] = "publish"
    table: StagedTable
    withdraws: bool = False

    @classmethod
    def of_branch(cls, start: SparkStart, question: TableAttempt, modes: Mapping[SparkMode, Mode]) -> Self:
        """Return the publication that *question* asks for.

        In place of cluster mode it is below this worker, in local mode.
        """
        options, attempt = start.options, start.attempt
        if start.mode.outlives_worker:
            conf = {name: value for name, value in options.conf.items() if not name.startswith("spark.driver.memory")}
            local = {"master": DEFAULT_MASTER, "deploy_mode": None, "driver_cores": None}
            options = options.model_copy(update={**local, "driver_memory": DRIVER_MEMORY, "conf": conf})
        # Not below the attempt's, which is removed some time after its outcome is known.
        apart = attempt.model_copy(update={"execution": f"{attempt.execution}-{cls.part}"})
        folder = start.worker_context.attempt_folder(apart).make()
        nothing_else = {
            "env": start.filled["env"],
            "output": None,
            "table": None,
            "replace_where": None,
            "session": None,
        }
        mode = modes[options.mode]
        # After all that have published: what these have on a Connect server is ended first.
        number = start.number + (MAX_STARTS if question.withdraws else 0)
        begun = (attempt, start.worker_context, options, mode, folder, nothing_else, number)
        return cls(*begun, table=question.staged, withdraws=question.withdraws)

    @property
    def script(self) -> SparkSubmitTask | None:
        return None

    @property
    def calls_code(self) -> bool:
        return False

    def plan(self, **more: Any) -> dict[str, Any]:
        signed = signature(self.attempt, self.table)
        since = {"since_try": self.attempt.tries_cleared, "withdraws": self.withdraws}
        publish = {**self.table.model_dump(), "signed": signed, **since}
        return {"staged": None, "publish": publish, **more}

    def ended(self, result: dict[str, Any]) -> Outcome:
        return outcome_of(read_result(result), new_masker())
