"""Runs DAGs that are written for Airflow in one process, without a server: a debugger stops in their operators."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...activities.attempts.key_values import KeyValues
from ...activities.attempts.lifecycle import ChildListener
from ...activities.attempts.outcomes import outcome_of
from ...activities.dag_files import root_of
from ...activities.masking import Masker
from ...activities.processes.children import airflow_variables
from ...activities.work.dag_code import Code
from ...activities.work.dag_import import import_code
from ...activities.worker_context import has_airflow
from ...model.errors import InvalidInputError
from ...model.run.attempts import TaskAttempt, task_path
from ...model.run.deferrals import TriggerEnd
from ...model.run.facts import Facts, Question
from ...model.run.task_instances import Outcome
from ...model.run.triggering import TriggerQuestion
from ...model.spec.dag import DagSource, DagSpec
from ...model.states import TaskState


def go_on_with_airflow(python: str | None) -> None:
    """Has the Python that has Airflow take over this command, unless this one has it. Raises InvalidInputError."""
    if has_airflow():
        return
    if python is None:
        raise InvalidInputError(
            "the file imports Airflow, and there is none here. Install tidemill[airflow], or name a Python that has "
            "both by TIDEMILL_AIRFLOW_PYTHON"
        )
    os.execv(python, [python, "-P", "-m", "tidemill.worker", *sys.argv[1:]])  # noqa: S606 - the user's own command


class AirflowFile:
    """A DAG file that is imported here, with Airflow."""

    def __init__(self, path: Path) -> None:
        from ...activities.work.airflow.prefork import warm_up

        os.environ.update(airflow_variables(sys.executable, path.parent))
        warm_up()
        self.path = path
        self.code: Code = import_code(path, (root_of(path),), shortens=False)

    def spec(self, dag_id: str) -> DagSpec:
        """A DAG of the file as data. Raises InvalidInputError if there is none of that id."""
        from ...activities.work.airflow.dag_conversion import spec_of

        source = DagSource(path=str(self.path), sha256="0" * 64, imports_airflow=True)
        for dag in self.code.airflow_dags:
            if dag.dag_id == dag_id:
                return spec_of(dag, source)[0]
        known = ", ".join(dag.dag_id for dag in self.code.airflow_dags) or "none"
        raise InvalidInputError(f"{self.path} defines no DAG {dag_id!r}. It defines: {known}")

    def performed(self, attempt: TaskAttempt, facts: Facts, values: KeyValues) -> Outcome:
        """What a try comes to while it has a worker. Raises the task's failure."""
        from ...activities.work.airflow import task

        outcome = outcome_of(task.run(_LocalWorker(attempt, self.code, facts, values)))  # type: ignore[arg-type]
        if outcome.state is TaskState.AWAITING_INPUT:
            raise InvalidInputError(
                f"task {attempt.task.task_id!r} waits for a person, and there is nobody to ask without a server. "
                "Try the DAG out with `tidemill dev`"
            )
        return outcome


def end_of_trigger(question: TriggerQuestion, until: datetime | None) -> TriggerEnd | None:
    """What a trigger says first; None where it says nothing until then."""
    from ...activities.work.airflow.triggers import first_event, trigger_of

    async def watched() -> TriggerEnd:
        seconds = None if until is None else max(0.0, (until - datetime.now(UTC)).total_seconds())
        async with asyncio.timeout(seconds):
            return await first_event(trigger_of(question))

    try:
        return asyncio.run(watched())
    except TimeoutError:
        return None
    except Exception as error:
        return TriggerEnd(error="Trigger failure", traceback=(f"{type(error).__name__}: {error}",))


@dataclass
class _LocalWorker:
    """What a task asks its worker, answered by this process."""

    attempt: TaskAttempt
    code: Code
    _facts: Facts
    _values: KeyValues
    request: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        run, task = self.attempt.run, self.attempt.task
        path = task_path(run.dag_id, run.run_id, task.task_id, self.attempt.map_index)
        self._listener = ChildListener(None, Masker(), key_values=self._values, task=path)
        self.request = {"attempt": self.attempt.model_dump(mode="json")}

    def imported(self) -> Code:
        return self.code

    def facts(self, question: Question) -> Any:
        return self._facts.facts(question)

    def tell(self, **_: Any) -> None:
        """Nobody masks what is printed here."""

    def ask(self, **question: Any) -> dict[str, Any]:
        if {"store", "names", "look_up"} & question.keys():
            return self._listener.answer(question)
        if "trigger" in question:
            return {"error": "no run can be started without a server. Use `tidemill dags trigger`"}
        return {"ending": False}
