"""``ledger``, ``tables``, ``radar``, ``why``, ``who``, ``report``, ``history``: where every event is, who did what, may it be believed.

All are verbs that only read, and need no Spark.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import compress, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from strandline import catalog

from strandline.cli import screen
from strandline.cli.screen import (
    JsonOption,
    LakeOption,
    TablesArgument,
    emit,
    named,
    note,
    progress,
    record,
    say,
    show,
    yes,
)
from strandline.core.errors import DamagedError, DefinitionError
from strandline.core.table import Feed, Table
from strandline.engine.accounting.balance_sheet import UNSOUGHT, Balance
from strandline.engine.flow.publications import published
from strandline.engine.flow.readers import URGENT, Danger, Level, last, span, worst
from strandline.engine.lake.completeness import Retirement, retired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import one_look
from strandline.engine.lake.order_log import Asked, Order, roles_of
from strandline.engine.runtime import clock
from strandline.engine.runtime.roles import Role
from strandline.operate import lakes
from strandline.operate.audit import (
    dangers_of,
    lost_words,
    near,
    notices,
    refuse_danger,
    refuse_imbalance,
    refuse_untrusted,
    report_of,
    sheets_of,
    static_lines,
    table_rows,
    write_report,
)
from strandline.operate.orders import orders_of, since_of

if TYPE_CHECKING:
    from strandline.engine.accounting.history_queries import Batch, Mark
    from strandline.engine.ask.locate import World

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
    with one_look():
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
    with one_look():
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

    Who may not unmask asks by no key that is masked, and no masked payload is searched for one.

    \b
    strandline why device-telemetry/2/1234
    strandline why evt-0001 --in silver.device_telemetry
    strandline why user-actions/0/17 --in gold.confirmed_logins --json
    strandline why dev-00042,temperature,2026-11-01T06:00 --in gold.device_signal_10m
    strandline why --quick - < places.txt
    """
    # Not imported above, because no other verb here looks for an event.
    from strandline.engine.ask.locate import World  # noqa: PLC0415  # as above
    from strandline.engine.ask.why import why  # noqa: PLC0415  # as above

    found, where = screen.existing(lake, briefly=True)
    asked = catalog.find(table) if table else None
    world = World(
        lake=where,
        now=clock.now(),
        address=lakes.address(found, where),
        options=found.kafka_options,
        search=not quick,
        progress=progress,
        sees_masked=roles_of(where).allows(clock.login(), Role.UNMASK),
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
    world: "World",
    as_json: bool,  # noqa: FBT001  # it has one call, which names it
) -> None:
    """Print a line for each event, and to a person how many have each verdict."""
    from strandline.engine.ask.why import explain_each  # noqa: PLC0415  # see why_

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


# ``who``: the log of orders, the newest first.


ORDERED = ("when", "who", "what", "of", "how", "why")


def _add_who(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("who")(who)


def who(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE",
            help="Only orders that name it, also within a question.",
            autocompletion=screen.tables,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Only since then: 2026-11-01, 2026-11-01T06:00 in UTC, or 7d."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="PERSON", help="Only those of this person or service.")
    ] = None,
    last_: Annotated[int, typer.Option("--last", min=1, help="How many at most.")] = 50,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show who changed or revealed what in the lake, the newest first: orders, and questions that were answered unmasked.

    An order is written down before it is done, and how it ended after it: one without an end runs, or was killed. Orders of
    Dagster's runs are among them, with the run. `strandline forget` goes through them, too.

    \b
    strandline who
    strandline who silver.user_actions --since 7d
    strandline who --by ann --json
    """
    _, where = screen.existing(lake, briefly=True)
    found = orders_of(where, Asked(since=since_of(since), by=by, table=table, last=last_))
    if as_json:
        emit([{**asdict(each), "state": each.state} for each in found.orders])
    elif found.orders:
        show(None, ORDERED, [_ordered_row(each) for each in found.orders])
    else:
        say("no such order was written down")
    if found.unread:
        note(f"{found.unread:,} lines of the log cannot be read")


SHOWN = 80
"""Characters of what was asked that a row has; --json has all that is kept."""


def _ordered_row(each: Order) -> tuple[object, ...]:
    named = dict(each.asked)
    texts = [named.pop(name) for name in ("sql", "python") if name in named]
    more = [f"{name}={value}" for name, value in named.items() if value != "True"]
    flags = [f"--{name}" for name, value in named.items() if value == "True"]
    of = " ".join([*each.tables, *texts, *flags, *more])
    how = f"{each.state}: {each.message}" if each.message else each.state
    at = each.at[:19].replace("T", " ")
    return at, each.who, each.verb, _short(of), _short(how), _short(each.why)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


# ``report``: may the numbers be believed? One page for people, the same data for programs.


def _add_report(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("report")(report)
    _register_history(app)


def report(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    day: Annotated[
        str | None,
        typer.Option(
            help="A day of commits: 2026-11-01, today or yesterday; in UTC, and of a table of local days in its zone."
        ),
    ] = None,
    since: Annotated[str | None, typer.Option(help="The first of several days.")] = None,
    until: Annotated[str | None, typer.Option(help="The day after the last.")] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write the page; in the lake when absent."),
    ] = None,
    opens: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Report whether the numbers of a day can be trusted, and why: one HTML file that needs nothing else.

    Without --day it is the last day with a commit. Sensitive columns are masked. With --json the same data is
    printed, and a file is written only with --to. Exits with 4 when the numbers cannot be trusted; the page is
    written in any case.

    \b
    strandline report
    strandline report --day yesterday --to trust.html
    strandline report --since 2026-11-01 --until 2026-11-08 --json
    """
    _, where = screen.existing(lake, briefly=True)
    with one_look():
        found = report_of(where, day=day, since=since, until=until)
    file = write_report(found, where, to) if to or not as_json else None
    if as_json:
        emit(found.as_json())
    elif file:
        say(found.sentence)
        for why in found.because:
            say(f"  {why}")
        for each in found.revisions:
            say(f"  {each.sentence}")
        if found.as_of is not None:
            say(found.as_of.sentence)
        say(f"the page: {file}")
    if opens and file:
        import webbrowser  # noqa: PLC0415  # it imports what starts programs

        webbrowser.open(near(file, where).local.as_uri())
    refuse_untrusted(found)


# ``history``: the last batches of each table, and their anomalies.


USUAL = ("version", "at", "mode", "read", "good", "copies", "held", "late by", "ms", "drift")


def _register_history(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("history")(history_)


def history_(
    tables: TablesArgument = None,
    last: Annotated[
        int, typer.Option(min=1, max=1000, help="How many batches of each table to show.")
    ] = 10,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show the last batches of each table: volumes, shares, delays, anomalies.

    First brings the lake's history up to date from the ledgers. It is the Delta table quality/history inside the
    lake: one row per figure. A volume or share is compared with the same hour of the week, or with all hours while
    that one has fewer than 14 batches; before there are 14 batches nothing is marked.

    \b
    strandline history
    strandline history silver.device_telemetry --last 30
    strandline history --json
    """
    # Not imported above: what is usual is asked of a table of the lake, by DuckDB.
    from strandline.engine.accounting import commit_history  # noqa: PLC0415  # as above
    from strandline.engine.accounting.history_queries import MOST, Past, marks  # noqa: PLC0415  # as above

    _, where = screen.existing(lake)
    chosen = lakes.filled(where, tables)
    with one_look():
        commit_history.catch_up(where, chosen)
    past = Past(where)
    shown = [
        (known[-last:], marks(known[-last:], known[:-last]))
        for _, known in past.last_of(chosen, MOST + last)
    ]
    if as_json:
        emit([_usual_json(batch, found) for batches, found in shown for batch in batches])
        return
    for table, (batches, found) in zip(chosen, shown, strict=True):
        show(table.id, USUAL, [_usual_row(table, batch, found) for batch in batches])
        say("")


def _usual_row(table: Table, batch: "Batch", found: Sequence["Mark"]) -> tuple[object, ...]:
    copies = batch.value("share:duplicates")
    late = batch.values.get("freshness_s")
    return (
        batch.version,
        f"{batch.at:%Y-%m-%d %H:%M:%S}",
        batch.mode,
        int(batch.value("read")),
        int(batch.value("good")),
        UNSOUGHT if table.keeps_copies and not copies else f"{copies:.1%}",
        f"{batch.value('share:quarantined'):.1%}",
        "" if late is None else f"{late:,.0f} s",
        int(batch.value("duration_ms")),
        "; ".join(mark.said for mark in found if mark.version == batch.version),
    )


def _usual_json(batch: "Batch", found: Sequence["Mark"]) -> dict[str, object]:
    own = [{**asdict(m), "said": m.said} for m in found if m.version == batch.version]
    return {**asdict(batch), "drift": own}


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _add_ledger(app)
    _add_who(app)
    _add_why(app)
    _add_report(app)
