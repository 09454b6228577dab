"""Tells those who want to know: calls functions of the DAG file, runs commands, posts to URLs."""

from datetime import timedelta

import httpx
from temporalio import activity
from temporalio.exceptions import ApplicationError

from ..model.run.attempts import CallbackCall
from ..model.run.notices import Notice
from ..model.spec.notifiers import CommandNotifier, FunctionNotifier, WebhookNotifier
from .attempts.folder import RESULT
from .attempts.last_words import LastWords
from .attempts.outcomes import describe_exit, outcome_of
from .attempts.watch import Watch, handed_over, stopping_cleanly
from .attempts.way import Conversation, forked
from .processes.call import ServerGone
from .secrets import Connection, fresh_masker
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
                    run_command(notifier.command, notice, self._workplace)
                case WebhookNotifier() as notifier:
                    post(notifier, notice, self._workplace.base_url)

    def _call(self, notice: Notice, notifier: FunctionNotifier) -> None:
        called = CallbackCall(
            event=notice.event,
            number=notifier.number,
            of_run=notice.of_run,
            reason=notice.reason,
            asset=notice.asset,
            about=notice.about,
        )
        execution = f"{notice.attempt.execution}-notice-{notice.number}"
        attempt = notice.attempt.model_copy(update={"callback": called, "execution": execution})
        folder = self._workplace.attempt_folder(attempt)
        if (earlier := folder.ending(RESULT)) is None:
            # A file may have DAGs of both kinds: the callbacks of one for Airflow have no tasks of tidemill's.
            work = "airflow" if notice.written_for == "airflow" else "function"
            log_url = self._workplace.log_url_of(attempt.seen_by_callback)
            forks = forked(self._workplace, attempt, folder, work, Watch(None), calls_code=True, log_url=log_url)
            earlier = forks.result
        outcome_of(earlier)
        self._workplace.leftovers.add(folder.path)


def environment(notice: Notice, base_url: str | None = None) -> dict[str, str]:
    """`TIDEMILL_<FACT>` for each fact of the notice, which its command finds beside what every task has."""
    known = notice.facts(base_url).items()
    facts = {f"TIDEMILL_{name.upper()}": str(value) for name, value in known if value is not None}
    return {**facts, "TIDEMILL_NOTICE_KEY": notice.key}


def run_command(command: str, notice: Notice, workplace: Workplace) -> None:
    """Runs the command as a task of the DAG is run, with what happened in its environment.

    Raises ApplicationError if it fails or takes too long.
    """
    source = notice.attempt.source
    forks = workplace.forks(source.bundle if source is not None else None)
    printed = LastWords(Conversation(None, fresh_masker(), owns=notice.attempt.owns))
    request = {
        "argv": ["/bin/sh", "-c", command],
        "variables": environment(notice, workplace.base_url),
        "directory": _beside_its_file(notice, workplace),
        "grace": workplace.grace.total_seconds(),
    }
    within = Watch(timedelta(seconds=WITHIN_SECONDS), too_long=lambda limit: _failed(f"took more than {limit:g} s"))
    try:
        answer = forks.call("command", request, listener=printed, checks=within, grace=workplace.grace.total_seconds())
    except ServerGone:
        raise handed_over("the process above the notifier's command ended") from None
    end = (answer.result or {}).get("ended", {"code": answer.code})
    if end["code"] != 0:
        said = end.get("error") or next(iter(printed.lines()[-1:]), "it said nothing")
        raise _failed(f"{describe_exit(end['code'])}: {said}")


def _beside_its_file(notice: Notice, workplace: Workplace) -> str:
    """Where the command of a notice runs; an alarm is given, too, where the code that it is about is gone."""
    try:
        return str(workplace.directory(notice.attempt))
    except ApplicationError:
        return "/"


def _failed(how: str) -> ApplicationError:
    return ApplicationError(f"the notifier's command {how}", type="NotifierFailed")


def post(notifier: WebhookNotifier, notice: Notice, base_url: str | None = None) -> None:
    """Posts the facts as JSON, the notice's key as Idempotency-Key. Raises ApplicationError for an error answer."""
    url, headers, name = notifier.url or "", notifier.headers, notifier.url
    if notifier.conn_id is not None:
        owns = notice.attempt.owns
        if owns is not None and (refused := owns.problem("connection", notifier.conn_id)) is not None:
            raise ApplicationError(refused, type="NotifierFailed", non_retryable=True)
        connection = Connection.get(notifier.conn_id)
        url, headers = f"{connection.url}{url}", {**connection.headers, **headers}
        name = f"connection {notifier.conn_id!r}"  # the address itself may be a secret
    headers = {"Idempotency-Key": notice.key, **headers}
    try:
        answer = httpx.post(url, json=notice.facts(base_url), headers=headers, timeout=WITHIN_SECONDS)
    except httpx.HTTPError as error:
        raise ApplicationError(f"{name} cannot be reached: {type(error).__name__}", type="NotifierFailed") from None
    if answer.is_error:
        raise ApplicationError(f"{name} answered {answer.status_code}", type="NotifierFailed")
