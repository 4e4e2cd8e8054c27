"""Dagster's webserver behind a door: only its own pages, and programs of this machine, may order the lake about.

Dagster takes a mutation from any page that a browser has open: by a simple POST or a GET with whatever Origin, in a frame,
and under a name that a stranger lets resolve to this machine. Here a request is refused (403) that

* asks for a host that is neither an address, nor ``localhost``, nor in ``STRANDLINE_HOSTS``. A page under an address was
  served by that address; a page under a name may come from anywhere, because its owner says what the name resolves to.
* comes from a page of another origin (``Origin``, ``Sec-Fetch-Site``), websockets included; a link from elsewhere opens a page.
* changes something with another content than JSON, which a browser sends abroad without asking first.
* has its question in its address, as an image's or a link's could be.

``python -m strandline_dagster.webserver`` is typed as ``dagster-webserver`` is. With ``dev`` as its first word it is ``dagster dev``
with this webserver, which ``strandline ui`` starts: that starts its webserver by the name of a module, and has no setting for another.
"""

import sys
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from dagster._cli import dev
from dagster_webserver import cli

from strandline.core.errors import DefinitionError
from strandline.engine.runtime.settings import settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

HERE = "localhost"
READS = ("GET", "HEAD", "OPTIONS")
JSON = "application/json"
QUESTIONS = "/graphql"
OURS = ("same-origin", "none")
"""What ``Sec-Fetch-Site`` says of a request of the page itself, and of an address that a person typed."""
MAKES = "create_app_from_workspace_process_context"
"""Dagster's function that makes the application which is served; a test asks the server that comes of it."""
STARTS = "open_ipc_subprocess"
DAGSTERS, WITH_DOOR = "dagster_webserver", "strandline_dagster.webserver"
DEV = "dev"
POLICY_VIOLATION = 1008
UNFRAMED = (b"x-frame-options", b"SAMEORIGIN")
"""In a frame of a stranger's page, an operator would click on what is not to be seen."""


class Door:
    """Lets pass what Dagster's own pages and programs ask."""

    def __init__(self, app: App, hosts: Collection[str]) -> None:
        """Put a door before an application that is opened under some names as well."""
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] not in ("http", "websocket"):  # the server's own beginning and end
            await self._app(scope, receive, send)
            return
        reason = refusal(scope, self._hosts)
        if reason is None:
            await self._app(scope, receive, partial(_unframed, send))
        elif scope["type"] == "websocket":
            await receive()
            await send(
                {"type": "websocket.close", "code": POLICY_VIOLATION, "reason": reason[:120]}
            )
        else:
            await _refuse(reason, send)


def refusal(scope: Message, hosts: Collection[str]) -> str | None:
    """Return why a request is not passed on; None where it is.

    Args:
        scope: The request, as ASGI has it.
        hosts: The names under which Dagster's pages are opened, beside this machine's.
    """
    heads = _heads(scope)
    named = heads.get("host", [])
    if len(named) != 1 or not _is_known(named[0], hosts):
        return (
            f"Dagster's pages are not opened under the name {' '.join(named)!r}\n\n"
            "hint: open them as 127.0.0.1 or localhost, or put the name into STRANDLINE_HOSTS."
        )
    if any(not _is_own(origin, named[0], hosts) for origin in heads.get("origin", [])):
        return (
            f"a page of {heads['origin'][0]} may not ask Dagster\n\n"
            "hint: behind a proxy that changes the name, put the one that the browser shows into STRANDLINE_HOSTS."
        )
    opens = (
        scope["type"] == "http"
        and scope["method"] == "GET"
        and "navigate" in heads.get("sec-fetch-mode", [])
    )
    if not opens and any(site not in OURS for site in heads.get("sec-fetch-site", [])):
        return "a page of another origin may not ask Dagster\n\nhint: open Dagster's own page."
    return None if scope["type"] == "websocket" else _not_a_question(scope, heads)


def _not_a_question(scope: Message, heads: dict[str, list[str]]) -> str | None:
    """Return why the shape of a request is refused, which a stranger's page could send without a trace of where it is from."""
    if scope["method"] not in READS:
        kinds = [kind.partition(";")[0].strip().lower() for kind in heads.get("content-type", [])]
        if kinds != [JSON]:
            return f"Dagster is asked to change something in JSON only\n\nhint: send it with Content-Type: {JSON}."
    elif (
        scope["path"].rstrip("/").endswith(QUESTIONS)
        and "text/html" not in heads.get("accept", [""])[0]
    ):
        return f"Dagster is not asked by an address\n\nhint: POST the question as JSON to {scope['path']}."
    return None


def _is_known(host: str, hosts: Collection[str]) -> bool:
    """Return whether a host is this machine, an address, or one of some names; a name without a port has all."""
    name = _name(host)
    return name == HERE or _is_address(name) or not {name, host.lower()}.isdisjoint(hosts)


def _is_own(origin: str, host: str, hosts: Collection[str]) -> bool:
    """Return whether an origin is the page that a host serves, or one of some names, under which a proxy serves it."""
    site = origin.lower().partition("://")[2]
    return bool(site) and (site == host.lower() or not {_name(site), site}.isdisjoint(hosts))


def _name(host: str) -> str:
    """Return a host without its port, an address of version 6 without its brackets; empty where it is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # such as a bracket that is not closed
        return ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _heads(scope: Message) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip())
    return found


async def _unframed(send: Send, message: Message) -> None:
    if message["type"] == "http.response.start":
        message = {**message, "headers": [*message.get("headers", []), UNFRAMED]}
    await send(message)


async def _refuse(reason: str, send: Send) -> None:
    words = f"{reason}\n".encode()
    heads = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(words)).encode()),
        (b"x-content-type-options", b"nosniff"),
        # What follows the head of a refused request is not read, so nothing may be taken for the next one.
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": HTTPStatus.FORBIDDEN, "headers": heads})
    await send({"type": "http.response.body", "body": words})


def main() -> None:
    """Serve Dagster's pages behind the door, as ``dagster-webserver`` serves them."""
    try:
        hosts = frozenset(settings().public_names)
    except DefinitionError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    made = vars(cli)[MAKES]

    def behind_the_door(*args: Any, **kwargs: Any) -> Door:  # noqa: ANN401  # handed on as they are
        return Door(made(*args, **kwargs), hosts)

    vars(cli)[MAKES] = behind_the_door
    cli.cli(auto_envvar_prefix="DAGSTER_WEBSERVER")


def develop() -> None:
    """Start Dagster's pages behind the door, its daemon and the code."""
    started = vars(dev)[STARTS]

    def start(words: Sequence[str], **options: Any) -> Any:  # noqa: ANN401  # handed on as they are
        return started([WITH_DOOR if word == DAGSTERS else word for word in words], **options)

    vars(dev)[STARTS] = start
    dev.dev_command(prog_name="dagster dev", auto_envvar_prefix="DAGSTER_CLI_DEV")


if __name__ == "__main__" and sys.argv[1:2] == [DEV]:
    del sys.argv[1]
    develop()
elif __name__ == "__main__":
    main()
