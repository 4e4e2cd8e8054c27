"""``serve``: let dashboards and analysts ask the lake's tables over JDBC and ODBC."""

import getpass
import sys
from pathlib import Path
from typing import Annotated

import typer
from strandline import catalog

from strandline.cli import place, stopping
from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, is_terminal, note, say, show
from strandline.core.errors import DefinitionError
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock, processes
from strandline.engine.runtime.settings import settings
from strandline.engine.service import sql_server
from strandline.operate.words import seconds

LOOPBACK = ("127.0.0.1", "localhost", "::1")
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


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(serve, name="serve")


@serve.callback(help=HELP)
def serve_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    context: typer.Context,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than loopback needs TLS.")
    ] = LOOPBACK[0],
    port: Annotated[
        int | None, typer.Option(help="Port; 10000, or a free one, when absent.")
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option("--tls-cert", metavar="FILE", help="Certificate with its chain, PEM."),
    ] = None,
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
    asked = stopping.asked()
    _, where = place.existing(lake)
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
        stopping.deaf()
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
    where = _existing(lake)
    sql_server.remove(where, name)
    say(f"{name} may not ask {where.root} any more")


@serve.command("users")
def users(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""List the users, and why some see sensitive columns.

    \b
    strandline serve users --json
    """
    known = sql_server.users(_existing(lake))
    rows = [{"user": name, "unmasked": each["unmasked"]} for name, each in known.items()]
    if as_json:
        emit(rows)
    else:
        show(None, ("user", "unmasked"), [tuple(row.values()) for row in rows])


def _existing(lake: str | None) -> Lake:
    return place.existing(lake)[1]


def _refuse_open_door(host: str, certificate: Path | None, key: Path | None) -> None:
    """Refuse passwords on a network in the clear, and a certificate that cannot be read.

    Raises:
        DefinitionError: There is no TLS for an address other than loopback, or half of it.
    """
    if (certificate is None) != (key is None):
        raise DefinitionError(
            "TLS needs a certificate and its key", hint="name both: --tls-cert FILE --tls-key FILE."
        )
    if certificate is None and host not in LOOPBACK:
        raise DefinitionError(
            f"{host} is no loopback, and passwords would cross the network in the clear",
            hint="add --tls-cert FILE --tls-key FILE, or leave --host out.",
        )
    for file in (certificate, key):
        if file is not None and not Place.of(file).is_file():
            raise DefinitionError(f"there is no file {file}", hint="name a file in PEM.")
