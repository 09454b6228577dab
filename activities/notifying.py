"""Tells those who want to know: calls functions of the DAG file, runs commands, posts to URLs."""

import os
import subprocess
from collections.abc import Sequence

import httpx
from temporalio import activity
from temporalio.exceptions import ApplicationError

from ..model.run.attempts import CallbackCall
from ..model.run.notices import Notice
from ..model.spec.notifiers import CommandNotifier, FunctionNotifier, WebhookNotifier
from .attempts.folder import AttemptFolder
from .attempts.outcomes import describe_exit, outcome_of
from .attempts.watch import Watch, stopping_cleanly
from .attempts.way import forked
from .processes.environment import for_children
from .secrets import Connection
from .workplace import Workplace

WITHIN_SECONDS = 60


class NotifyActivities:
    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace

    @activity.defn(name="tidemill.notify", no_thread_cancel_exception=True)
    def notify(self, notice: Notice) -> None:
        """Delivers *notice*. A worker that is killed in between has it delivered again, under the same key."""
        with stopping_cleanly():
            match notice.notifier:
                case FunctionNotifier() as notifier:
                    self._call(notice, notifier)
                case CommandNotifier() as notifier:
                    run_command(notifier.command, notice, self._workplace.environment)
                case WebhookNotifier() as notifier:
                    post(notifier, notice)

    def _call(self, notice: Notice, notifier: FunctionNotifier) -> None:
        called = CallbackCall(
            event=notice.event,
            number=notifier.number,
            of_run=notice.of_run,
            reason=notice.reason,
            asset=notice.asset,
        )
        execution = f"{notice.attempt.execution}-notice-{notice.number}"
        attempt = notice.attempt.model_copy(update={"callback": called, "execution": execution})
        folder = AttemptFolder.of(self._workplace.home, attempt)
        if (earlier := folder.read("result.json")) is None:
            # A file may have DAGs of both kinds: the callbacks of one for Airflow have no tasks of tidemill's.
            work = "airflow" if notice.written_for == "airflow" else "function"
            earlier = forked(self._workplace, attempt, folder, work, Watch(None), calls_code=True).result
        outcome_of(earlier)
        self._workplace.leftovers.add(folder.path)


def environment(notice: Notice, patterns: Sequence[str]) -> dict[str, str]:
    """What children get of the worker's environment, with `TIDEMILL_<FACT>` for each fact of the notice."""
    facts = {f"TIDEMILL_{name.upper()}": str(value) for name, value in notice.facts().items() if value is not None}
    return {**for_children(os.environ, patterns), **facts, "TIDEMILL_NOTICE_KEY": notice.key}


def run_command(command: str, notice: Notice, patterns: Sequence[str] = ()) -> None:
    """Runs the command with what happened in its environment. Raises ApplicationError if it fails or takes too long."""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            env=environment(notice, patterns),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        told = f"the notifier's command took more than {WITHIN_SECONDS} s"
        raise ApplicationError(told, type="NotifierFailed") from None
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().split("\n")[-1]
        raise ApplicationError(
            f"the notifier's command {describe_exit(done.returncode)}: {last}", type="NotifierFailed"
        )


def post(notifier: WebhookNotifier, notice: Notice) -> None:
    """Posts the facts as JSON, the notice's key as Idempotency-Key. Raises ApplicationError for an error answer."""
    url, headers, name = notifier.url or "", notifier.headers, notifier.url
    if notifier.conn_id is not None:
        connection = Connection.get(notifier.conn_id)
        url, headers = f"{connection.url}{url}", {**connection.headers, **headers}
        name = f"connection {notifier.conn_id!r}"  # the address itself may be a secret
    headers = {"Idempotency-Key": notice.key, **headers}
    try:
        answer = httpx.post(url, json=notice.facts(), headers=headers, timeout=WITHIN_SECONDS)
    except httpx.HTTPError as error:
        raise ApplicationError(f"{name} cannot be reached: {type(error).__name__}", type="NotifierFailed") from None
    if answer.is_error:
        raise ApplicationError(f"{name} answered {answer.status_code}", type="NotifierFailed")
