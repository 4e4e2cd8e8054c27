"""Post JSON to an address: alarms of runs that failed (orchestration/strandline_dagster/resources.py), and notices of alerts; or send a mail.

A receiver is trusted in nothing: an answer that never ends is given up, and no redirect is followed, because it would
arrive as a GET without the text.
"""

import http.client
import json
import smtplib
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from typing import TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

Answer = TypeVar("Answer")
PATIENCE = 10.0
"""Seconds for a whole answer, however slowly it comes."""


def post(
    address: str,
    facts: Mapping[str, object],
    *,
    headers: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
) -> Exception | None:
    """Post facts as JSON; return why they were not accepted, and None where they were.

    Args:
        address: An address of http or https; the settings and the verbs accept no other.
        facts: What to send.
        headers: More headers.
        patience: Seconds for a whole answer.
    """
    request = urllib.request.Request(  # noqa: S310  # see above
        address,
        json.dumps(facts).encode(),
        {"Content-Type": "application/json", **(headers or {})},
    )
    return within(patience, lambda: _sent(request, patience))


def within(patience: float, ask: Callable[[], Answer]) -> Answer | Exception:
    """Return an answer, or why there is none; it ends however slowly one comes: a client's own bound is one for each of its pieces.

    Args:
        patience: Seconds for a whole answer.
        ask: Asks; it goes on by itself when its time is over.
    """
    answers: list[Answer | Exception] = []

    def asks() -> None:
        try:
            answers.append(ask())
        except Exception as error:  # noqa: BLE001  # whose it is, who asked says
            answers.append(error)

    thread = threading.Thread(target=asks, daemon=True)
    thread.start()
    thread.join(patience)
    return answers[0] if answers else TimeoutError(f"no whole answer in {patience:.0f} s")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def redirect_request(self, *_: object) -> None:
        """Follow no redirect."""


def _sent(request: urllib.request.Request, patience: float) -> Exception | None:
    """Send, and return why it was not accepted."""
    try:
        with urllib.request.build_opener(NoRedirect).open(request, timeout=patience):
            return None
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        return error


def mail(address: str, message: EmailMessage, *, patience: float = PATIENCE) -> Exception | None:
    """Send a mail; return why it was not accepted, and None where it was. A password is sent to no server without TLS.

    Args:
        address: The server, of smtp or smtps, with its user and password.
        message: The mail.
        patience: Seconds for each of its answers.
    """
    try:
        _mailed(urlsplit(address), message, patience)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        return error
    return None


def _mailed(where: SplitResult, message: EmailMessage, patience: float) -> None:
    trusted, host = ssl.create_default_context(), where.hostname or ""
    is_safe = where.scheme == "smtps"
    if is_safe:
        server: smtplib.SMTP = smtplib.SMTP_SSL(
            host, where.port or 465, timeout=patience, context=trusted
        )
    else:
        server = smtplib.SMTP(host, where.port or 587, timeout=patience)
    with server:
        server.ehlo()
        if not is_safe and server.has_extn("starttls"):
            server.starttls(context=trusted)
            server.ehlo()
            is_safe = True
        if where.password:
            if not is_safe:
                raise ValueError("the server offers no TLS, and a password is sent to none without")
            server.login(unquote(where.username or ""), unquote(where.password))
        server.send_message(message)
