"""``strandline mcp``: an agent asks by the SDK's real client, every answer has its verdict, nothing masked leaves, all is logged."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path

import anyio
import duckdb
import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.ask.sql_query import sentence
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.order_log import Asked, newest
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock
from strandline.operate import mcp_server
from strandline.operate.mcp_questions import LONGEST, Limits, without_values
from strandline.operate.mcp_server import (
    AT_ONCE,
    BODY_WITHIN,
    HEAD_WITHIN,
    MOST_OF_REQUEST,
    ROOM,
    Clients,
    add_client,
    place_of,
    remove_client,
)
from strandline.operate.mcp_tools import NAMES
from tests.cli import inside as inside_cli
from tests.cli.agent_attempts import ATTEMPTS, LIMIT, MASK, READ, Attempt
from tests.cli.serving import free_port
from tests.cli.typed import start, strandline
from tests.engine.written import BRONZE, long_log, small_lake
from tests.support.agent import (
    Agent,
    Heard,
    calls,
    inside,
    lake_to_ask,
    log_of,
    over_http,
    over_stdio,
)
from tests.support.rows import NOON

ACTIONS = "silver.user_actions"
COUNTED = "SELECT count(*) FROM silver.user_actions"
TOKEN = "a-token-of-a-test-alone"  # noqa: S105  # of a server that lives for a test
ABSENT = "xyzzy"
STRANGER = "evil.example"
SOME = (0, 2, 5, 9, 20, 22, 26, 27, 30, 37, 42, 52, 58, 63, 85)
"""Attempts that the suite makes; all are made against the demo (test_mcp_questions.py)."""


@pytest.fixture(name="lake", scope="module")
def _lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a small lake with users who are masked, and a file beside it."""
    root = tmp_path_factory.mktemp("agent")
    (root / "outside.csv").write_text("word\nplover\n")
    return lake_to_ask(root / "lake")


def files(lake: Lake) -> dict[str, int]:
    """Return when each file of a lake was changed; its logs are not looked into, where the JVM of an ended verb removes its scratch."""
    found = dict[str, int]()
    for folder, below, names in os.walk(lake.root.local.parent, onerror=_refuse):
        below[:] = [each for each in below if each != "_logs"]
        paths = (Path(folder, each) for each in names)
        found |= {str(path): path.stat().st_mtime_ns for path in paths}
    return found


def _refuse(error: OSError) -> None:
    raise error


# ---- over standard input ---------------------------------------------------------------------------------


def test_an_assistant_starts_it_and_asks_with_every_tool(lake: Lake) -> None:
    """Nothing but the log is written, and each request is a line of it."""
    before, lines = files(lake), len(calls(lake))
    given = {
        "schema": {"table": ACTIONS},
        "query": {"sql": "SELECT action, count(*) AS n FROM silver.user_actions GROUP BY ALL"},
        "why": {"event": "a9", "table": ACTIONS},
        "lineage": {"table": "gold.device_signal_10m"},
        "quarantine": {"table": ACTIONS, "samples": 3},
        "history": {"table": ACTIONS},
        "diff": {"table": ACTIONS, "since": "0"},
        "runbook": {"name": "silent"},
    }

    async def work(agent: Agent) -> dict[str, Heard]:
        listed = (await agent.client.list_tools()).tools
        assert [each.name for each in listed] == [*NAMES]
        assert all(each.annotations and each.annotations.read_only_hint for each in listed)
        assert all(each.description and each.output_schema for each in listed)
        return {name: await agent.call(name, **given.get(name, {})) for name in NAMES}

    heard = over_stdio(work, "--lake", lake.root)

    for name, each in heard.items():
        assert not each.is_refused, (name, each.text)
        assert {"believed", "verdict", "because", "asked_at", "as_of", "check"} <= {*each.found}
    query = heard["query"]
    assert query.answer == {"columns": ["action", "n"], "rows": [["login", 3]], "count": 1}
    assert query.found["masked"] == [f"{ACTIONS}.user_id"]
    assert query.found["as_of"][ACTIONS]["version"] == 0
    assert f"query {ACTIONS} AT (VERSION => 0)" in " ".join(query.found["check"])
    assert "alice" not in str(heard)
    assert files(lake) == before
    new = calls(lake)[lines:]
    assert [each["asked"].split('"')[3] for each in new] == [*NAMES]
    assert {each["level"] for each in new} == {"info"}
    assert all(each["bytes"] > 0 and each["over"] == "stdio" for each in new)


@pytest.mark.whole
def test_the_log_is_read_like_every_other(lake: Lake) -> None:
    """By level as well: what was refused is a warning."""

    async def work(agent: Agent) -> None:
        assert (await agent.call("query", sql="DROP TABLE x")).is_refused

    inside(lake, lambda: NOON, work)

    shown = strandline("logs", "--of", "mcp", "--level", "warning", "--lake", lake.root).succeeded()

    assert "a query is one SELECT" in shown.out


def test_the_tools_of_moments_changes_and_costs_have_verdicts_and_masks(lake: Lake) -> None:
    """They are what the commands are; a column that is masked is no group."""

    async def work(agent: Agent) -> list[Heard]:
        return [
            await agent.call("moments"),
            await agent.call("diff", table=ACTIONS, since="0"),
            await agent.call("diff", table=ACTIONS, since="0", by=["user_id"]),
            await agent.call("diff", table=ACTIONS, since="-1", limit=101),
            await agent.call("cost", day="2026-11-20"),
        ]

    moments, same, grouped, long, cost = inside(lake, lambda: NOON, work)

    assert moments.found["believed"] is None
    assert {"latest", "moments"} == {*moments.answer}
    (found,) = same.answer["tables"]
    assert (found["came"], found["went"], found["changed"]) == (0, 0, 0)
    assert same.found["check"][0].startswith(f"strandline diff {ACTIONS} --from 0")
    assert grouped.is_refused
    assert "user_id" in grouped.text
    assert "alice" not in grouped.text
    assert long.is_refused
    assert {"tables", "days", "processes"} <= {*cost.answer}


# ---- what it answers -------------------------------------------------------------------------------------


def test_a_number_over_books_that_do_not_balance_is_not_believed(tmp_path: Path) -> None:
    """Also one of a table above, and the way to check it is said."""
    lake = lake_to_ask(tmp_path / "lake")
    table = lake.root.local / "silver" / "device_telemetry"
    next(table.glob("*.parquet")).unlink()

    async def work(agent: Agent) -> Heard:
        return await agent.call("query", sql="SELECT count(*) FROM gold.device_signal_10m")

    heard = inside(lake, lambda: NOON, work)

    assert heard.answer["rows"] == [[1]]
    assert heard.found["believed"] is False
    assert "unbalanced" in heard.found["verdict"]
    assert any(why.startswith("silver.device_telemetry:") for why in heard.found["because"])


def test_a_clock_that_is_a_year_ahead_breaks_no_answer(lake: Lake) -> None:
    """Every tool answers; what is late by such a clock is said with the answer."""

    async def work(agent: Agent) -> list[Heard]:
        return [
            await agent.call("query", sql=COUNTED),
            await agent.call("report"),
            await agent.call("quarantine"),
        ]

    heard = inside(lake, lambda: NOON + timedelta(days=365), work)

    assert not any(each.is_refused for each in heard), heard


@pytest.mark.parametrize("attempt", [ATTEMPTS[number] for number in SOME], ids=str)
def test_some_of_the_attempts(attempt: Attempt, lake: Lake) -> None:
    """Each is refused or answered with masks, and is a line of the log."""
    outside = str(lake.root.local.parent / "outside.csv")

    async def work(agent: Agent) -> list[Heard]:
        return [
            await agent.read(str(given["uri"]))
            if attempt.tool == READ
            else await agent.call(attempt.tool, **given)
            for given in (attempt.arguments("alice", outside), attempt.arguments(ABSENT, outside))
        ]

    lines = len(calls(lake))
    real, absent = inside(lake, lambda: NOON, work, Limits(seconds=2))

    if attempt.kind != MASK:
        assert real.is_refused, real.text
    assert "plover" not in real.text
    if attempt.asks_for_secret:
        assert learnt(real, "alice") == learnt(absent, ABSENT)
    else:
        assert "alice" not in real.text
    assert len(calls(lake)) == lines + 2
    assert (calls(lake)[-1]["level"] == "warning") == absent.is_refused


def learnt(heard: Heard, value: str) -> tuple[bool, str]:
    """Return what an answer says beside the value that was asked for and the time."""
    said = str(heard.found.get("answer", heard.text))
    return heard.is_refused, said.replace(value, "VALUE")


def test_a_megabyte_of_text_is_refused_with_a_sentence(lake: Lake) -> None:
    """Neither the parser nor the log takes it in."""

    async def work(agent: Agent) -> list[Heard]:
        return [
            await agent.call("query", sql=f"SELECT '{'x' * 1_000_000}'"),
            await agent.call("why", event="x" * 1_000_000),
        ]

    heard = inside(lake, lambda: NOON, work)

    assert all(each.is_refused for each in heard)
    assert f"{LONGEST:,}" in heard[0].text or str(LONGEST) in heard[0].text
    assert max(len(str(each)) for each in log_of(lake)[-2:]) < 10_000  # a screen


def test_an_answer_that_cannot_be_logged_does_not_leave(tmp_path: Path) -> None:
    """As over JDBC: a full disk must not open a way that leaves no trace."""
    lake = lake_to_ask(tmp_path / "lake")
    lake.log("mcp").make()

    async def work(agent: Agent) -> str:
        try:
            await agent.call("query", sql=COUNTED)
        except Exception as error:  # noqa: BLE001  # whatever the client makes of it
            return str(error)
        return "answered"

    said = inside(lake, lambda: NOON, work)

    assert "cannot be logged" in said


def test_a_call_that_its_client_does_not_wait_for_is_logged(lake: Lake) -> None:
    """Else a client could ask and leave no trace, and learn by how long it was kept."""
    endless = next(each for each in ATTEMPTS if each.kind == LIMIT and "100000000000" in str(each))
    lines = len(calls(lake))

    async def work(agent: Agent) -> None:
        with anyio.move_on_after(0.3):
            await agent.call("query", **endless.given)
        while len(calls(lake)) == lines:  # noqa: ASYNC110  # a file has no event
            await anyio.sleep(0.02)

    inside(lake, lambda: NOON, work, Limits(seconds=2))

    (gone,) = calls(lake)[lines:]
    assert "100000000000" in gone["asked"]
    assert (gone["level"], gone["message"]) == ("warning", "the client did not wait for the answer")


def test_a_version_is_named_and_not_computed(lake: Lake) -> None:
    """DuckDB computes what AT has before the question, where neither a limit of time nor one of memory holds."""
    sql = f"FROM {ACTIONS} AT (VERSION => len(range(50000000)))"

    async def work(agent: Agent) -> Heard:
        return await agent.call("query", sql=sql)

    assert "len() gives no time" in inside(lake, lambda: NOON, work).text


def test_clients_that_leave_fill_no_machine(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond some a further call is refused at once; what its client waits for no more is ended, and makes room."""
    monkeypatch.setattr(mcp_server, "WAIT", 60.0)
    endless = next(each for each in ATTEMPTS if each.kind == LIMIT and "100000000000" in str(each))
    refused: list[Heard] = []

    async def work(agent: Agent) -> None:
        async def asked() -> None:
            refused.append(await agent.call("query", **endless.given))

        async with anyio.create_task_group() as group:
            for _ in range(ROOM + 1):
                group.start_soon(asked)
            while not refused:  # noqa: ASYNC110  # the others are still in it
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        with anyio.fail_after(20):
            while (await agent.call("query", sql="SELECT 1")).is_refused:
                pass

    inside(lake, lambda: NOON, work, Limits(seconds=60))

    assert ["the server is busy" in each.text for each in refused] == [True]


def test_a_comparison_and_a_sum_end_at_their_time(tmp_path: Path) -> None:
    """As a question does: they walk along a log, and hear it at the next commit."""
    lake = lake_to_ask(tmp_path / "lake")
    long_log(lake, 6_000)

    async def work(agent: Agent) -> list[Heard]:
        ended = [
            await agent.call("diff", table=BRONZE.id, since="0"),
            await agent.call("cost", day=f"{NOON:%Y-%m-%d}"),
        ]
        with anyio.fail_after(60):  # a machine may be too slow for it at first
            while (query := await agent.call("query", sql="SELECT 1 AS one")).is_refused:
                pass
        return [*ended, query]

    diff, cost, query = inside(lake, lambda: NOON, work, Limits(seconds=0.1))

    assert "ended after 0.1 s" in diff.text
    assert "ended after 0.1 s" in cost.text
    assert query.answer["rows"] == [[1]]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Could not convert string 'alice' to INT32", "Could not convert string […]"),
        ("Could not convert string 'O'Brien' to INT32", "Could not convert string […]"),
        ("Could not convert string 'first\nsecond' to INT32", "Could not convert string […]"),
        ("Type INT64 with value 4711 cannot be cast", "Type INT64 with value […] cannot be cast"),
        ("a value of 1.5e+10, or -3", "a value of […] or […]"),
    ],
)
def test_an_error_has_nothing_of_rows(said: str, shown: str) -> None:
    """Whatever quotes and lines a value has; the names of types stay."""
    error = DefinitionError(sentence(duckdb.ConversionException(said)), hint="x")
    error.__cause__ = duckdb.ConversionException(said)

    assert without_values(error).message == shown


def test_a_question_that_hears_no_end_is_ended_and_the_next_is_answered(lake: Lake) -> None:
    """The limit is the server's, whatever the question."""
    endless = next(each for each in ATTEMPTS if each.kind == LIMIT and "100000000000" in str(each))

    async def work(agent: Agent) -> list[Heard]:
        return [
            await agent.call("query", **endless.given),
            await agent.call("query", sql="SELECT 1 AS one"),
        ]

    ended, answered = inside(lake, lambda: NOON, work, Limits(seconds=0.5))

    assert "ended after 0.5 s" in ended.text
    assert answered.answer["rows"] == [[1]]


@pytest.mark.whole
def test_a_lake_on_a_store_is_asked_alike(bucket: Place) -> None:
    """Its log is on this machine, and the operating system bars the rest of that as well."""
    lake = small_lake(bucket / "lake")
    names = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}

    async def work(agent: Agent) -> list[Heard]:
        return [
            await agent.call("query", sql="SELECT count(*) FROM bronze.device_telemetry"),
            await agent.call("tables"),
            await agent.call("query", sql="DROP TABLE bronze.device_telemetry"),
        ]

    counted, tables, dropped = over_stdio(work, "--lake", lake.root, env=names)

    assert counted.answer["rows"] == [[5]]
    assert counted.found["believed"] is True
    assert {each["table"] for each in tables.answer["tables"]} >= {"silver.device_telemetry"}
    assert dropped.is_refused
    assert [each["level"] for each in calls(lake)] == ["info", "info", "warning"]


# ---- over HTTP -------------------------------------------------------------------------------------------


@contextmanager
def listening(lake: Lake, log: Path, *words: object, token: str = TOKEN) -> Iterator[int]:
    """Start it over HTTP, and see that a signal ends it in order."""
    port = free_port()
    env = {"STRANDLINE_MCP_TOKEN": token} if token else {}
    process = start("mcp", "--http", "--lake", lake.root, "--port", port, *words, log=log, env=env)
    try:
        until = time.monotonic() + 120
        while "/mcp;" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        yield port
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
        assert log.read_text().splitlines()[-1] == "stopped"
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def posted(  # each is a part of a request
    port: int,
    body: bytes = b"{}",
    *,
    method: str = "POST",
    path: str = "/mcp",
    timeout: float = 60,
    **heads: str,
) -> int:
    """Return the status of a request, which has the token and comes from no page unless it says otherwise."""
    usual = {
        "Host": f"127.0.0.1:{port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {TOKEN}",
    }
    with closing(HTTPConnection("127.0.0.1", port, timeout=timeout)) as line:
        line.putrequest(method, path, skip_host=True)
        for name, value in (usual | heads).items():
            if value:
                line.putheader(name, value)
        line.putheader("Content-Length", str(len(body)))
        line.endheaders(body)
        return line.getresponse().status


def test_over_http_it_asks_for_a_token_and_refuses_pages_of_strangers(
    lake: Lake, tmp_path: Path
) -> None:
    """The client of the SDK is answered with the token; what the door refuses is logged as well.

    A client with a token of its own is asked for the roles of its name, and logged by it.
    """
    lines = len(log_of(lake))
    nightly, weekly = (add_client(lake, name) for name in ("nightly", "weekly"))
    lake.roles.put('[people]\n"*" = ["read"]\nweekly = []\n')

    async def work(agent: Agent) -> Heard:
        return await agent.call("query", sql=COUNTED)

    try:
        with listening(lake, tmp_path / "log") as port:
            url = f"http://127.0.0.1:{port}/mcp"
            heard, named, none = (over_http(url, each, work) for each in (TOKEN, nightly, weekly))
            remove_client(lake, "nightly")
            refused = [
                posted(port, Authorization=""),
                posted(port, Authorization="Bearer another-token-altogether"),
                posted(port, Authorization="Bearer "),
                posted(port, Authorization=f"Bearer {nightly}"),
                posted(port, Authorization=f"Basic {TOKEN}"),
                posted(port, Host=STRANGER),
                posted(port, Origin=f"http://{STRANGER}"),
                posted(port, **{"Sec-Fetch-Site": "cross-site"}),
                posted(port, path=f"/mcp?token={TOKEN}", Authorization=""),
                posted(port, path=f"/mcp/{TOKEN}", Authorization=""),
                posted(port, method="GET"),
            ]
            long = posted(port, body=b" " * (MOST_OF_REQUEST + 1))
    finally:
        lake.roles.remove()
        remove_client(lake, "weekly")

    assert heard.answer["rows"] == named.answer["rows"] == [[3]]
    assert "weekly has none" in none.text
    assert refused == [*[401] * 5, *[403] * 3, *[401] * 2, 405]
    assert long == 413  # a body that is too large
    new = log_of(lake)[lines:]
    assert sum(each["level"] == "warning" and "from" in each for each in new) == len(refused) + 1
    asked = [each for each in new if each["method"] == "tools/call"]
    assert [each["who"] for each in asked] == [clock.login(), "nightly", "weekly"]
    assert {each["over"] for each in asked} == {"http"}
    assert not any(each in str(new) for each in (TOKEN, nightly, weekly))


def test_clients_are_added_with_tokens_that_are_shown_once(lake: Lake) -> None:
    """As users of JDBC are; who adds one is in the log of orders, and no token is in a file."""
    added = inside_cli.succeeded("mcp", "add-client", "agent-7", "--lake", lake.root)
    token = added.out.strip()
    wrong = inside_cli.strandline("mcp", "add-client", "a b", "--lake", lake.root)
    listed = inside_cli.succeeded("mcp", "clients", "--json", "--lake", lake.root).json

    assert len(token) >= 40  # as long as a key
    assert wrong.code == 2
    assert {"client": "agent-7"} in listed
    assert Clients(lake).of(token) == "agent-7"
    assert Clients(lake).of(token + "x") is None
    assert not any(
        token in (each.text() or "") for each in lake.root.files() if each.name.endswith(("l", "n"))
    )
    assert {each.verb for each in newest(lake, Asked()).orders} >= {"mcp add-client"}

    inside_cli.succeeded("mcp", "remove-client", "agent-7", "--lake", lake.root)
    again = inside_cli.strandline("mcp", "remove-client", "agent-7", "--lake", lake.root)
    assert Clients(lake).of(token) is None
    assert again.code == 2
    place_of(lake).put("torn")
    assert Clients(lake).of(token) is None
    assert inside_cli.strandline("mcp", "clients", "--lake", lake.root).code == 2
    place_of(lake).remove_file()


@pytest.mark.whole
def test_a_client_that_sends_nothing_more_keeps_no_place(lake: Lake, tmp_path: Path) -> None:
    """Neither one that never asks, with no token, nor one that never ends its request."""
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        "Content-Length: 100\r\n\r\n{"
    )
    with listening(lake, tmp_path / "log") as port, ExitStack() as held:
        lines = []
        for number in range(AT_ONCE):
            line = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            if number == 0:
                line.sendall(head.encode())
            lines.append(line)
        began = time.monotonic()
        full = posted(port)
        ends = [line.recv(10_000) for line in reversed(lines)]
        waited = time.monotonic() - began
        after = posted(port, body=b"x")

    assert full == 503
    assert waited < HEAD_WITHIN + BODY_WITHIN + 5
    assert {*ends[:-1]} == {b""}
    assert after == 400


@pytest.mark.whole
def test_a_client_that_leaves_before_the_answer_is_logged(lake: Lake, tmp_path: Path) -> None:
    """Over HTTP it closes the connection."""
    endless = next(each for each in ATTEMPTS if each.kind == LIMIT and "100000000000" in str(each))
    call = {"name": "query", "arguments": dict(endless.given)}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    lines = len(calls(lake))

    with listening(lake, tmp_path / "log", "--timeout", "2s") as port:
        with suppress(TimeoutError):
            posted(port, body=json.dumps(asked).encode(), timeout=0.7)
        until = time.monotonic() + 60
        while len(calls(lake)) == lines:
            assert time.monotonic() < until
            time.sleep(0.05)

    (gone,) = calls(lake)[lines:]
    assert "100000000000" in gone["asked"]


@pytest.mark.whole
def test_without_a_token_of_the_settings_one_is_drawn_and_printed(
    lake: Lake, tmp_path: Path
) -> None:
    """Like a notebook's: who started it can ask."""
    log, port = tmp_path / "log", free_port()
    process = start("mcp", "--http", "--lake", lake.root, "--port", port, log=log)
    try:
        while "token: " not in log.read_text():
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        token = log.read_text().partition("token: ")[2].split()[0]

        async def work(agent: Agent) -> int:
            return len((await agent.client.list_tools()).tools)

        assert over_http(f"http://127.0.0.1:{port}/mcp", token, work) == len(NAMES)
    finally:
        process.kill()
        process.wait()


@pytest.mark.whole
def test_an_address_of_the_network_needs_tls(lake: Lake) -> None:
    """A token would cross it in the clear."""
    answer = strandline("mcp", "--http", "--host", "0.0.0.0", "--lake", lake.root)  # noqa: S104  # refused

    assert answer.code == 2  # a definition error
    assert "--tls-cert" in answer.err
