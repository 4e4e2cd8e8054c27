"""``ledger``, ``tables``, ``radar`` and ``why``: where every event is, and how long it may still be read.

``ledger`` and ``tables``: verbs that only read, and need no Spark.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import compress, groupby
from typing import Annotated

import typer
from strandline import catalog

from strandline.cli import screen
from strandline.cli.screen import (
    JsonOption,
    LakeOption,
    TablesArgument,
    emit,
    note,
    progress,
    record,
    say,
    show,
    yes,
)
from strandline.core.errors import DamagedError, DefinitionError
from strandline.core.table import Feed, Table
from strandline.engine.accounting.balance_sheet import Balance
from strandline.engine.ask.locate import World
from strandline.engine.ask.why import explain_each, why
from strandline.engine.flow.publications import published
from strandline.engine.flow.readers import URGENT, Danger, Level, last, span, worst
from strandline.engine.lake.completeness import Retirement, retired
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.operate import lakes
from strandline.operate.audit import (
    dangers_of,
    lost_words,
    notices,
    refuse_danger,
    refuse_imbalance,
    sheets_of,
    static_lines,
    table_rows,
)

SHEET = (
    "table",
    "read",
    "good",
    "duplicates",
    "quarantined",
    "skipped",
    "dropped",
    "lost",
    "made",
    "healed",
    "expired",
    "forgotten",
    "waiting",
    "balanced",
)


def _add_ledger(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("tables")(tables_)
    app.command("ledger")(ledger)
    _register_radar(app)


AuditOption = Annotated[
    bool,
    typer.Option(
        "--audit",
        help="Read every entry since the first commit, and compare with the books that were closed.",
    ),
]


def ledger(
    tables: TablesArgument = None,
    lake: LakeOption = None,
    audit: AuditOption = False,
    as_json: JsonOption = False,
) -> None:
    r"""Prove where every event is: read = good + duplicates + quarantined + skipped + dropped + lost - made, hop by hop.

    ``imported`` are the rows read that came from files and not from Kafka (`strandline import`).
    Of a topic with kinds ``read`` are the records of those that a table takes; below are those that it left to other tables, and
    for bronze those that no table takes, by kind.
    ``skipped`` are the records that a table passes over on purpose (its `skips`), named below; a record with an empty list is one
    of them (`no_items`). Where a table makes rows of a list, these are counts of records, and its rows are counted below, with the
    items that it holds by themselves (``bad_items="hold"``); of what is held the reasons count both.
    ``lost`` and ``made`` are the records for which a table's function gave no row, and the rows that it gave beyond one for
    each record: like ``dropped``, a fault where it is not 0.
    ``duplicates`` are "not looked for" where events have no id (``key=PLACE``): what was sent twice is two rows there.
    ``healed`` counts the good rows that were quarantined or dropped until a backfill or a replay brought them in.
    Exits with 4 when the sums differ, and names the batch.
    ``lost`` are offsets that expired in Kafka before they were read, and whose loss was accepted
    (`strandline accept-loss`).
    The sums of older commits were carried forward when their books were closed; ``--audit`` adds them up again.

    \b
    strandline ledger
    strandline ledger --audit
    strandline ledger silver.device_telemetry --json
    """
    _, where = screen.existing(lake, briefly=True)
    sheets = sheets_of(where, tables, audited=audit)
    if as_json:
        ended = retired(where)
        emit([_as_json(sheet, ended.get(sheet.table)) for sheet in sheets])
    else:
        print_sheets(sheets)
        for each in static_lines(where, tables):
            say(each)
        for each in published(where, tables):
            say(each)
        _say_recreated(where)
        for each in notices(where):
            say(each)
    refuse_imbalance(sheets)


def print_sheets(sheets: list[Balance]) -> None:
    """Print balance sheets, and below them the reasons of the quarantine."""
    is_shown = [name != "skipped" or any(sheet.skipped for sheet in sheets) for name in SHEET]
    rows = [tuple(compress(_row(sheet), is_shown)) for sheet in sheets]
    show(None, tuple(compress(SHEET, is_shown)), rows)
    for sheet in sheets:
        if sheet.quarantined:
            say(f"quarantined by {sheet.table}: {named(sheet.quarantined)}")
        if sheet.skipped:
            say(f"passed over by {sheet.table}: {named(sheet.skipped)}")
        if sheet.listed:
            held = (
                f", and holds {sheet.held_items:,} items by themselves" if sheet.held_items else ""
            )
            left = (
                f"; of {sheet.items:,} items it left {sheet.items_passed_over:,} out"
                if sheet.items_passed_over
                else ""
            )
            say(
                f"{sheet.table} makes a row of each item of {sheet.listed}: {sheet.rows:,} rows{held}{left}"
            )
        if sheet.lost:
            say(f"lost to {sheet.table}: {lost_words(sheet)}")
        if sheet.others:
            say(f"left to other tables by {sheet.table}: {sheet.others:,} records of other kinds")
        for each in sheet.said:
            say(each)
        if sheet.keeps_copies:
            say(f"{sheet.table} looks for no copies: its key is the place of a record (key=PLACE)")
        if sheet.imported:
            say(f"imported to {sheet.table}: {sheet.imported:,} of the rows read came from files")


def named(counts: Mapping[str, int]) -> str:
    """Return counts with their names, the largest first."""
    found = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {count:,}" for name, count in found)


def _say_recreated(where: Lake) -> None:
    """Say which topics the radar found deleted or made anew; the books end where they were read, and balance."""
    at, dangers = last(where) or ("", [])
    for each in dangers:
        if each.level is Level.LOST and each.lost is None:
            say(f"lost to {each.reader}: {each.source}, {each.says} (the radar of {at})")


def tables_(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""List the tables: what each reads, how many rows it has, when it was last written.

    Exits with 4 when one cannot be read; the others are listed.

    \b
    strandline tables
    strandline tables --json
    """
    _, where = lakes.asked(lake)
    lakes.say_newer(where, note)
    rows, damaged = table_rows(where)
    if as_json:
        emit(rows)
    else:
        show(None, tuple(rows[0]) if rows else ("table",), [tuple(row.values()) for row in rows])
    if damaged:
        raise DamagedError(
            "\n  ".join(dict.fromkeys(each.message for each in damaged)), hint=damaged[0].hint
        )


def _row(sheet: Balance) -> tuple[object, ...]:
    return (
        sheet.table,
        sheet.read,
        sheet.good,
        sheet.copies,
        sheet.held_records,
        sum(sheet.skipped.values()),
        sheet.dropped_by_watermark,
        sheet.lost_by_function,
        sheet.made_by_function,
        sheet.healed,
        sheet.expired,
        sheet.forgotten,
        sheet.waiting,
        yes(sheet.balanced),
    )


def _as_json(sheet: Balance, ended: Retirement | None) -> dict[str, object]:
    more = {"retired": ended.words} if ended else {}
    return {**sheet.figures(), "balanced": sheet.balanced, **more}


# ``radar``: for every reader, how long until something that it still needs may be gone.


COLUMNS = ("reader", "source", "unread", "oldest unread", "may go at", "state", "because")

Row = tuple[object, ...]


def _register_radar(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("radar")(radar)


def radar(
    tables: TablesArgument = None, lake: LakeOption = None, as_json: JsonOption = False
) -> None:
    r"""Show for every reader how long until something that it still needs may be gone.

    Readers of Kafka are bronze tables, feeds of alerts and receivers of notices: a record may go when it is older than
    its topic keeps records. That is the earliest moment, because a broker removes whole segments. Readers of tables are
    streams, rebuilds and look-ups; no log is cut behind them, and the radar shows what they hold back.

    safe, not known, soon (less than two days, or half of what the topic keeps), urgent (twelve hours, or a quarter),
    lost. Exits with 4 when something is urgent or lost.

    \b
    strandline radar
    strandline radar bronze.device_telemetry --json
    """
    found, where = screen.existing(lake, briefly=True)
    _refuse_unknown(tables)
    dangers = dangers_of(found, where)
    wanted = [each for each in dangers if not tables or each.reader.split(" ")[0] in tables]
    if as_json:
        emit([asdict(each) for each in wanted])
    else:
        show(None, COLUMNS, list(_rows(wanted)))
        _say_sum(wanted)
    refuse_danger(wanted)


def _refuse_unknown(names: Sequence[str] | None) -> None:
    for name in names or ():
        if not name.startswith(f"{Feed.layer}."):
            catalog.find(name)


def _rows(dangers: Sequence[Danger]) -> Iterator[Row]:
    """Yield a row for each source; the partitions of a topic of which nothing is unread share one."""
    for (reader, _), group in groupby(dangers, key=lambda each: (each.reader, _topic(each))):
        several = [*group]
        idle = [each for each in several if each.level is Level.SAFE and not each.unread]
        if len(idle) > 1:
            what = f"{_topic(idle[0])}, {len(idle)} partitions"
            yield (reader, what, 0, None, None, Level.SAFE.value, idle[0].says)
        for each in several:
            if len(idle) <= 1 or each not in idle:
                yield (
                    reader,
                    each.source,
                    each.unread,
                    each.next_at,
                    each.goes_at,
                    each.level.value,
                    each.says,
                )


def _topic(danger: Danger) -> str:
    return danger.source.rpartition("/")[0] or danger.source


def _say_sum(dangers: Sequence[Danger]) -> None:
    nearest = worst(dangers)
    if nearest is None:
        say("no reader has begun to read, so nothing can be lost")
    elif nearest.seconds is None and nearest.level is Level.SAFE:
        say("nothing that a reader needs expires")
    elif nearest.level is Level.SAFE:
        say(f"the first to go: {nearest.reader}, {nearest.source}, {nearest.says}")
    else:
        say(f"{nearest.level.value}: {nearest.reader}, {nearest.source}: {nearest.says}")
    if any(each.level is Level.SOON for each in dangers):
        note(f"a person is asked when less than {span(URGENT)} are left, or a quarter of the time")


# ``why``: one verdict for one event, and its evidence; needs no Spark.


def _add_why(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("why")(why_)


def why_(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="EVENT",
            help="TOPIC/PARTITION/OFFSET, with /ITEM for one item of a list, or the value of a table's key; several columns separated by commas. "
            "Several events, or - for one a line of the standard input, get a line each.",
        ),
    ],
    table: Annotated[
        str | None,
        typer.Option(
            "--in",
            metavar="TABLE",
            autocompletion=screen.tables,
            help="The silver or gold table in which it is missing; the one that judges it when absent.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Do not search the records of bronze for a key; answer unknown instead."
        ),
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Explain why an event is in a table, or why it is not: one verdict, with its evidence.

    The verdicts: never produced, expired before it was read, not a record, not read yet, waiting behind a shut
    gate, quarantined, late, early, duplicate, dropped by the watermark, no match in the static table, join partner
    absent, window still open, left out by the table's function, in the table, replaced by a backfill,
    unaccounted for where the lake contradicts itself, and unknown where not everything could be searched.

    \b
    strandline why device-telemetry/2/1234
    strandline why evt-0001 --in silver.device_telemetry
    strandline why user-actions/0/17 --in gold.confirmed_logins --json
    strandline why dev-00042,temperature,2026-11-01T06:00 --in gold.device_signal_10m
    strandline why --quick - < places.txt
    """
    found, where = screen.existing(lake, briefly=True)
    asked = catalog.find(table) if table else None
    world = World(
        lake=where,
        now=clock.now(),
        address=lakes.address(found, where),
        options=found.kafka_options,
        search=not quick,
        progress=progress,
    )
    if what == ["-"] or len(what) > 1:
        _explain_each(_lines_of_input() if what == ["-"] else iter(what), asked, world, as_json)
        return
    finding = why(what[0], asked, world)
    if as_json:
        emit({"event": what[0], **asdict(finding)})
        return
    say(f"{finding.table}: {finding.verdict}")
    say(f"{finding.sentence}.")
    show(None, ("evidence", ""), list(_lines(finding.evidence)))


def _explain_each(
    events: Iterator[str],
    table: Table | None,
    world: World,
    as_json: bool,  # noqa: FBT001  # it has one call, which names it
) -> None:
    """Print a line for each event, and to a person how many have each verdict."""
    verdicts: Counter[str] = Counter()
    for event, finding in explain_each(events, table, world):
        verdicts[finding.verdict] += 1
        if as_json:
            record(json.dumps({"event": event, **asdict(finding)}, default=str))
        else:
            record(f"{event}\t{finding.table}\t{finding.verdict}\t{finding.sentence}")
    if not verdicts:
        raise DefinitionError(
            "no event was named on the standard input",
            hint="give it one a line, such as device-telemetry/2/1234; an empty line is passed over.",
        )
    for verdict, count in verdicts.most_common():
        note(f"{count:,} {verdict}")


def _lines_of_input() -> Iterator[str]:
    return (text for line in sys.stdin if (text := line.strip()))


def _lines(evidence: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield a line for each value of the evidence."""
    for name, value in evidence.items():
        if isinstance(value, Mapping):
            yield from _lines(value, f"{prefix}{name}.")
        elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
            for number, each in enumerate(value):
                yield from _lines(each, f"{prefix}{name}.{number}.")
        elif isinstance(value, list) and value:
            yield f"{prefix}{name}", ", ".join(map(str, value))
        elif value not in (None, []):
            yield f"{prefix}{name}", str(value)


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _add_ledger(app)
    _add_why(app)
