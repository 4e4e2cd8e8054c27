"""Dagster's webserver behind a door: only its own pages, and programs of this machine, may order the lake about.

Dagster takes a mutation from any page that a browser has open: by a simple POST or a GET with whatever Origin, in a frame,
and under a name that a stranger lets resolve to this machine. Here a request is refused (403) that

* asks for a foreign host, or comes from a page of another origin (jobs/strandline/engine/runtime/web_door.py).
* changes something with another content than JSON, which a browser sends abroad without asking first.
* has its question in its address, as an image's or a link's could be.

Beside Dagster's pages, which keep their addresses, the same server has the page for the lake (``/lake``), behind the same door. It
takes no order: it is files of this package, and answers in JSON that another thread computes (jobs/strandline/operate/lake_page.py).
What these need is imported when the page is first opened, so a Dagster of which it is not opened is as small as before.

``python -m strandline_dagster.webserver`` is typed as ``dagster-webserver`` is. With ``dev`` as its first word it is ``dagster dev``
with this webserver, which ``strandline ui`` starts: that starts its webserver by the name of a module, and has no setting for another.
"""

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from dagster._cli import dev
from dagster_webserver import cli

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.engine.runtime import web_door
from strandline.engine.runtime.roles import RoleError
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.web_door import App, Message, Receive, Send, heads_of

if TYPE_CHECKING:
    from strandline.operate.lake_page import LakePage

READS = ("GET", "HEAD", "OPTIONS")
JSON = "application/json"
QUESTIONS = "/graphql"
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
            await web_door.refuse(reason, send)


def refusal(scope: Message, hosts: Collection[str]) -> str | None:
    """Return why a request is not passed on; None where it is.

    Args:
        scope: The request, as ASGI has it.
        hosts: The names under which Dagster's pages are opened, beside this machine's.
    """
    heads = heads_of(scope)
    opens = (
        scope["type"] == "http"
        and scope["method"] == "GET"
        and "navigate" in heads.get("sec-fetch-mode", [])
    )
    strange = web_door.refusal(heads, hosts, what="Dagster's pages", of="Dagster", opens=opens)
    if strange is not None or scope["type"] == "websocket":
        return strange
    return _not_a_question(scope, heads)


def _not_a_question(scope: Message, heads: Mapping[str, Sequence[str]]) -> str | None:
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


async def _unframed(send: Send, message: Message) -> None:
    if message["type"] == "http.response.start":
        message = {**message, "headers": [*message.get("headers", []), UNFRAMED]}
    await send(message)


# The page for the lake: three files, and answers in JSON.

AT = "/lake"
PAGE = Path(__file__).with_name("page")
FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""Whatever a payload holds, no script of it runs, and nothing is fetched from another address."""
DATA = "/data/"
CODE_ELSEWHERE = "--grpc-host"
MOST_AT_ONCE = 8
"""Questions that are answered at once; each further one is refused, so that no tab takes all threads from Dagster."""
LOG = logging.getLogger("strandline.lake_page")
Heads = Sequence[tuple[bytes, bytes]]


class Beside:
    """Dagster's application, and the page for the lake at an address that Dagster does not have."""

    def __init__(self, dagster: App, page: App, at: str) -> None:
        """Put a page beside Dagster."""
        self._dagster, self._page, self._at = dagster, page, at

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Hand a request to whose address it is."""
        path = scope.get("path", "")
        is_ours = scope["type"] == "http" and (path == self._at or path.startswith(f"{self._at}/"))
        await (self._page if is_ours else self._dagster)(scope, receive, send)


class Page:
    """The page for the lake."""

    def __init__(self, at: str) -> None:
        """Read its files; the lake is looked at when it is opened."""
        self._at, self._running = at, 0
        self._files = {
            path: ((PAGE / name).read_bytes(), kind) for path, (name, kind) in FILES.items()
        }
        self._answers: LakePage | None = None
        self._making = threading.Lock()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:  # noqa: ARG002  # nothing of a body is read
        """Answer a request."""
        path = scope["path"].removeprefix(self._at)
        answer = partial(_answer, send, is_asked_for_heads=scope["method"] == "HEAD")
        if scope["method"] not in READS:
            await answer(HTTPStatus.METHOD_NOT_ALLOWED, b"the page only reads\n", "text/plain")
        elif not path:
            # Relative, so that it is right behind a proxy that has the page below another address.
            here = self._at.rpartition("/")[2]
            moved = [(b"location", f"{here}/".encode())]
            await answer(HTTPStatus.TEMPORARY_REDIRECT, b"", "text/plain", moved)
        elif path in self._files:
            if path == "/":  # what it will ask for is made while the browser reads it
                asyncio.get_running_loop().run_in_executor(None, self._warm)
            await answer(HTTPStatus.OK, *self._files[path])
        elif path.startswith(DATA):
            if any(site not in web_door.OURS for site in heads_of(scope).get("sec-fetch-site", [])):
                await web_door.refuse("a page of another origin may not ask the lake", send)
                return
            status, found = await self._answered(path.removeprefix(DATA), scope)
            await answer(status, json.dumps(found).encode(), JSON)
        else:
            await answer(HTTPStatus.NOT_FOUND, b"there is no such page of the lake\n", "text/plain")

    async def _answered(self, path: str, scope: Message) -> tuple[HTTPStatus, Any]:
        if self._running >= MOST_AT_ONCE:
            busy = {"error": "the page answers other questions", "hint": "try again in a moment."}
            return HTTPStatus.SERVICE_UNAVAILABLE, busy
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        self._running += 1
        try:
            return await asyncio.to_thread(self._asked, path, {n: v[0] for n, v in asked.items()})
        finally:
            self._running -= 1

    def _asked(self, path: str, asked: dict[str, str]) -> tuple[HTTPStatus, Any]:
        try:
            found = self._found(path, asked)
        except LakeError as error:
            return _status(error), {"error": error.message, "hint": error.hint}
        except Exception as error:
            LOG.exception("the page for the lake could not answer")
            # Not its message: that of an engine may quote a value.
            said = f"the page could not answer: {type(error).__name__}"
            return HTTPStatus.INTERNAL_SERVER_ERROR, {
                "error": said,
                "hint": "Dagster's log has it.",
            }
        none = {"error": "there is no such question", "hint": "reload the page."}
        return (HTTPStatus.NOT_FOUND, none) if found is None else (HTTPStatus.OK, found)

    def _found(self, path: str, asked: dict[str, str]) -> dict[str, Any] | None:
        page, (what, _, name) = self._made(), path.partition("/")
        page.refuse_stranger()
        of_lake = {"overview": page.overview, "moments": page.moments}
        of_table = {"table": page.table, "held": page.held, "cost": page.cost}
        if name:
            return of_table[what](name) if what in of_table else None
        if what == "why" and asked.get("event"):
            return page.why(asked["event"], asked.get("in"))
        return of_lake[what]() if what in of_lake else None

    def _warm(self) -> None:
        try:
            self._made().overview()
        except Exception:  # the page asks the same, and shows why not
            LOG.debug("the first look failed", exc_info=True)

    def _made(self) -> "LakePage":
        with self._making:
            if self._answers is None:
                # Not imported above: Spark's Python side and the project's tables, for which Dagster need not wait.
                from strandline.engine.runtime import clock  # noqa: PLC0415  # as above
                from strandline.operate import lakes  # noqa: PLC0415  # as above
                from strandline.operate.lake_page import LakePage  # noqa: PLC0415  # as above

                self._answers = LakePage(*lakes.configured(None), clock.now)
            return self._answers


def _status(error: LakeError) -> HTTPStatus:
    if isinstance(error, RoleError):
        return HTTPStatus.FORBIDDEN
    if isinstance(error, DefinitionError):
        return HTTPStatus.BAD_REQUEST
    is_away = isinstance(error, TransientError)
    return HTTPStatus.SERVICE_UNAVAILABLE if is_away else HTTPStatus.INTERNAL_SERVER_ERROR


async def _answer(  # noqa: PLR0913  # an answer has all of it
    send: Send,
    status: HTTPStatus,
    words: bytes,
    kind: str,
    more: Heads = (),
    *,
    is_asked_for_heads: bool,
) -> None:
    heads = [
        (b"content-type", f"{kind}; charset=utf-8".encode()),
        (b"content-length", str(len(words)).encode()),
        (b"cache-control", b"no-store"),
        (b"content-security-policy", POLICY.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": heads})
    body = b"" if is_asked_for_heads else words
    await send({"type": "http.response.body", "body": body})


def shows_the_lake(words: Sequence[str]) -> bool:
    """Return whether the page for the lake is served, by what was typed.

    Where the code is in another pod, this one has neither the project nor the keys of the lake (infra/kubernetes/base/console.yaml).
    """
    return not any(word.partition("=")[0] == CODE_ELSEWHERE for word in words)


def main() -> None:
    """Serve Dagster's pages behind the door, as ``dagster-webserver`` serves them."""
    try:
        hosts = frozenset(settings().public_names)
    except DefinitionError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    made = vars(cli)[MAKES]

    def behind_the_door(context: Any, path_prefix: str = "", *args: Any, **kwargs: Any) -> Door:  # noqa: ANN401  # handed on as they are
        dagster, at = made(context, path_prefix, *args, **kwargs), f"{path_prefix}{AT}"
        return Door(Beside(dagster, Page(at), at) if shows_the_lake(sys.argv) else dagster, hosts)

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
