"""Which requests reach a server of ours: the check of Host, Origin and Sec-Fetch-Site that Dagster's pages and ``strandline mcp`` share.

A browser sends a request to this machine for any page that it has open, and a stranger may let a name resolve to this machine. So
a request is refused that

* asks for a host that is neither an address, nor ``localhost``, nor in ``STRANDLINE_HOSTS``. A page under an address was served
  by that address; a page under a name may come from anywhere, because its owner says what the name resolves to.
* comes from a page of another origin (``Origin``, ``Sec-Fetch-Site``), websockets included; a link from elsewhere opens a page.

What a server asks beside it, such as JSON or a token, is its own affair.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
Heads = Mapping[str, Sequence[str]]
"""The headers of a request by their names in small letters; one may come several times."""

HERE = "localhost"
OURS = ("same-origin", "none")
"""What ``Sec-Fetch-Site`` says of a request of the page itself, and of an address that a person typed."""


def heads_of(scope: Message) -> dict[str, list[str]]:
    """Return the headers of a request, as ASGI has it."""
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip())
    return found


def refusal(
    heads: Heads, hosts: Collection[str], *, what: str, of: str, opens: bool = False
) -> str | None:
    """Return why a request is not passed on; None where it is.

    Args:
        heads: Its headers.
        hosts: The names under which the server is asked, beside this machine's.
        what: What the server has, such as its pages.
        of: What is asked.
        opens: Whether a person opens a page by it, which a link from elsewhere may.
    """
    named = heads.get("host", [])
    if len(named) != 1 or not _is_known(named[0], hosts):
        return (
            f"{what} are not opened under the name {' '.join(named)!r}\n\n"
            "hint: open them as 127.0.0.1 or localhost, or put the name into STRANDLINE_HOSTS."
        )
    if any(not _is_own(origin, named[0], hosts) for origin in heads.get("origin", [])):
        return (
            f"a page of {heads['origin'][0]} may not ask {of}\n\n"
            "hint: behind a proxy that changes the name, put the one that the browser shows into STRANDLINE_HOSTS."
        )
    if not opens and any(site not in OURS for site in heads.get("sec-fetch-site", [])):
        return f"a page of another origin may not ask {of}\n\nhint: ask by a page of its own, or by a program."
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


async def refuse(
    reason: str,
    send: Send,
    status: HTTPStatus = HTTPStatus.FORBIDDEN,
    more: Sequence[tuple[bytes, bytes]] = (),
) -> None:
    """Answer why a request is not passed on."""
    words = f"{reason}\n".encode()
    heads = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(words)).encode()),
        (b"x-content-type-options", b"nosniff"),
        # What follows the head of a refused request is not read, so nothing may be taken for the next one.
        (b"connection", b"close"),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": heads})
    await send({"type": "http.response.body", "body": words})
