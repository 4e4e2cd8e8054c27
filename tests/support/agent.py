"""An agent: the SDK's real client, of a server that is typed and asked on its standard input, or one that listens, or one in this process."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeVar

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from strandline import catalog

from strandline.core.topic import QUARANTINE
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.settings import settings
from strandline.operate.mcp_questions import Limits
from strandline.operate.mcp_server import CallLog, server_of
from strandline.operate.mcp_tools import Tools
from tests.cli.serving import asked_lake
from tests.cli.typed import ENVIRONMENT, PROGRAM
from tests.engine.written import BRONZE, SILVER, entry
from tests.support import by_hand
from tests.support.rows import NOON

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Heard:
    """What an agent heard of a call."""

    is_refused: bool
    text: str
    found: dict[str, Any]

    @property
    def answer(self) -> dict[str, Any]:
        """Return what was asked."""
        assert not self.is_refused, self.text
        answer: dict[str, Any] = self.found["answer"]
        return answer


@dataclass(frozen=True, slots=True)
class Agent:
    """A client that is connected."""

    client: Client

    async def call(self, tool: str, **given: Any) -> Heard:  # noqa: ANN401  # what the tool takes
        """Call a tool."""
        found = await self.client.call_tool(tool, given)
        words = " ".join(getattr(each, "text", "") for each in found.content)
        return Heard(bool(found.is_error), words, found.structured_content or {})

    async def read(self, uri: str) -> Heard:
        """Read a resource."""
        try:
            found = await self.client.read_resource(uri)
        except MCPError as error:
            return Heard(True, str(error), {})
        return Heard(False, " ".join(getattr(each, "text", "") for each in found.contents), {})


Work = Callable[[Agent], Awaitable[T]]


def over_stdio(work: Work[T], *words: object, env: Mapping[str, str] | None = None) -> T:
    """Start a server as an assistant does, and ask it."""
    typed = StdioServerParameters(
        command=PROGRAM,
        args=["mcp", *map(str, words)],
        env={**ENVIRONMENT, **(env or {})},
    )
    return _asked(lambda: Client(typed, read_timeout_seconds=300), work)


def over_http(url: str, token: str, work: Work[T]) -> T:
    """Ask a server that listens."""

    async def asked() -> T:
        heads = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=heads, timeout=300) as line:
            way = streamable_http_client(url, http_client=line)
            async with Client(way, cache=None) as client:
                return await work(Agent(client))

    return anyio.run(asked)


def inside(
    lake: Lake, now: Callable[[], datetime], work: Work[T], limits: Limits | None = None
) -> T:
    """Ask a server of this process, whose messages are those of every other one."""
    tools = Tools(
        lake=lake,
        found=settings(lake=str(lake.root)),
        tables_=catalog.tables(),
        clock=now,
        limits=limits or Limits(),
    )
    lake.log("mcp").parent.make()
    server, _ = server_of(tools, CallLog(lake=lake, over="test", who="ana", clock=now))
    return _asked(lambda: Client(server), work)


def _asked(client: Callable[[], Client], work: Work[T]) -> T:
    async def asked() -> T:
        async with client() as connected:
            return await work(Agent(connected))

    return anyio.run(asked)


def lake_to_ask(root: Path) -> Lake:
    """Make a small lake that balances, with users who are masked, whose quarantines have the columns of real ones."""
    lake = asked_lake(root)
    place = lake.quarantine(SILVER)
    rmtree(place.local)
    by_hand.create(place, QUARANTINE)
    held = [("device-telemetry", 0, 4, NOON, ["late"], NOON, None, b"{}", None)]
    good = entry(
        SILVER,
        versions={BRONZE.id: (0, 1)},
        read=5,
        good=3,
        duplicates=1,
        quarantined={"late": 1},
        written=3,
    )
    by_hand.commit(place, [by_hand.table(QUARANTINE, held)], good.encoded())
    return lake


def log_of(lake: Lake) -> list[dict[str, Any]]:
    """Return the lines of the log of who asked what."""
    log: Path = lake.log("mcp").local
    return [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []


def calls(lake: Lake) -> list[dict[str, Any]]:
    """Return those of tools and resources."""
    return [each for each in log_of(lake) if each["method"] in {"tools/call", "resources/read"}]
