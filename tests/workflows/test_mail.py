"""Mail about what happened, by an SMTP connection: to a real server on loopback, tried again."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from pydantic import ValidationError
from support import Stack, bash, dag, eventually, stack
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.spec.notifiers import EmailNotifier


@dataclass
class MailServer:
    """Takes mail as an SMTP server does, after it has refused *refuses* of them."""

    refuses: int = 0
    mails: list[Message] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    port: int = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def say(line: str) -> None:
            writer.write(f"{line}\r\n".encode())

        say("220 here")
        while line := (await reader.readline()).decode().strip():
            match line.split()[0].upper():
                case "EHLO":
                    say("250-here")
                    say("250 AUTH PLAIN")
                case "AUTH":
                    self.logins.append(base64.b64decode(line.split()[2]).decode())
                    say("235 in")
                case "MAIL" if self.refuses > 0:
                    self.refuses -= 1
                    say("451 later")
                case "DATA":
                    say("354 go on")
                    text = (await reader.readuntil(b"\r\n.\r\n")).decode()
                    self.mails.append(message_from_string(text.removesuffix(".\r\n")))
                    say("250 taken")
                case "QUIT":
                    say("221 bye")
                    break
                case _:
                    say("250 fine")
        writer.close()


@pytest.fixture
async def mail(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MailServer]:
    made = MailServer()
    async with await asyncio.start_server(made.talk, "127.0.0.1", 0) as server:
        made.port = server.sockets[0].getsockname()[1]
        extra = {"from_email": "tidemill@example.com", "disable_ssl": True, "disable_tls": "true"}
        smtp = {"conn_type": "smtp", "host": "127.0.0.1", "port": made.port, "extra": extra}
        monkeypatch.setenv("TIDEMILL_CONN_SMTP_DEFAULT", json.dumps({**smtp, "login": "ada", "password": "pw-of-mail"}))
        yield made


async def test_who_wants_to_know_gets_a_mail_and_the_link(server: str, tmp_path: Path, mail: MailServer) -> None:
    mail.refuses = 1
    file = tmp_path / "mailing.py"
    file.write_text(
        "from tidemill import DAG, BashOperator, EmailNotifier\n"
        "told = EmailNotifier(to=['ada@example.com', 'bob@example.com'])\n"
        "with DAG('mailing', on_failure_callback=EmailNotifier(to='ops@example.com', subject='look')):\n"
        "    BashOperator(task_id='fails', bash_command='exit 3', on_failure_callback=told)\n"
    )
    place = WorkerContext(home=tmp_path / "home", base_url="https://tidemill.example")
    async with stack(server, tmp_path / "home", place=place) as here:
        await here.run_once(parse_dag_file(file).dags[0], run_id="mine")
        await eventually(lambda: asyncio.sleep(0, mail.mails), lambda found: len(found) == 2)
    of_task, of_run = sorted(mail.mails, key=lambda one: str(one["To"]))
    assert (of_task["To"], of_task["From"]) == ("ada@example.com, bob@example.com", "tidemill@example.com")
    assert of_task["Subject"] == "mailing.fails: failed (mine)"
    assert "url: https://tidemill.example/dags/mailing/runs/mine/tasks/fails?try_number=1" in of_task.get_payload()
    assert (of_run["To"], of_run["Subject"]) == ("ops@example.com", "look")
    assert of_task["Message-ID"] != of_run["Message-ID"]
    assert {login.split("\0")[1:][0] for login in mail.logins} == {"ada"}


async def test_a_connection_without_a_host_fails_the_notice_alone_and_at_once(
    here: Stack, mail: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_CONN_SMTP_DEFAULT", json.dumps({"conn_type": "smtp", "password": "pw-of-mail"}))
    told = {"on_failure_callback": [{"kind": "email", "to": ["a@example.com"]}]}
    details = await here.run_once(dag("no_mail", [bash("a", "false", callbacks=told)]))
    assert details.state == "failed"
    assert mail.mails == []


@pytest.mark.parametrize("fields", [
    {"to": []}, {"to": ["nobody"]}, {"to": ["a@b, c@d"]}, {"to": ["a@b"], "subject": "two\nlines"}, {"to": [""]},
])  # fmt: skip
def test_what_is_no_address_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EmailNotifier.model_validate(fields)


def test_addresses_may_be_one_text() -> None:
    assert EmailNotifier.model_validate({"to": "a@b.c, d@e.f"}).to == ("a@b.c", "d@e.f")
