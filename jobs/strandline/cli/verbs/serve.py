"""Programs in which people and agents work with a lake (``serve``, ``mcp``, ``ui``, ``notebook``), and what programs ask of it (``metrics``, ``probe``)."""

import getpass
import os
import secrets
import sys
import urllib.request
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from strandline import catalog

from strandline.cli import main, screen
from strandline.cli.screen import JsonOption, LakeOption, emit, is_terminal, note, record, say, show
from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.kafka import broker
from strandline.engine.lake.completeness import fed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock, processes
from strandline.engine.runtime.processes import NOT_BARRED, bar_writes
from strandline.engine.runtime.settings import Settings, settings, telemetry
from strandline.engine.service.background_stream import ALERTS, STREAM, refuse_ill
from strandline.operate import lakes
from strandline.operate.lakes import seconds
from strandline.project import refuse_without
from strandline_infra.programs import HOST

if TYPE_CHECKING:
    from strandline.engine.proof.daily_report import AlertPage
    from strandline.engine.service.metrics import Metric, Sample
    from strandline.engine.service.metrics_page import LakeLook

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HostOption = Annotated[
    str, typer.Option(help="Address to listen on; other than loopback needs TLS.")
]
CertificateOption = Annotated[
    Path | None,
    typer.Option("--tls-cert", metavar="FILE", help="Certificate with its chain, PEM."),
]

PORT = 10000
TURN = 0.1
"""Seconds between two looks at the questions of those who see sensitive columns."""

HELP = """Answer SQL over JDBC and ODBC, beside a running stream; nothing can be changed.

The databases are bronze, silver, gold, quarantine (open rows), resolutions, ledger and quality (history).
Sensitive columns are masked; a user who was added with --unmasked sees them, and each question is written down.
Ctrl-C ends it.

\b
strandline serve add-user ana
strandline serve
strandline serve --port 10001 --timeout 30s --rows 10000
strandline serve --host 0.0.0.0 --tls-cert server.crt --tls-key server.key
strandline serve add-user eve --unmasked "fraud team"
strandline serve users
strandline serve remove-user ana
"""

serve = typer.Typer(help=HELP, invoke_without_command=True, rich_markup_mode=None)


@serve.callback(help=HELP)
def serve_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    context: typer.Context,
    host: HostOption = LOOPBACK[0],
    port: Annotated[
        int | None, typer.Option(help="Port; 10000, or a free one, when absent.")
    ] = None,
    certificate: CertificateOption = None,
    key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key, PEM, PKCS#8.")
    ] = None,
    timeout: Annotated[
        str, typer.Option(help="Time after which a query is ended: 30s, 5m.")
    ] = "5m",
    rows: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Most rows of an answer; a longer one fails.")
    ] = 100_000,
    cores: Annotated[int, typer.Option(min=1, help="Threads that queries work with.")] = 1,
    nice: Annotated[
        int, typer.Option(min=0, max=19, help="How much it gives way to other programs.")
    ] = 10,
    memory: Annotated[str, typer.Option(help="Heap of its JVM.")] = "1g",
    lake: LakeOption = None,
) -> None:
    """Serve, unless a subcommand was named."""
    if context.invoked_subcommand is not None:
        return
    # Not imported above, as what the other programs need: `probe` is asked every few seconds.
    from strandline.engine.service import sql_server  # noqa: PLC0415  # as above

    asked = main.asked()
    _, where = screen.existing(lake)
    sql_server.refuse_without_users(where)
    _refuse_open_door(host, certificate, key)
    processes.refuse_taken(port)
    found = settings(lake=lake, cores=cores, memory=memory)
    # Not imported above: it takes a second, for which the subcommands should not wait.
    from strandline.engine.service.sql_server import SqlServer, Terms  # noqa: PLC0415  # as above

    terms = Terms(
        host=host,
        port=port or processes.free(PORT),
        timeout=max(1, int(seconds(timeout))),
        rows=rows,
        nice=nice,
        certificate=str(certificate) if certificate else None,
        key=str(key) if key else None,
    )
    server = SqlServer(found, where, catalog.tables(), terms, note)
    try:
        say(f"serving {where.root} at {terms.url}; Ctrl-C ends it")
        while not asked.wait(TURN):
            server.turn(clock.now())
    finally:
        main.deaf()
        server.stop()
    note("stopped")


@serve.command("add-user")
def add_user(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")],
    unmasked: Annotated[
        str | None,
        typer.Option(
            metavar="WHY", help="Let the user see sensitive columns; each question is written down."
        ),
    ] = None,
    lake: LakeOption = None,
) -> None:
    r"""Add a user, or give one another password; the password is asked for, or read from standard input.

    \b
    strandline serve add-user ana
    strandline serve add-user eve --unmasked "fraud team" < password.txt
    """
    from strandline.engine.service import sql_server  # noqa: PLC0415  # see serve_

    where = _existing(lake)
    password = getpass.getpass("password: ") if is_terminal() else sys.stdin.readline().rstrip("\n")
    sql_server.add(where, name, password, unmasked=unmasked)
    say(f"{name} may ask {where.root}" + (", sensitive columns too" if unmasked else ""))


@serve.command("remove-user")
def remove_user(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")],
    lake: LakeOption = None,
) -> None:
    r"""Remove a user, who is refused from the next question on.

    \b
    strandline serve remove-user ana
    """
    from strandline.engine.service import sql_server  # noqa: PLC0415  # see serve_

    where = _existing(lake)
    sql_server.remove(where, name)
    say(f"{name} may not ask {where.root} any more")


@serve.command("users")
def users(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""List the users, and why some see sensitive columns.

    \b
    strandline serve users --json
    """
    from strandline.engine.service import sql_server  # noqa: PLC0415  # see serve_

    known = sql_server.users(_existing(lake))
    rows = [{"user": name, "unmasked": each["unmasked"]} for name, each in known.items()]
    if as_json:
        emit(rows)
    else:
        show(None, ("user", "unmasked"), [tuple(row.values()) for row in rows])


def _existing(lake: str | None) -> Lake:
    return screen.existing(lake)[1]


def _refuse_open_door(host: str, certificate: Path | None, key: Path | None) -> None:
    """Refuse passwords and tokens on a network in the clear, and a certificate that cannot be read.

    Raises:
        DefinitionError: There is no TLS for an address other than loopback, or half of it.
    """
    if (certificate is None) != (key is None):
        raise DefinitionError(
            "TLS needs a certificate and its key", hint="name both: --tls-cert FILE --tls-key FILE."
        )
    if certificate is None and host not in LOOPBACK:
        raise DefinitionError(
            f"{host} is no loopback, and what a client shows to be let in would cross the network in the clear",
            hint="add --tls-cert FILE --tls-key FILE, or leave --host out.",
        )
    for file in (certificate, key):
        if file is not None and not Place.of(file).is_file():
            raise DefinitionError(f"there is no file {file}", hint="name a file in PEM.")


# ``mcp``: the lake's tools for agents, by the Model Context Protocol.

MCP_PORT = 8420


MCP_HELP = """Answer agents over the Model Context Protocol; each answer says whether it may be believed.

The tools read and change nothing: tables, schema, query, why, ledger, report, lineage, quarantine, radar, history,
moments, diff, cost, preflight, runbook. Sensitive columns are masked, answers have limits, and every request is a line of the log mcp.
Without --http one client starts it and asks on standard input; with it clients send Authorization: Bearer and a token:
each its own, by which it has a name and the roles of that name (add-client), or that of STRANDLINE_MCP_TOKEN, or, while there are
neither, one that is printed at the start. It is an extra: pip install 'strandline[mcp]'.

\b
strandline mcp
strandline mcp add-client nightly
strandline mcp clients
strandline mcp --http
strandline mcp --http --port 8421 --timeout 10s --rows 200
strandline mcp remove-client nightly
"""

agents = typer.Typer(help=MCP_HELP, invoke_without_command=True, rich_markup_mode=None)


@agents.callback(help=MCP_HELP)
def mcp(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    context: typer.Context,
    http: Annotated[
        bool,
        typer.Option(
            "--http", help="Listen for several clients with tokens, instead of standard input."
        ),
    ] = False,
    host: HostOption = LOOPBACK[0],
    port: Annotated[
        int | None, typer.Option(help="Port; 8420, or a free one, when absent.")
    ] = None,
    certificate: CertificateOption = None,
    key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key, PEM.")
    ] = None,
    timeout: Annotated[
        str, typer.Option(help="Time after which a question is ended: 30s.")
    ] = "30s",
    rows: Annotated[
        int, typer.Option(min=1, max=100_000, help="Most rows of an answer; a longer one fails.")
    ] = 1_000,
    size: Annotated[
        int,
        typer.Option(
            "--bytes",
            min=10_000,
            max=50_000_000,
            help="Most bytes of an answer; a longer one fails.",
        ),
    ] = 200_000,
    lake: LakeOption = None,
) -> None:
    """Answer agents, unless a subcommand was named."""
    if context.invoked_subcommand is not None:
        return
    # Not imported above: it takes a second, for which no other verb should wait.
    from strandline.operate import mcp_server  # noqa: PLC0415  # as above
    from strandline.operate.mcp_questions import Limits  # noqa: PLC0415  # as above
    from strandline.operate.mcp_tools import Tools  # noqa: PLC0415  # as above

    found, where = screen.existing(lake)
    if http:
        _refuse_open_door(host, certificate, key)
        processes.refuse_taken(port)
    tools = Tools(
        lake=where,
        found=found,
        tables_=catalog.tables(),
        clock=clock.now,
        limits=Limits(seconds=seconds(timeout), rows=rows, size=size),
    )
    log = mcp_server.CallLog(
        lake=where, over="http" if http else "stdio", who=clock.login(), clock=clock.now
    )
    processes.let_give_way(os.getpid())
    _bar_writes(where)
    server, desk = mcp_server.server_of(tools, log)
    if http:
        asked = main.asked()
        named = [*mcp_server.clients(where)]
        given = found.mcp_token.get_secret_value() if found.mcp_token else None
        drawn = None if given or named else secrets.token_urlsafe(32)
        terms = mcp_server.Terms(
            host=host,
            port=port or processes.free(MCP_PORT),
            token=given or drawn,
            hosts=found.public_names,
            certificate=str(certificate) if certificate else None,
            key=str(key) if key else None,
        )

        def ready() -> None:
            say(f"answering for {where.root} at {terms.url}; Ctrl-C ends it")
            if named:
                say(f"clients: {', '.join(named)}")
            if drawn:
                say(f"token: {drawn}")

        mcp_server.over_http(server, terms, log, ready)
        main.deaf()
        note("stopped" if asked.is_set() else "ended")
    else:
        mcp_server.over_stdio(server)
    if desk.is_busy:  # a question that hears no interruption would keep the program
        main.leave(0)


@agents.command("add-client")
def add_client(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The client's name.")],
    lake: LakeOption = None,
) -> None:
    r"""Add a client of `strandline mcp --http`, or give one another token, which is printed once; its roles are those of its name.

    \b
    strandline mcp add-client nightly
    """
    from strandline.operate import mcp_server  # noqa: PLC0415  # see mcp

    where = _existing(lake)
    token = mcp_server.add_client(where, name)
    note(f"{name} may ask {where.root}; its token is not shown again")
    say(token)


@agents.command("remove-client")
def remove_client(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The client's name.")],
    lake: LakeOption = None,
) -> None:
    r"""Remove a client, who is refused from the next request on.

    \b
    strandline mcp remove-client nightly
    """
    from strandline.operate import mcp_server  # noqa: PLC0415  # see mcp

    where = _existing(lake)
    mcp_server.remove_client(where, name)
    say(f"{name} may not ask {where.root} any more")


@agents.command("clients")
def clients(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""List the clients of `strandline mcp --http` that have tokens of their own.

    \b
    strandline mcp clients --json
    """
    from strandline.operate import mcp_server  # noqa: PLC0415  # see mcp

    rows = [{"client": name} for name in mcp_server.clients(_existing(lake))]
    if as_json:
        emit(rows)
    else:
        show(None, ("client",), [tuple(row.values()) for row in rows])


def _bar_writes(where: Lake) -> None:
    """Let the operating system refuse all writing but to the logs, where it can: the second lock behind tools that write nothing.

    Of a lake on a store this machine keeps copies of logs, which a reader brings up to date.
    """
    logs = where.log("mcp").parent.make()
    mine = logs if where.root.is_local else where.near
    try:
        barred = bar_writes([mine.local, Path("/dev")])
    except DefinitionError:  # a kernel that bars a half of it
        barred = False
    if not barred:
        note("this machine bars no program from writing files (Landlock, Linux 6.2)")


# ``ui``: Dagster's pages and daemon for a lake, with the broker, until Ctrl-C.


EVERY = 0.5
PAGE = "/lake"
"""Where Dagster's server has the page for the lake (orchestration/strandline_dagster/webserver.py)."""
WOKEN_WITHIN = 10.0


def ui(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port on loopback; a free one when absent.")
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="Keep all tables up to date as well, as `strandline resume` does."
        ),
    ] = False,
    lake: LakeOption = None,
) -> None:
    r"""Look at the lake and operate it in the browser: start its broker, its page, Dagster's pages and daemon, until Ctrl-C stops all of it.

    The page for the lake shows all tables with their rows, lag and verdicts, each with its columns, lineage, history and quarantine,
    and finds an event; it only reads. In Dagster every table is an asset: materialise it, backfill days of it, see its checks. Runs and their logs are kept
    in the lake, in _dagster; with STRANDLINE_POSTGRES runs are kept in that database. Nothing is sent elsewhere.

    \b
    strandline ui
    strandline ui --port 3000 --stream
    """
    # Not imported above: see serve_.
    from strandline.engine.accounting.routes import topics_read  # noqa: PLC0415  # as above
    from strandline.engine.proof import daily_report  # noqa: PLC0415  # as above
    from strandline.engine.service.dagster_process import Console  # noqa: PLC0415  # as above
    from strandline.operate.stream import always  # noqa: PLC0415  # as above

    found, where = lakes.configured(lake)
    where.open_for_writing()
    asked = main.asked()
    if found.kafka is not None:
        broker.check_reachable(found.kafka, found.kafka_options)
    console = Console(where, port, database=found.postgres, note=note)
    always_on = always(found, where, "strandline ui")
    is_our_stream = stream and always_on.pid() is None
    is_ours = found.kafka is None and broker.status(where) is None
    if is_ours:
        note("starting Kafka …")
        broker.make_missing(
            broker.up(where).address, fed(catalog.tables(), where), topics_read(where)
        )
    try:
        note("starting Dagster …")
        address = console.start(asked)
        if is_our_stream and not asked.is_set():
            note("starting the stream …")
            always_on.resume()
        with daily_report.served(where, _alert_pages(found, where)):
            if address:
                also = " and the stream" if is_our_stream else ""
                _wake(address)
                say(f"the lake is at {address}{PAGE}")
                say(f"Dagster is at {address}; Ctrl-C stops it{also}")
            while not asked.wait(EVERY):
                console.refuse_ended()
    finally:
        note("stopping …")
        console.stop()  # first, because the watchdog runs in it
        if is_our_stream:
            always_on.pause("`strandline ui` was stopped")
        if is_ours:
            broker.down(where)


def _wake(address: str) -> None:
    """Let the page read the project and look at the lake, which takes seconds, before a person opens it."""
    with suppress(OSError), urllib.request.urlopen(f"{address}{PAGE}/", timeout=WOKEN_WITHIN):  # noqa: S310  # our own address
        pass


# ``notebook``: JupyterLab over a lake that cannot be written, with a tour in four notebooks.


def _alert_pages(found: Settings, where: Lake) -> "AlertPage":
    def made(day: date, alert_id: str) -> str | None:
        # Not imported above: a project of other tables has `strandline ui`, and no alerts.
        from strandline.operate.alerts.raising import alert_pages  # noqa: PLC0415  # as above

        return alert_pages(found, where)(day, alert_id)

    return made


def notebook(
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the notebooks are kept.")
    ] = Path("notebooks"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8888,
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Show it in a browser.")] = True,
    run: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Execute a notebook of the folder without a page, and keep what it shows in it; may be repeated.",
        ),
    ] = None,
    lake: LakeOption = None,
) -> None:
    r"""Open JupyterLab over the lake, with a tour: explore, why, backtest, quality.

    The notebooks of the tour are copied to the folder unless they are there. On Linux the operating system refuses
    whatever a notebook would write to the lake, by Python, DuckDB or Spark alike: it may write to its folder alone.
    Only this machine reaches the page. It is an extra: pip install 'strandline[notebook]'.

    \b
    strandline notebook
    strandline notebook --folder mine --port 9999 --no-open
    strandline notebook --run explore --run quality
    """
    # Not imported above: see serve_.
    from strandline.operate.demo import (  # noqa: PLC0415  # as above
        environment_of,
        execute,
        toured,
        writable,
    )

    found, where = screen.existing(lake)
    mine = toured(folder.absolute(), where)
    variables = environment_of(found, where, mine)
    barred = bar_writes(writable(where, mine))
    if not barred:
        note(
            "this machine has no Landlock (Linux 5.13), so nothing bars a notebook from writing files"
        )
    elif not where.root.is_local:
        note("the lake is on a store: give this session keys that may only read")
    else:
        note(f"not barred: {NOT_BARRED}")
    if run:
        for name in run:
            file = mine / f"{name}.ipynb"
            seconds = execute(file, variables)
            say(f"{file.stem}: {seconds:.1f} s")
        return
    words = [
        *("-m", "jupyterlab", str(mine), f"--port={port}", "--ip=127.0.0.1", "--allow-root"),
        # A terminal and a notebook elsewhere would be no tour of the lake.
        "--ServerApp.terminals_enabled=False",
        *([] if opens else ["--no-browser"]),
    ]
    os.execve(sys.executable, [sys.executable, *words], variables)  # noqa: S606  # the page takes this process over


# ``metrics`` and ``probe``: what programs ask of a lake, Prometheus for its figures and Kubernetes for its stream.

METRICS_PORT = 9464
"""The usual port of programs that expose metrics beside their own work."""

LOOK_EVERY, EVERY_ON_STORE = "15s", "1m"


def metrics(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; a free one for 0.")
    ] = METRICS_PORT,
    host: Annotated[
        str, typer.Option(help="Address of this machine at which to listen; loopback by default.")
    ] = HOST,
    every: Annotated[
        str | None,
        typer.Option(
            help="Time between two looks at the lake, however often it is scraped: 15s; 1m on an object store."
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the page and end.")] = False,
    lake: LakeOption = None,
) -> None:
    r"""Serve the figures of a lake for Prometheus until Ctrl-C, at /metrics: streams, lag, ledger, gates, leases, alerts.

    It needs no Spark and no broker, and changes nothing. While no stream runs, Kafka is asked for what bronze has not read.
    Alarms are brought to the receivers that STRANDLINE_ALARMS names: Slack-compatible webhooks, PagerDuty, e-mail.
    Where OTEL_EXPORTER_OTLP_ENDPOINT names a receiver of OpenTelemetry, the same figures are sent there as well.
    Where the object store does not answer, the page has within five seconds what this machine knows, and --once exits with 3.

    \b
    strandline metrics
    strandline metrics --port 9100 --every 30s
    strandline metrics --once
    """
    # Not imported above: it reads what Prometheus' client brings, for which no other verb should wait.
    from strandline.engine.kafka.slices import unread_offsets  # noqa: PLC0415  # as above
    from strandline.engine.service.metrics_page import LakeLook  # noqa: PLC0415  # as above

    found, where = lakes.configured(lake)

    def unread() -> dict[str, int]:
        return unread_offsets(
            catalog.tables(), where, lakes.address(found, where), found.kafka_options
        )

    pause = seconds(every or (LOOK_EVERY if where.root.is_local else EVERY_ON_STORE))
    look = LakeLook(catalog.tables(), where, clock.now, _noted, unread)
    with _pushed(look, where), _raising(found, where, says=not once) as raised:

        def seen() -> None:
            look.look()
            raised(look.samples(), look.unknown)

        if once:
            look.look()
            record(look.text().removesuffix("\n"))
            if look.away:
                raise SystemExit(TransientError.exit_code)
            return
        asked = main.asked()
        with look.served(host, port) as bound:
            _noted(f"metrics of {where.root} at http://{host}:{bound}/metrics; Ctrl-C stops")
            seen()
            while not asked.wait(pause):
                seen()
            main.deaf()


def _noted(text: str) -> None:
    """Print a line where that is possible: a log on a full disk must not end the page that shows it to be full."""
    with suppress(OSError):
        note(text)


@contextmanager
def _raising(
    found: Settings, where: Lake, *, says: bool
) -> "Iterator[Callable[[Sequence[Sample], Collection[Metric]], None]]":
    """Yield what brings the alarms of a look to people for the length of the block; nothing where no receiver is named."""
    if found.alarms is None or not says:
        yield lambda *_: None
        return
    # Not imported above: few lakes have receivers, and it reads YAML.
    from strandline.engine.service.alarms import Alarms, receivers  # noqa: PLC0415  # as above

    to = receivers(found.alarms.get_secret_value())
    alarms = Alarms(where, to, clock.now, _noted, runbooks=found.runbooks or "")
    _noted(f"alarms go to {', '.join(each.shown for each in to)}")
    try:
        yield alarms.look
    finally:
        alarms.end()


@contextmanager
def _pushed(look: "LakeLook", where: Lake) -> Iterator[None]:
    """Send the figures of a look to a receiver of OpenTelemetry for the length of the block, where one is configured."""
    if "metrics" not in telemetry():
        yield
        return
    refuse_without("otel")
    # Not imported above: its SDK takes a third of a second.
    from strandline.engine.service.telemetry import Pushed  # noqa: PLC0415  # as above

    pushed = Pushed(look, where, _noted)
    try:
        yield
    finally:
        pushed.end()


# ``probe``: is the stream of this container well? For Kubernetes, or what else starts programs and asks after them.


class ProgramName(StrEnum):
    """The programs that write a heartbeat."""

    STREAM = "stream"
    ALERTS = "alerts"


PROGRAMS = {ProgramName.STREAM: STREAM, ProgramName.ALERTS: ALERTS}


def probe(
    program: Annotated[ProgramName, typer.Argument(help="Which program.")],
    lake: LakeOption = None,
) -> None:
    r"""Exit with 0 if the stream, or the process that raises alerts, is well on this host, else with 3 and the reason.

    It is well while it writes its heartbeat, and no table has had rows to read for ten minutes and committed none. One that
    still starts is not well yet. The heartbeat is all that is read, so it takes a second or less.

    \b
    strandline probe stream
    strandline probe alerts
    """
    _, where = lakes.configured(lake)
    beat = refuse_ill(PROGRAMS[program], where, clock.now())
    say(f"{program}: process {beat['pid']}, last heartbeat at {beat['at']}")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.add_typer(serve, name="serve")
    app.add_typer(agents, name="mcp")
    for each in (ui, notebook, metrics, probe):
        app.command(each.__name__)(each)
