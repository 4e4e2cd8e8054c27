"""``produce`` and ``demo``: events of play, with the options that the play of the project has."""

import inspect
import json
import shlex
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.tree import Tree
from strandline import catalog

from strandline.catalog import Play, PlayOption
from strandline.cli.screen import JsonOption, LakeOption, as_typed, draw, emit, note, progress, say
from strandline.cli.verbs.ledger import print_sheets
from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting.balance_sheet import Balance
from strandline.engine.kafka.send_records import Sent
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock
from strandline.operate import lakes
from strandline.operate.audit import refuse_imbalance
from strandline.operate.demo import Asked, Truth, filled, refuse_untruth, send
from strandline.operate.lakes import seconds

EventsOption = Annotated[
    int, typer.Option(min=1, help="Records to send, duplicates and dirty ones included.")
]
UntilOption = Annotated[
    datetime | None, typer.Option(help="Last arrival, UTC; the start of this hour when absent.")
]
RateOption = Annotated[
    float | None,
    typer.Option(min=0.001, help="Events a second; as fast as possible when absent."),
]
TruthOption = Annotated[
    Path | None, typer.Option(help="File for the expected counts of each table.")
]
MakeTopicsOption = Annotated[
    bool,
    typer.Option(
        "--make-topics",
        help="Create topics that a cluster of STRANDLINE_KAFKA lacks; on the lake's own broker that is done anyhow.",
    ),
]


def _add_produce(app: typer.Typer) -> None:
    """Add the verb, with the options of the play; where that cannot be read, whatever is typed is answered by the reason."""
    try:
        found = catalog.play()
    except DefinitionError as error:
        lenient = {"ignore_unknown_options": True, "allow_extra_args": True}
        app.command("produce", context_settings=lenient)(_refused(error))
        return
    app.command("produce")(_verb(found))


def produce(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    events: EventsOption = 100_000,
    until: UntilOption = None,
    rate: RateOption = None,
    truth: TruthOption = None,
    make_topics: MakeTopicsOption = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    **options: object,
) -> None:
    r"""Send the project's play events to its topics, and print the counts that its tables must have of them.

    The events are those of `play.py` in the project's package, which has the options between --rate and --truth. A topic that
    a table has read and that was deleted is never made anew.

    \b
    strandline produce --events 500000 --truth truth.json
    strandline produce --rate 200 --events 12000
    """
    found, where = lakes.configured(lake)
    address = lakes.demanded_address(found, where)
    asked = Asked(
        events=events,
        until=_utc(until) or clock.now().replace(minute=0, second=0, microsecond=0),
        rate=rate,
        options={name: _given(value) for name, value in options.items()},
        truth=truth is not None,
        makes_topics=make_topics or found.kafka is None,
    )
    _refuse_unwritable(truth)
    with progress("events sent", events) as advance:
        sent, expected = send(catalog.play(), asked, where, address, found.kafka_options, advance)
    if truth is not None:
        truth.write_text(json.dumps(expected.as_dict(), indent=2) + "\n")
    if as_json:
        emit({"events": sent.events, "seconds": sent.seconds, **expected.as_dict()})
        return
    _print(sent, expected, truth)


def _verb(found: Play) -> Callable[..., None]:
    """Return the verb as typer wants it: a function with an argument for each option."""

    def verb(**given: object) -> None:
        produce(**given)  # type: ignore[arg-type]  # typer has converted each

    own = list(inspect.signature(produce).parameters.values())
    common = [each for each in own if each.kind is not inspect.Parameter.VAR_KEYWORD]
    at = next(number for number, each in enumerate(common) if each.name == "truth")
    arguments = [*common[:at], *map(_argument, found.options), *common[at:]]
    verb.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]  # what inspect asks for first
    verb.__annotations__ = {each.name: each.annotation for each in arguments}
    verb.__doc__ = produce.__doc__
    return verb


def _argument(option: PlayOption) -> inspect.Parameter:
    is_number, is_span = option.kind in {int, float}, option.kind is timedelta
    shown = typer.Option(
        help=option.about,
        min=option.low if is_number else None,
        max=option.high if is_number else None,
        parser=_span if is_span else None,
        metavar="<time>" if is_span else None,
    )
    kind = option.kind if option.default is not None else option.kind | None
    return inspect.Parameter(
        option.name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=option.default,
        annotation=Annotated[kind, shown],
    )


def _refused(error: DefinitionError) -> Callable[[], None]:
    def verb() -> None:
        raise error

    verb.__doc__ = produce.__doc__
    return verb


def _span(text: str | timedelta) -> timedelta:
    return text if isinstance(text, timedelta) else timedelta(seconds=seconds(text))


def _print(sent: Sent, expected: Truth, truth: Path | None) -> None:
    speed = sent.events / sent.seconds if sent.seconds else 0.0
    say(f"{sent.events:,} events sent in {sent.seconds:.1f} s ({speed:,.0f} a second)")
    for table, counts in (expected.tables or {}).items():
        held = sum(counts.quarantined.values())
        say(
            f"{table} must get {counts.good:,} good, {counts.duplicates:,} duplicates, {held:,} held"
        )
    if truth is not None:
        say(f"all expected counts are in {truth}")


def _given(value: object) -> object:
    return _utc(value) if isinstance(value, datetime) else value


def _utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=clock.now().tzinfo) if moment else None


def _refuse_unwritable(truth: Path | None) -> None:
    if truth is None:
        return
    try:
        truth.touch()
    except OSError as error:
        raise DefinitionError(
            f"the expected counts cannot be written to {truth}: {error.strerror}",
            hint="choose a file in a folder that exists and is yours.",
        ) from error


# ``demo``: from nothing to 100,000 events accounted for.


# A picture of the lake: from each topic through the tables, with rows and lag.


def picture(lake: Lake, found: Sequence[Balance]) -> Tree:
    """Draw the lake; a table that reads several others is drawn below the first and named below the rest."""
    tables = catalog.tables()
    sheets = {sheet.table: sheet for sheet in found}
    whole = Tree(escape(str(lake.root)))
    drawn: set[str] = set()
    for bronze in (table for table in tables if isinstance(table, Ingested)):
        topics = " + ".join(topic.name for topic in bronze.topics)
        _draw(whole.add(f"topic {escape(topics)}"), bronze, sheets, drawn)
    return whole


def _draw(above: Tree, table: Table, sheets: dict[str, Balance], drawn: set[str]) -> None:
    if table.id in drawn:
        above.add(f"{table.id} [dim](see above)[/dim]")
        return
    drawn.add(table.id)
    here = above.add(_line(table, sheets.get(table.id)))
    for reader in catalog.tables():
        if table in reader.upstream:
            _draw(here, reader, sheets, drawn)


def _line(table: Table, sheet: Balance | None) -> str:
    if sheet is None:
        return f"{table.id} [dim]never run[/dim]"
    parts = [f"{sheet.rows:,} rows"]
    if isinstance(table, Judged):
        parts.append(f"{sum(sheet.quarantined.values()):,} held")
    if not isinstance(table, Ingested):
        parts.append(f"lag {sheet.waiting:,}")
    return f"[bold]{table.id}[/bold] {', '.join(parts)}"


DemoLakeOption = Annotated[
    str | None,
    typer.Option("--lake", metavar="<path>", help="The demo's own lake; .lake/demo when absent."),
]


def _add_demo(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("demo")(demo)


def demo(
    events: Annotated[int, typer.Option(min=1, help="Records to send.")] = 100_000,
    lake: DemoLakeOption = None,
) -> None:
    r"""Send the project's play events through an empty lake, and account for each.

    Begins with an empty lake and a broker of its own each time, and stops the broker at the end. The events are those of `play.py`
    in the project's package; what that expects of the tables is compared with the ledger.

    \b
    strandline demo
    strandline demo --events 1000000
    """
    found = catalog.play()
    began = time.monotonic()
    where, truth, sheets = filled(lake, lambda *to: _send(found, events, *to), note)
    print_sheets(sheets)
    refuse_imbalance(sheets)
    refuse_untruth(sheets, truth)
    say("")
    draw(picture(where, sheets))
    say("")
    took = time.monotonic() - began
    say(f"balanced: {truth.events:,} events, each in exactly one place, in {took:.0f} s")
    _what_next(where, sheets)


def _send(found: Play, events: int, where: Lake, address: str) -> Truth:
    until = clock.now().replace(minute=0, second=0, microsecond=0)
    asked = Asked(events=events, until=until, options={}, makes_topics=True)
    with progress("events sent", events) as advance:
        sent, truth = send(found, asked, where, address, {}, advance)
    note(f"{sent.events:,} events sent in {sent.seconds:.1f} s")
    if not sent.is_whole:
        raise KeyboardInterrupt
    return truth


def _what_next(where: Lake, sheets: Sequence[Balance]) -> None:
    lake = f"--lake {shlex.quote(_short(where.root))}"
    with_rows = {sheet.table for sheet in sheets if sheet.good}
    silver = [
        each.id for each in catalog.tables() if each.layer is Layer.SILVER and each.id in with_rows
    ]
    program = as_typed()
    say("\ntry next:")
    if silver:
        say(f'  {program} query {lake} "FROM {silver[0]} LIMIT 5"')
    say(f"  {program} verify {lake} --all")
    say(f"  {program} up {lake} && {program} stream {lake} --every 1s")


def _short(root: Place) -> str:
    """Return a lake's path as one would type it here."""
    if not root.is_local or not root.local.is_relative_to(Path.cwd()):
        return str(root)
    return str(root.local.relative_to(Path.cwd()))


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _add_produce(app)
    _add_demo(app)
