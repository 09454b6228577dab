"""A look for events of an asset: until something is found, or it has taken long."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from ...model.asset.watching import LONGEST_LOOK, WatchAnswer, WatchQuestion
from ...model.errors import InvalidInputError
from ...model.run.attempts import TaskAttempt
from ...model.run.identity import asset_pseudo_run
from ...model.run.task_instances import Failure
from ...model.spec.assets.watchers import AssetTrigger, FilesTrigger
from ...model.spec.tasks import EmptyTask
from ..attempts.lifecycle import run_in_child, whole
from ..attempts.supervision import AttemptSupervisor, beating, stopping_cleanly, task_failure
from ..names import TASK_FAILED
from ..processes.answers import Watched
from ..worker_context import WorkerContext
from .other_namespaces import OtherNamespaces

LONGEST_ERROR = 2000
PATIENCE = timedelta(minutes=5)
"""So much longer than its time a look in a process of its own may take."""
SLICE = 0.2
"""How long it sleeps at a time, in seconds, so that it ends soon when it is asked to."""


class WatchActivities:
    def __init__(self, worker_context: WorkerContext) -> None:
        self._worker_context = worker_context
        self.other_namespaces: OtherNamespaces | None = None

    @activity.defn(name="tidemill.watch", no_thread_cancel_exception=True)
    def watch(self, question: WatchQuestion) -> WatchAnswer:
        """What is there beyond the question's position; what cannot be looked at is said, and no failure."""
        with stopping_cleanly():
            match question.watching.trigger:
                case AssetTrigger() as trigger:
                    return self._repeat(trigger, question.position)
                case FilesTrigger() as trigger:
                    return self._in_child(question, files=trigger.model_dump(mode="json"))
                case _:
                    return self._in_child(question, files=None)

    def _repeat(self, trigger: AssetTrigger, position: Any) -> WatchAnswer:
        watch, until = AttemptSupervisor(None), time.monotonic() + LONGEST_LOOK.total_seconds()
        while True:
            with beating():
                answer = self._once(trigger, position)
            again = time.monotonic() + trigger.poll_interval.total_seconds()
            if answer.found or answer.error is not None or again >= until:
                return answer
            while time.monotonic() < again:
                watch.check()
                time.sleep(SLICE)

    def _once(self, trigger: AssetTrigger, position: Any) -> WatchAnswer:
        if self.other_namespaces is None:
            raise AssertionError("the worker has not been given a client")
        try:
            return self.other_namespaces.look(trigger, position)
        except InvalidInputError as error:
            return WatchAnswer(error=str(error)[:LONGEST_ERROR])
        except Exception as error:
            return WatchAnswer(error=f"{type(error).__name__}: {error}"[:LONGEST_ERROR])

    def _in_child(self, question: WatchQuestion, **more: Any) -> WatchAnswer:
        """In a process as a task's: the worker's own paths and credentials are not the DAG author's."""
        watching = question.watching
        attempt = TaskAttempt(
            run=asset_pseudo_run(watching.asset, watching.dag_id or "", datetime.now(UTC)),
            task=EmptyTask(task_id=watching.name),
            try_number=1,
            execution=activity.info().workflow_run_id or "1",
            source=watching.source,
        )
        folder = self._worker_context.attempt_folder(attempt)
        more |= {
            "asset": watching.asset,
            "watcher": watching.name,
            "position": question.position,
            "seconds": LONGEST_LOOK.total_seconds(),
        }
        calls_code = more["files"] is None
        try:
            ended = run_in_child(
                self._worker_context, attempt, folder, "watch", _patience(), whole, calls_code=calls_code, **more
            )
        except ApplicationError as error:
            if error.type != TASK_FAILED:
                raise
            return WatchAnswer(error=_failure_text(error)[:LONGEST_ERROR])
        finally:
            self._worker_context.leftovers.add(folder.path)
        if not isinstance(ended.answer, Watched):
            return WatchAnswer(error="its process has told of nothing")
        return ended.answer.answer


def _failure_text(error: ApplicationError) -> str:
    failure = Failure.model_validate(error.details[0]) if error.details else None
    return f"{failure.error_type}: {failure.message}" if failure is not None else error.message


def _patience() -> AttemptSupervisor:
    """A look that hangs becomes an error that is shown."""
    return AttemptSupervisor(
        LONGEST_LOOK + PATIENCE,
        too_long=lambda limit: task_failure(
            Failure(error_type="WatcherTimeout", message=f"the look has not ended within {limit:g} s")
        ),
    )
