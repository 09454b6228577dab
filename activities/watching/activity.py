"""A look for events of an asset: until something is found, or it has taken long."""

import time
from datetime import UTC, datetime
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
from ..attempts.folder import AttemptFolder
from ..attempts.watch import Watch, beating, stopping_cleanly
from ..attempts.way import forked
from ..names import TASK_FAILED
from ..workplace import Workplace
from .files import look_at_files
from .other_namespaces import OtherNamespaces

LONGEST_ERROR = 2000
SLICE = 0.2
"""How long it sleeps at a time, in seconds, so that it ends soon when it is asked to."""


class WatchActivities:
    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace
        self.other_namespaces: OtherNamespaces | None = None

    @activity.defn(name="tidemill.watch", no_thread_cancel_exception=True)
    def watch(self, question: WatchQuestion) -> WatchAnswer:
        """What is there beyond the question's position; what cannot be looked at is said, and no failure."""
        with stopping_cleanly():
            match question.watching.trigger:
                case FilesTrigger() | AssetTrigger() as trigger:
                    return self._repeat(question, trigger.poll_interval.total_seconds())
                case _:
                    return self._in_child(question)

    def _repeat(self, question: WatchQuestion, pause: float) -> WatchAnswer:
        watch, until = Watch(None), time.monotonic() + LONGEST_LOOK.total_seconds()
        while True:
            with beating():  # a listing may take longer than a worker may be silent
                answer = self._once(question)
            again = time.monotonic() + pause
            if answer.found or answer.moved or answer.error is not None or again >= until:
                return answer
            while time.monotonic() < again:
                watch.check()
                time.sleep(SLICE)

    def _once(self, question: WatchQuestion) -> WatchAnswer:
        try:
            match question.watching.trigger:
                case FilesTrigger() as trigger:
                    return look_at_files(trigger, question.position, time.time())
                case AssetTrigger() as trigger if self.other_namespaces is not None:
                    return self.other_namespaces.look(trigger, question.position)
        except InvalidInputError as error:
            return WatchAnswer(error=str(error)[:LONGEST_ERROR])
        except Exception as error:
            return WatchAnswer(error=f"{type(error).__name__}: {error}"[:LONGEST_ERROR])
        raise AssertionError(question.watching)

    def _in_child(self, question: WatchQuestion) -> WatchAnswer:
        watching = question.watching
        attempt = TaskAttempt(
            run=asset_pseudo_run(watching.asset, watching.dag_id or "", datetime.now(UTC)),
            task=EmptyTask(task_id=_plain(watching.name)),
            try_number=1,
            execution=activity.info().workflow_run_id or "1",
            source=watching.source,
        )
        folder = AttemptFolder.of(self._workplace.home, attempt)
        more: dict[str, Any] = {
            "asset": watching.asset,
            "watcher": watching.name,
            "position": question.position,
            "seconds": LONGEST_LOOK.total_seconds(),
        }
        try:
            ended = forked(self._workplace, attempt, folder, "watch", Watch(None), calls_code=True, **more)
        except ApplicationError as error:
            if error.type != TASK_FAILED:
                raise
            return WatchAnswer(error=_told(error)[:LONGEST_ERROR])
        finally:
            self._workplace.leftovers.add(folder.path)
        return WatchAnswer.model_validate(ended.result["answer"])


def _told(error: ApplicationError) -> str:
    failure = Failure.model_validate(error.details[0]) if error.details else None
    return f"{failure.error_type}: {failure.message}" if failure is not None else error.message


def _plain(name: str) -> str:
    """*name* as a task may be called."""
    return "".join(letter if letter.isalnum() or letter in "_.-" else "_" for letter in name)
