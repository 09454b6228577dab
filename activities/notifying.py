"""Tells those who want to know: calls functions of the DAG file, runs commands, posts to URLs."""

from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from ..model.run.notices import Notice
from ..model.spec.notifiers import CommandNotifier, EmailNotifier, FunctionNotifier, WebhookNotifier
from .attempts.folder import RESULT
from .attempts.last_words import LastWords
from .attempts.lifecycle import ChildListener, run_in_child, whole
from .attempts.outcomes import describe_end, describe_exit, outcome_of
from .attempts.supervision import AttemptSupervisor, infrastructure_error, stopping_cleanly
from .processes.answers import CommandEnded, Sent, read_result
from .processes.call import ServerGone
from .secrets import Connection, new_masker
from .work import mail, webhook
from .worker_context import WorkerContext

TIMEOUT_SECONDS = 60
NOTIFIER_FAILED = "NotifierFailed"
"""The type of an ApplicationError that is the notifier's own, and nothing of this worker's."""
TRIES = 4
"""As often is a notifier tried that fails by itself: within seven seconds."""


class NotifyActivities:
    def __init__(self, worker_context: WorkerContext) -> None:
        self._worker_context = worker_context

    @activity.defn(name="tidemill.notify", no_thread_cancel_exception=True)
    def notify(self, notice: Notice) -> dict[str, Any] | None:
        """Delivers *notice*, and returns what its function has pushed (None before 0.4, and where it is none).

        A worker that is killed in between has it delivered again, under the same key.
        """
        with stopping_cleanly():
            try:
                return self._deliver(notice)
            except ApplicationError as error:
                if error.type != NOTIFIER_FAILED or error.non_retryable or activity.info().attempt < TRIES:
                    raise
                # The end of its run waits for it.
                raise ApplicationError(error.message, type=error.type, non_retryable=True) from None

    def _deliver(self, notice: Notice) -> dict[str, Any] | None:
        match notice.notifier:
            case FunctionNotifier() as notifier:
                return self._call(notice, notifier)
            case CommandNotifier() as notifier:
                run_command(notifier.command, notice, self._worker_context)
            case WebhookNotifier() as notifier:
                post(notifier, notice, self._worker_context)
            case EmailNotifier() as notifier:
                send_mail(notifier, notice, self._worker_context)
        return None

    def _call(self, notice: Notice, notifier: FunctionNotifier) -> dict[str, Any] | None:
        attempt = notice.call_of(notifier)
        folder = self._worker_context.attempt_folder(attempt)
        if (earlier := folder.ending(RESULT)) is None:
            # A file may have DAGs of both kinds: the callbacks of one for Airflow have no tasks of tidemill's.
            work = "airflow" if notice.written_for == "airflow" else "function"
            log_url = self._worker_context.log_url_of(attempt.seen_by_callback)
            forks = run_in_child(
                self._worker_context,
                attempt,
                folder,
                work,
                AttemptSupervisor(None),
                whole,
                calls_code=True,
                log_url=log_url,
            )
            answer = forks.answer
        else:
            answer = read_result(earlier)
        outcome = self._worker_context.results.put(attempt, outcome_of(answer))
        self._worker_context.leftovers.add(folder.path)
        return outcome.xcom or None


def environment(notice: Notice, base_url: str | None = None) -> dict[str, str]:
    """`TIDEMILL_<FACT>` for each fact of the notice, which its command finds beside what every task has."""
    known = notice.facts(base_url).items()
    facts = {f"TIDEMILL_{name.upper()}": str(value) for name, value in known if value is not None}
    return {**facts, "TIDEMILL_NOTICE_KEY": notice.key}


def run_command(command: str, notice: Notice, worker_context: WorkerContext) -> None:
    """Runs the command as a task of the DAG is run, with what happened in its environment.

    Raises ApplicationError if it fails or takes too long.
    """
    source = notice.attempt.source
    forks = worker_context.forks(source.bundle if source is not None else None)
    refused = worker_context.refused_of(notice.attempt)
    printed = LastWords(ChildListener(None, new_masker(), owns=notice.attempt.owns, refused=refused))
    request = {
        "argv": ["/bin/sh", "-c", command],
        "variables": environment(notice, worker_context.base_url),
        "directory": _beside_its_file(notice, worker_context),
        "grace": worker_context.grace.total_seconds(),
    }
    supervisor = AttemptSupervisor(
        timedelta(seconds=TIMEOUT_SECONDS), too_long=lambda limit: _failed(f"took more than {limit:g} s")
    )
    try:
        call = forks.call(
            "command", request, listener=printed, checks=supervisor, grace=worker_context.grace.total_seconds()
        )
    except ServerGone:
        raise infrastructure_error("the process above the notifier's command ended") from None
    ended = call.answer if isinstance(call.answer, CommandEnded) else CommandEnded(code=call.code, started=0)
    if ended.code != 0:
        reason = ended.error or next(iter(printed.lines()[-1:]), "it said nothing")
        raise _failed(f"{describe_end(ended)}: {reason}")


def _beside_its_file(notice: Notice, worker_context: WorkerContext) -> str:
    """Where the command of a notice runs; an alarm is given, too, where the code that it is about is gone."""
    try:
        return str(worker_context.directory(notice.attempt))
    except ApplicationError:
        return "/"


def _failed(how: str) -> ApplicationError:
    return ApplicationError(f"the notifier's command {how}", type=NOTIFIER_FAILED)


def post(notifier: WebhookNotifier, notice: Notice, worker_context: WorkerContext) -> None:
    """Posts the facts as JSON, the notice's key as Idempotency-Key. Raises ApplicationError for an error answer."""
    url, headers, name = notifier.url or "", notifier.headers, notifier.url
    if notifier.conn_id is not None:
        connection = connection_of(notifier.conn_id, notice, worker_context)
        url, headers = f"{connection.url}{url}", {**connection.headers, **headers}
        name = f"connection {notifier.conn_id!r}"  # the address itself may be a secret
    request = {
        "url": url,
        "facts": notice.facts(worker_context.base_url),
        "headers": {"Idempotency-Key": notice.key, **headers},
        "seconds": TIMEOUT_SECONDS,
    }
    answer = (
        webhook.sent(request)
        if worker_context.network is None
        else _sent_by_task("webhook", request, notice, worker_context)
    )
    if answer.status is None:
        raise ApplicationError(f"{name} cannot be reached: {answer.error}", type=NOTIFIER_FAILED)
    if answer.status >= 400:
        raise ApplicationError(f"{name} answered {answer.status}", type=NOTIFIER_FAILED)


def connection_of(conn_id: str, notice: Notice, worker_context: WorkerContext) -> Connection:
    """Return the connection, if the bundle of the notice may use it. Raises ApplicationError if it may not."""
    owns = notice.attempt.owns
    if owns is not None and (refused := owns.problem("connection", conn_id)) is not None:
        worker_context.refused_of(notice.attempt)("notify", refused)
        raise ApplicationError(refused, type=NOTIFIER_FAILED, non_retryable=True)
    return Connection.get(conn_id)


def send_mail(notifier: EmailNotifier, notice: Notice, worker_context: WorkerContext) -> None:
    """Send the facts as a mail, whose Message-ID is the notice's own. Raises ApplicationError if it is not taken."""
    connection = connection_of(notifier.conn_id, notice, worker_context)
    extra, facts = connection.extra_dejson, notice.facts(worker_context.base_url)
    texts = {name: str(value) for name, value in facts.items() if value is not None}
    sender = extra.get("from_email") or connection.login
    if not connection.host or not sender:
        lacks = "host" if not connection.host else "extra from_email"
        raise _failed_mail(notifier, f"it has no {lacks}. Add one", again=False)
    request = {
        "server": {
            "host": connection.host,
            "port": connection.port,
            "login": connection.login,
            "password": connection.password,
            "ssl": not is_true(extra.get("disable_ssl", False)),
            "starttls": not is_true(extra.get("disable_tls", False)),
        },
        "headers": {
            "From": str(sender),
            "To": ", ".join(notifier.to),
            "Subject": notifier.subject or subject_of(texts),
            "Message-ID": f"<{sha256(notice.key.encode()).hexdigest()}@tidemill>",
            "Auto-Submitted": "auto-generated",
        },
        "text": "".join(f"{name}: {value}\n" for name, value in texts.items()),
        "seconds": TIMEOUT_SECONDS,
    }
    answer = (
        mail.sent(request) if worker_context.network is None else _sent_by_task("mail", request, notice, worker_context)
    )
    if answer.error is not None:
        raise _failed_mail(notifier, answer.error)


def _failed_mail(notifier: EmailNotifier, why: str, *, again: bool = True) -> ApplicationError:
    message = f"SMTP connection {notifier.conn_id!r}: {why}"
    return ApplicationError(message, type=NOTIFIER_FAILED, non_retryable=not again)


def subject_of(facts: Mapping[str, str]) -> str:
    """Return what happened in a few words, on one line."""
    about = ".".join(facts[name] for name in ("dag_id", "task_id", "asset") if name in facts)
    when = f" ({facts['run_id']})" if "run_id" in facts else ""
    return " ".join(f"{about}: {facts.get('state') or facts['event']}{when}".split())[:200]


def is_true(value: object) -> bool:
    """Return what an extra of a connection says, which may be text."""
    return value is True or str(value).lower() in ("true", "1", "yes")


def _sent_by_task(work: str, request: dict[str, Any], notice: Notice, worker_context: WorkerContext) -> Sent:
    """Sends it from where tasks are: the worker's network is not the DAG author's."""
    source = notice.attempt.source
    supervisor = AttemptSupervisor(
        timedelta(seconds=2 * TIMEOUT_SECONDS), too_long=lambda limit: _failed(f"took more than {limit:g} s")
    )
    forks = worker_context.forks(source.bundle if source is not None else None)
    listener = ChildListener(None, new_masker(), owns=notice.attempt.owns)
    try:
        end = forks.call(work, request, listener=listener, checks=supervisor)
    except ServerGone:
        raise infrastructure_error(f"the process above the {work}'s ended") from None
    return end.answer if isinstance(end.answer, Sent) else Sent(error=describe_exit(end.code))
