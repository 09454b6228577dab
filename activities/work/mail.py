"""Sends the facts of a notice by mail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..processes.answers import Sent

if TYPE_CHECKING:
    from .job import Job

SSL_PORT, PORT = 465, 25


def run(job: Job) -> Sent:
    """The same, in a child, from the network that tasks have."""
    return sent(job.request)


def sent(request: dict[str, Any]) -> Sent:
    """Nothing, or the `error` for which it is not sent, without what is secret."""
    import smtplib  # most children need none
    import ssl
    from email.message import EmailMessage

    message = EmailMessage()
    for name, value in request["headers"].items():
        message[name] = value
    message.set_content(request["text"])
    server = request["server"]
    port = server["port"] or (SSL_PORT if server["ssl"] else PORT)
    try:
        known = ssl.create_default_context()  # else no certificate is looked at, and the password goes to anybody
        with (
            smtplib.SMTP_SSL(server["host"], port, timeout=request["seconds"], context=known)
            if server["ssl"]
            else smtplib.SMTP(server["host"], port, timeout=request["seconds"])
        ) as connection:
            if server["starttls"] and not server["ssl"]:
                connection.starttls(context=known)
            if server["login"]:
                connection.login(server["login"], server["password"] or "")
            connection.send_message(message)
    except smtplib.SMTPResponseException as error:
        return Sent(error=f"it answered {error.smtp_code}")
    except smtplib.SMTPRecipientsRefused as error:
        codes = ", ".join(sorted({str(code) for code, _ in error.recipients.values()}))
        return Sent(error=f"it refused all recipients ({codes})")
    except Exception as error:  # of the network, or of the server's certificate
        return Sent(error=type(error).__name__)
    return Sent()
