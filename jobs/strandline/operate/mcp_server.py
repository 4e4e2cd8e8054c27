"""``strandline mcp``: the tools of a lake over the Model Context Protocol, by its official SDK, on stdio or over HTTP.

Every request is a line of the lake's log ``mcp``, refused ones too: who asked, what, how long it took, how large the answer is, why it
was refused. The line is written before the answer leaves; where it cannot be, as on a full disk, the answer does not leave.

Over HTTP a request needs a token, and passes the door that Dagster's pages have (jobs/strandline/engine/runtime/web_door.py). There are
no sessions: each request is answered by itself, so nothing grows with those that ask. A client may have a token of its own, by which
it has a name: its calls are logged under it, and it is asked for the roles of that name.

A tool works in a thread. Two work at a time. One that is over its time, or whose client has left, is ended where it reads commits or
asks a database (jobs/strandline/engine/runtime/limit.py), and keeps its place until it has ended, so that a function which hears no
interruption cannot take the machine.
"""

import asyncio
import functools
import hashlib
import hmac
import inspect
import json
import re
import secrets
import stat
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from importlib.metadata import version
from threading import BoundedSemaphore
from typing import Any

import anyio
import anyio.to_thread
import uvicorn
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import FunctionResource
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, ToolAnnotations
from uvicorn.protocols.http.h11_impl import H11Protocol

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.order_log import CALLS, CurrentRoles
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import add_line
from strandline.engine.lake.store_lease import hold
from strandline.engine.runtime import clock, web_door
from strandline.engine.runtime.limit import Limit, within
from strandline.engine.runtime.log_files import Level
from strandline.engine.runtime.roles import Role
from strandline.engine.runtime.web_door import App, Message, Receive, Send, heads_of
from strandline.operate.listener import foreseen
from strandline.operate.mcp_pages import PROMPTS, declared, docs, head, runbooks
from strandline.operate.mcp_tools import NAMES, Tools, in_words

INSTRUCTIONS = """A lakehouse in which every event is accounted for. All tools read, none changes anything.

Each answer says in `believed` whether its numbers may be used, in `because` why not, in `as_of` which versions were read and how many
rows they are behind, and in `check` how to check it. Say that with the number. Begin with `tables`, then `schema`, then `query`; whether
a day can be trusted is `report`, where one event is `why`. Columns that are masked show hashes: count, group and join them, and do not
try to read them."""

PLACES = 2
"""Tools that work at a time."""

WAIT = 20.0
"""Seconds that a call waits for a place."""

ROOM = 16
"""Calls that work or wait; a further one is refused at once. A call whose client has left waits on for a place, so clients that leave could fill the machine."""

GRACE = 15.0
"""Seconds beyond the limit of a question after which its call is ended: the verdict beside it is read from logs."""

MOST_OF_WORDS = 2_000
"""Characters of what was asked that a line of the log has."""

MOST_OF_A_NAME = 100
"""Characters of the name of a client and of a method."""

MOST_OF_REQUEST = 200_000
"""Bytes of a request over HTTP."""

HEAD_WITHIN, BODY_WITHIN = 10.0, 20.0
"""Seconds for the head of a request, and for its body: a client that sends nothing more must not keep its place among those below."""

AT_ONCE = 64
"""Requests over HTTP at a time; more are answered that the server is busy."""

QUIET = ("ping", "server/discover")
"""Requests that ask nothing of the lake and are not logged."""

PAGES = ("resources/", "prompts/", "completion/")
"""The methods that have what a table declares, or may have."""

STRANGERS, MINUTE = 60, 60.0
"""Lines of requests without a token, or of a strange page, in a minute: whom the door keeps out must not push out the lines of others."""

PATH = "/mcp"
WHO = "strandline.who"
READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


ASKER: ContextVar[str | None] = ContextVar("asker", default=None)
"""Who has sent the request that is answered, where that is known by a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLog:
    """The log of a lake's server.

    Args:
        lake: The lake.
        over: ``stdio`` or ``http``.
        who: Who started the server.
        clock: The time.
    """

    lake: Lake
    over: str
    who: str
    clock: Callable[[], datetime]

    def write(self, asked: Mapping[str, object], who: str | None = None) -> None:
        """Write a line.

        Raises:
            OSError: The disk is full, or the log may not be written.
        """
        refused = asked.get("message") is not None
        line = {
            "time": self.clock().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": Level.WARNING if refused else Level.INFO,
            "event": "refused" if refused else "answered",
            "who": who or self.who,
            "over": self.over,
            **{name: value for name, value in asked.items() if value is not None},
        }
        add_line(self.lake.log(CALLS), json.dumps(line, ensure_ascii=False, default=str))

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Answer a request, and write it down before the answer leaves."""
        if ctx.request_id is None or ctx.method in QUIET:
            return await call_next(ctx)
        began = time.monotonic()
        ASKER.set(_scope(ctx).get(WHO))  # this task is the request's own
        try:
            result = await call_next(ctx)
        except Exception as error:
            self._written(ctx, began, refused=f"{type(error).__name__}: {error}")
            raise
        except BaseException:  # no answer leaves, and what was asked is known all the same
            with suppress(MCPError):
                self._written(ctx, began, refused="the client did not wait for the answer")
            raise
        self._written(ctx, began, refused=_refused(result), size=_size(result))
        return result

    def _written(
        self,
        ctx: ServerRequestContext[Any, Any],
        began: float,
        *,
        refused: str | None,
        size: int | None = None,
    ) -> None:
        params = dict(ctx.params or {})
        params.pop("_meta", None)
        client = ctx.session.client_params.client_info if ctx.session.client_params else None
        asked = json.dumps(params, ensure_ascii=False, default=str) if params else None
        try:
            self.write(
                {
                    "client": f"{client.name} {client.version}"[:MOST_OF_A_NAME]
                    if client
                    else None,
                    "method": ctx.method[:MOST_OF_A_NAME],
                    "asked": asked and asked[:MOST_OF_WORDS],
                    "ms": round((time.monotonic() - began) * 1000),
                    "bytes": size,
                    "message": refused and refused[:MOST_OF_WORDS],
                },
                who=_scope(ctx).get(WHO),
            )
        except OSError as error:
            raise MCPError(
                code=INTERNAL_ERROR,
                message="the request cannot be logged, so it is not answered; make room for the log of the lake",
            ) from error


def _scope(ctx: ServerRequestContext[Any, Any]) -> Message:
    """Return what is known of a request over HTTP; nothing of one on standard input."""
    found: Message = ctx.request.scope if ctx.request is not None else {}
    return found


def _refused(result: HandlerResult) -> str | None:
    found = result if isinstance(result, dict) else {}
    if not found.get("isError"):
        return None
    return " ".join(str(each.get("text", "")) for each in found.get("content", []))


def _size(result: HandlerResult) -> int:
    return len(json.dumps(result if isinstance(result, dict) else {}, default=str))


class Desk:
    """Lets tools work in threads, two at a time, each for its time."""

    def __init__(self, tools: Tools) -> None:
        """Begin with all places free."""
        self._tools = tools
        self._roles = CurrentRoles(tools.lake)
        self._places, self._room = BoundedSemaphore(PLACES), BoundedSemaphore(ROOM)
        self._busy = 0

    @property
    def is_busy(self) -> bool:
        """Return whether something still works, such as a question that hears no interruption."""
        return self._busy > 0

    def tool(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Return a tool as the SDK calls it, with the signature and the docstring of the method."""
        method = getattr(self._tools, name)

        @functools.wraps(method)
        async def answered(**given: Any) -> Any:  # noqa: ANN401  # what the method takes
            return await self._answered(functools.partial(method, **given))

        return answered

    async def _answered(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401  # an answer of a tool
        seconds, limit = self._tools.limits.seconds + WAIT + GRACE, Limit()
        try:
            with anyio.fail_after(seconds):
                return await anyio.to_thread.run_sync(
                    self._work, work, limit, abandon_on_cancel=True
                )
        except TimeoutError:
            raise ToolError(f"ended after {seconds:g} s\nhint: ask for less.") from None
        except LakeError as error:
            raise ToolError(in_words(error, self._tools.lake)) from None
        except Exception as error:  # noqa: BLE001  # the boundary: its text may have values of rows
            known = foreseen(error)
            said = in_words(known, self._tools.lake) if known else _unforeseen(error)
            raise ToolError(said) from None
        finally:
            limit.end()  # where its client has left, the thread works on

    def _work(self, work: Callable[[], Any], limit: Limit) -> Any:  # noqa: ANN401  # as above
        with _taken(self._room, within=0.0), _taken(self._places, within=WAIT):
            self._busy += 1
            try:
                with within(self._tools.limits.seconds + GRACE, limit):
                    self._refuse("a tool")
                    return work()
            finally:
                self._busy -= 1

    def _refuse(self, what: str) -> None:
        """Refuse to answer who may not read, and from a lake that is not whole.

        Raises:
            RoleError: The roles of the lake do not allow it.
            TransientError: It is being restored.
        """
        self._tools.lake.refuse_restoring()
        self._roles.refuse(ASKER.get() or clock.login(), Role.READ, what)

    async def guard(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Let those alone read pages and see which there are who may read the lake; a tool refuses by itself, in words of its answer."""
        if ctx.method.startswith(PAGES):
            try:
                await anyio.to_thread.run_sync(self._refuse, "a page")
            except LakeError as error:
                said = in_words(error, self._tools.lake)
                raise MCPError(code=INVALID_REQUEST, message=said) from None
        return await call_next(ctx)


@contextmanager
def _taken(place: BoundedSemaphore, *, within: float) -> Iterator[None]:
    """Hold a place for the length of the block.

    Raises:
        TransientError: None is free within a time.
    """
    if not place.acquire(timeout=within):
        raise TransientError(
            f"the server is busy: {PLACES} questions work at a time",
            hint="try again in a minute; a question that was ended may still run.",
        )
    try:
        yield
    finally:
        place.release()


def _unforeseen(error: Exception) -> str:
    return f"something unforeseen happened: {type(error).__name__}"


def server_of(tools: Tools, log: CallLog) -> tuple[MCPServer[Any], Desk]:
    """Return a server with all tools, resources and prompts, and the desk at which its tools work."""
    desk = Desk(tools)
    server = MCPServer[
        Any
    ](
        "strandline",
        title="Strandline",
        instructions=INSTRUCTIONS,
        version=version("strandline"),
        log_level="CRITICAL",  # a trace may have values of rows, and a client keeps what is on stderr
        middleware=[log, desk.guard],
        subscriptions=False,
    )
    for name in NAMES:
        tool = desk.tool(name)
        server.add_tool(tool, name=name, description=inspect.getdoc(tool), annotations=READS)
    for kind, pages in (("docs", docs()), ("runbooks", runbooks())):
        for name, file in pages.items():
            read = functools.partial(file.read_text, encoding="utf-8")
            _add(server, read, f"{kind}/{name}", head(file), "text/markdown")
    for table in tools.tables_:
        _add(
            server,
            functools.partial(declared, table),
            f"declarations/{table.id}",
            table.summary.partition("\n")[0],
            "application/json",
        )
    for prompt in PROMPTS:
        server.add_prompt(Prompt.from_function(prompt))
    return server, desk


def _add(server: MCPServer[Any], read: Callable[[], str], name: str, title: str, kind: str) -> None:
    server.add_resource(
        FunctionResource.from_function(
            read,
            uri=f"strandline://{name}",
            name=name,
            title=title,
            description=title,
            mime_type=kind,
        )
    )


def over_stdio(server: MCPServer[Any]) -> None:
    """Answer one client on standard input and output until it closes them."""
    server.run("stdio")


# Who may ask over HTTP by a name of its own: a file beside the lake's logs has a hash of each token, as that of `strandline serve` has of
# passwords. A token is drawn and as long as a key, so one round of the hash is enough. The file is read anew when it has changed.


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,63}")
"""As of a user of JDBC; with colons, as a service account of Kubernetes is called."""


def place_of(lake: Lake) -> Place:
    """Return the file."""
    return lake.near / "_serve" / "clients.json"


def clients(lake: Lake) -> dict[str, str]:
    """Return the hash of the token of each client by its name; none where none was added.

    Raises:
        DefinitionError: The file cannot be read.
    """
    file = place_of(lake)
    try:
        return {str(name): str(each) for name, each in json.loads(file.text() or "{}").items()}
    except (ValueError, AttributeError, OSError) as error:
        raise DefinitionError(
            f"{file} cannot be read, so it is not known who may ask: {error}",
            hint="remove it, and add the clients again: `strandline mcp add-client NAME`.",
            file=str(file),
        ) from error


def add_client(lake: Lake, name: str) -> str:
    """Add a client, or give one another token; return the token, of which only a hash is kept.

    Raises:
        DefinitionError: The name can be none.
    """
    if not NAME.fullmatch(name):
        raise DefinitionError(
            f"{name!r} is no name of a client",
            hint="letters, digits and . _ @ : - are allowed, at most 64.",
        )
    token = secrets.token_urlsafe(32)
    with hold(place_of(lake).parent / "clients.lock"):
        _keep(lake, {**clients(lake), name: _hash(token)})
    return token


def remove_client(lake: Lake, name: str) -> None:
    """Remove a client.

    Raises:
        DefinitionError: There is none of this name.
    """
    with hold(place_of(lake).parent / "clients.lock"):
        known = clients(lake)
        if name not in known:
            raise DefinitionError(
                f"there is no client {name}",
                hint="the clients are " + (", ".join(known) or "none") + ".",
            )
        _keep(lake, {each: token for each, token in known.items() if each != name})


def _keep(lake: Lake, known: Mapping[str, str]) -> None:
    place_of(lake).parent.make().local.chmod(stat.S_IRWXU)
    place_of(lake).put(json.dumps(known, indent=1))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class Clients:
    """The clients of a lake, as the file has them now."""

    def __init__(self, lake: Lake) -> None:
        """Know none yet."""
        self._lake, self._stamp, self._known = lake, "", dict[str, str]()

    def of(self, token: str) -> str | None:
        """Return whose token it is; None where it is no one's, and where the file cannot be read."""
        try:
            stamp = place_of(self._lake).stamp()
            if stamp != self._stamp:
                self._known, self._stamp = clients(self._lake), stamp
        except (FileNotFoundError, DefinitionError):
            self._known, self._stamp = {}, ""
        given = _hash(token)
        same = [name for name, each in self._known.items() if hmac.compare_digest(each, given)]
        return same[0] if same else None


# Over HTTP.


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a server listens.

    Args:
        host: The address on which it listens.
        port: The port.
        token: What a client sends that has no name of its own; None where each has one.
        hosts: The names under which it may be asked, beside this machine's.
        certificate: The file of its certificate, with its chain; None for no TLS.
        key: The file of the certificate's key.
    """

    host: str
    port: int
    token: str | None = None
    hosts: Collection[str] = ()
    certificate: str | None = None
    key: str | None = None

    @property
    def url(self) -> str:
        """Return the address that a client needs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}{PATH}"


class Door:
    """Lets pass who has the token and comes from no page of a stranger; what it refuses is logged."""

    def __init__(self, app: App, terms: Terms, log: CallLog) -> None:
        """Put it before an application."""
        self._app, self._terms, self._log = app, terms, log
        self._clients = Clients(log.lake)
        self._minute, self._strangers = 0.0, 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        heads = heads_of(scope)
        strange = web_door.refusal(
            heads, self._terms.hosts, what="The tools of a lake", of="the lake"
        )
        if strange is not None:
            await self._refuse(strange, scope, send, HTTPStatus.FORBIDDEN)
        elif (who := self._asker(heads.get("authorization", []))) is None:
            await self._refuse(
                "the request has no valid token\n\nhint: send Authorization: Bearer TOKEN.",
                scope,
                send,
                HTTPStatus.UNAUTHORIZED,
            )
        elif scope["method"] != "POST":
            # Without sessions a GET would wait for messages that never come, and keep a place.
            await self._refuse(
                "the tools of a lake are asked by POST", scope, send, HTTPStatus.METHOD_NOT_ALLOWED
            )
        else:
            scope[WHO] = who
            await self._app(scope, _timely(receive), functools.partial(self._noted, scope, send))

    async def _noted(self, scope: Message, send: Send, message: Message) -> None:
        """Pass an answer on; of one that is no message of the protocol, such as to a body that is too large, the status is logged."""
        if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
            self._write(scope, f"HTTP {message['status']}", scope[WHO])
        await send(message)

    def _asker(self, given: list[str]) -> str | None:
        """Return who has sent a request, by its token: a client, or for the token of all others who started the server."""
        kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        token = token.strip()
        if kind.lower() != "bearer" or not token:
            return None
        own = self._terms.token
        if own is not None and hmac.compare_digest(token.encode(), own.encode()):
            return self._log.who
        return self._clients.of(token)

    async def _refuse(self, reason: str, scope: Message, send: Send, status: HTTPStatus) -> None:
        if time.monotonic() - self._minute > MINUTE:
            self._minute, self._strangers = time.monotonic(), 0
        self._strangers += 1
        if self._strangers <= STRANGERS:
            last = "; more of this minute are not written" if self._strangers == STRANGERS else ""
            self._write(scope, reason.partition("\n")[0] + last, "unknown")
        more = {
            HTTPStatus.UNAUTHORIZED: [(b"www-authenticate", b"Bearer")],
            HTTPStatus.METHOD_NOT_ALLOWED: [(b"allow", b"POST")],
        }.get(status, [])
        await web_door.refuse(reason, send, status, more)

    def _write(self, scope: Message, reason: str, who: str) -> None:
        client = scope.get("client") or ("unknown", 0)
        said = {
            # Of another path no word: a token may be in it by mistake.
            "method": f"{scope['method'][:20]} {PATH if scope['path'] == PATH else 'another path'}",
            "from": client[0],
            "message": reason[:500],
        }
        self._log.write(said, who=who)


def _timely(receive: Receive) -> Receive:
    """Return what receives a request, whose body is here within a time; else it ends as one of a client that is gone."""
    until: float | None = time.monotonic() + BODY_WITHIN

    async def received() -> Message:
        nonlocal until
        if until is None:  # the body is whole; what comes is the end of the client
            return await receive()
        with anyio.move_on_after(max(0.0, until - time.monotonic())):
            message = await receive()
            if not message.get("more_body"):
                until = None
            return message
        return {"type": "http.disconnect"}

    return received


class _Impatient(H11Protocol):
    """A connection that is closed where no request has come on it within a time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.loop.call_later(HEAD_WITHIN, self._end_silent)

    def _end_silent(self) -> None:
        asked: object = self.scope
        if asked is None:  # no head of a request has come
            self.transport.close()


class _Announced(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def over_http(
    server: MCPServer[Any], terms: Terms, log: CallLog, ready: Callable[[], None]
) -> None:
    """Answer clients over HTTP until a signal ends it.

    Args:
        server: The server.
        terms: How it listens.
        log: The log, of refused requests too.
        ready: Is called once it listens.
    """
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MOST_OF_REQUEST,
        host=terms.host,
        # The door asks the same of Host and Origin, and knows STRANDLINE_HOSTS.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    config = uvicorn.Config(
        Door(app, terms, log),
        host=terms.host,
        port=terms.port,
        log_config=None,
        access_log=False,
        http=_Impatient,
        server_header=False,
        limit_concurrency=AT_ONCE,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
        ws="none",
        ssl_certfile=terms.certificate,
        ssl_keyfile=terms.key,
    )
    asyncio.run(_Announced(config, ready).serve())
