"""Has a small task happen once before the first fork: what Airflow builds on first use is then there for all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import DAG, task
from airflow.sdk.execution_time import task_runner
from airflow.sdk.listener import ListenerManager

from ....model.base import build_models
from ....model.run.attempts import TaskAttempt
from ....model.run.facts import Question
from ....model.run.identity import TriggerRequest, manual_run
from ....model.spec.dag import DagSource
from .answers import Asking
from .answers.table import answer
from .dag_conversion import spec_of
from .supervisor_socket import answered
from .task import perform
from .task_report import TaskReport

if TYPE_CHECKING:
    from ..job import Job


class _Nobody:
    """A job that nobody has given."""

    request: dict[str, Any] = {}

    def ask(self, **_: Any) -> dict[str, Any]:
        return {"ending": False}

    def facts(self, question: Question) -> Any:
        raise LookupError(question.about)

    def tell(self, **_: Any) -> None:
        """Nobody hears it."""


def run() -> None:
    """Reads a DAG, and runs its task, with templates. It has no result: an XCom backend would keep that for good."""
    with DAG("warm_up", schedule=None) as dag:

        def given(text: str) -> None:
            str(text)

        task(given)("{{ run_id }} {{ macros.ds_add('2026-01-01', 1) }}")

    build_models()
    spec, _ = spec_of(dag, DagSource(path=__file__, sha256="0" * 64, imports_airflow=True))
    now = datetime.now(UTC)
    identity = manual_run(spec.dag_id, spec.schedule, TriggerRequest(logical_date=now), now)
    attempt = TaskAttempt(run=identity, task=spec.tasks[0], try_number=1, source=spec.source)
    attempt = TaskAttempt.model_validate_json(attempt.model_dump_json())
    report, job = TaskReport(), cast("Job", _Nobody())
    with _unheard(), answered(lambda message, _: answer(Asking(attempt, report, job), message)):
        perform(dag.task_dict["given"], attempt, report, job)


@contextmanager
def _unheard() -> Iterator[None]:
    """Listeners of plugins are loaded, and hear nothing of it."""
    from airflow.sdk._shared.listeners.spec import lifecycle, taskinstance

    real, silent = task_runner.get_listener_manager, ListenerManager()
    real()
    silent.add_hookspecs(lifecycle)
    silent.add_hookspecs(taskinstance)
    task_runner.get_listener_manager = lambda: silent
    try:
        yield
    finally:
        task_runner.get_listener_manager = real
