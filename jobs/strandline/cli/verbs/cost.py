"""``cost``, ``diff``: what each table took on a day, its heaviest keys and its state; what is otherwise than it was, and why."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from decimal import Decimal
from itertools import compress
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
    say,
    show,
)
from strandline.core.errors import DamagedError, DefinitionError
from strandline.engine.accounting.cost import Cost, Costs
from strandline.engine.accounting.process_lines import LINES
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.operate import lakes
from strandline.operate.audit import costs_of

if TYPE_CHECKING:
    from strandline.engine.ask.diff import AtMoment, Difference

Row = tuple[object, ...]

MEGABYTE = 1e6


def cost(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    tables: TablesArgument = None,
    day: Annotated[
        str | None,
        typer.Option(help="A day of commits in UTC: 2026-11-01, today or yesterday."),
    ] = None,
    since: Annotated[str | None, typer.Option(help="The first of several days.")] = None,
    until: Annotated[
        str | None, typer.Option(help="The day after the last; tomorrow when absent.")
    ] = None,
    keys: Annotated[
        bool,
        typer.Option(
            "--keys", help="The heaviest keys of what the newest batches of the named tables read."
        ),
    ] = False,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="With --keys: by this column instead of those of the key."
        ),
    ] = None,
    state: Annotated[
        bool, typer.Option("--state", help="What each operator of a table's stream keeps.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show what each table took on a day: seconds of a core, rows, bytes, and a price; the dearest first.

    Without --day it is the day of the newest commit. The seconds are those of a table's own batches, as each commit of the ledger
    has them: its threads and its tasks, so tables side by side add up; ``beside`` are those of its runs between them, ``apart`` those of
    rebuilds, replays and proofs. Commits of versions before have only what their process used meanwhile, neighbours included; that is shown apart, as a bound.
    Below is what the processes used on these days by the kernel's count, tables or not: compilers, garbage collection, Spark, Python, what
    nothing explains, and for how long cores were there and idle.
    Of a lake on S3 the requests are shown that these processes sent, by the table in whose folders they were.
    A price needs STRANDLINE_PRICE_CORE_HOUR, STRANDLINE_PRICE_GIGABYTE, STRANDLINE_PRICE_MILLION_READS or
    STRANDLINE_PRICE_MILLION_WRITES, as in a profile.

    --keys reads some files of the tables, and shows masked columns as hashes; --state shows what streams and runs of the day had when they
    were asked last.

    \b
    strandline cost
    strandline cost --day yesterday
    strandline cost gold.device_signal_10m --since 2026-11-01 --until 2026-11-08 --json
    strandline cost gold.device_signal_10m --keys
    strandline cost gold.confirmed_logins --keys --by user_id
    strandline cost --state
    """
    found, where = screen.existing(lake, briefly=True)
    if keys or by:
        _show_keys(where, tables or (), by or (), as_json=as_json)
        return
    costs = costs_of(where, found, tables, day=day, since=since, until=until)
    if as_json:
        emit(costs.as_json())
    elif state:
        _show_state(costs, tables)
    else:
        _show_costs(costs)
        if costs.processes and not tables:
            _show_processes(costs)
        if not tables:
            _show_rules(where)
    if costs.damaged:
        raise DamagedError(
            "\n  ".join(dict.fromkeys(each.message for each in costs.damaged)),
            hint=costs.damaged[0].hint,
        )


def _show_costs(costs: Costs) -> None:
    found = costs.tables
    days = (costs.until - costs.since).days
    when = f"{costs.since}" if days == 1 else f"{costs.since} to {costs.until}, {days} days"
    is_priced = any(costs.price(each) is not None for each in found)
    is_bounded = any(each.not_said for each in found)
    price = f"price {costs.prices.currency}".strip()
    has_beside = any(each.beside_seconds for each in found)
    is_maintained = any(each.maintain_seconds for each in found)
    has_apart = any(each.apart_seconds for each in found)
    is_on_store = any(each.requests for each in found)
    columns = (
        "table",
        "commits",
        "read",
        "written",
        "MB",
        "core s",
        "beside s",
        "maintain s",
        "apart s",
        "requests",
        "share",
        "at most s",
        price,
    )
    shown = (
        *(True,) * 6,
        has_beside,
        is_maintained,
        has_apart,
        is_on_store,
        True,
        is_bounded,
        is_priced,
    )
    rows = [
        (
            each.table,
            each.commits,
            each.read,
            each.written,
            each.bytes / MEGABYTE,
            each.core_seconds,
            each.beside_seconds,
            each.maintain_seconds,
            each.apart_seconds,
            each.requests,
            f"{costs.share(each):.0%}",
            each.most_seconds if each.not_said else None,
            f"{costs.price(each) or 0.0:.4f}",
        )
        for each in found
    ]
    say(f"the commits of {when}")
    show(None, tuple(compress(columns, shown)), [tuple(compress(row, shown)) for row in rows])
    all_of_them = sum(found, Cost(table="", day=""))
    cores, total = all_of_them.seconds, costs.price(all_of_them)
    sent = f", {_requests(all_of_them)}" if is_on_store else ""
    priced = "" if total is None else f", {total:,.4f} {costs.prices.currency}".rstrip()
    say(
        f"all tables: {cores:,.1f} core seconds, {all_of_them.bytes / MEGABYTE:,.1f} MB{sent}{priced}"
    )
    for what, seconds in (
        ("gates", sum(each.gate_seconds for each in found)),
        ("the ledger", sum(each.ledger_seconds for each in found)),
        ("maintenance", sum(each.maintain_seconds for each in found)),
        ("rebuilds, replays and proofs", sum(each.apart_seconds for each in found)),
    ):
        if seconds:
            say(f"of these, {what}: {seconds:,.1f} core seconds, {seconds / (cores or 1):.1%}")
    for each in found:
        if each.is_uneven:
            say(
                f"{each.table} waited {each.waited_seconds:,.1f} s for longest tasks: one took {each.longest_task:,.1f} s, the median one of its "
                f"stage {each.median_task:,.1f} s; `strandline cost {each.table} --keys` shows its heaviest keys"
            )
    if repaired := sum(each.repair_seconds for each in found):
        say(f"of these, repairs: {repaired:,.1f} core seconds")
    if not_said := sum(each.not_said for each in found):
        say(
            f"{not_said:,} commits of a version before do not say what was their own: `at most` is what their process used meanwhile, "
            "the tables beside them included, and is in no sum"
        )


def _requests(of: Cost) -> str:
    return f"{of.requests:,} requests ({of.reads:,} read, {of.writes:,} write, {of.lists:,} list, {of.deletes:,} remove)"


def _show_keys(where: Lake, names: Sequence[str], by: Sequence[str], *, as_json: bool) -> None:
    """Print the heaviest keys of what tables read."""
    if not names:
        raise DefinitionError(
            "--keys reads files of tables, and none is named",
            hint="name them: strandline cost gold.device_signal_10m --keys.",
        )
    tables = lakes.filled(where, names)
    from strandline.engine.ask.heavy_keys import heavy_keys  # noqa: PLC0415  # DuckDB, for this question alone

    found = [each for one in tables for each in heavy_keys(one, where, catalog.tables(), by)]
    if as_json:
        emit([asdict(each) for each in found])
        return
    for each in found:
        if not each.versions:
            why = (
                "no batch has read a row whose file is there"
                if each.by
                else "its key is none of its columns; name one with --by"
            )
            say(f"{each.table} reads {each.source}: {why}")
            continue
        some = (
            "" if each.files == each.of_files else f", in {each.files:,} of {each.of_files:,} files"
        )
        versions = " to ".join(dict.fromkeys(map(str, each.versions)))
        say(
            f"{each.table}: the heaviest keys of the newest {each.rows:,} rows that it read of {each.source} (version {versions}){some}"
        )
        rows: list[Row] = [(*key.of.values(), key.rows, f"{key.share:.1%}") for key in each.keys]
        show(None, (*each.by, "rows", "of all"), rows)
        if each.masked:
            say(f"masked: {', '.join(each.masked)}")


def _show_state(costs: Costs, names: Sequence[str] | None) -> None:
    """Print what the operators of streams keep."""
    rows: list[Row] = [
        (table, each.operator, each.rows, each.memory / MEGABYTE, each.disk / MEGABYTE, at)
        for table, (at, kept) in costs.states.items()
        if not names or table in names
        for each in kept
    ]
    say(f"what streams keep as state, as they were asked last on {costs.since}")
    show(None, ("table", "operator", "rows", "MB of memory", "MB on disk", "asked at"), rows)


def _show_processes(costs: Costs) -> None:
    """Print what the processes used, by what used it, and what nothing explains."""
    found = costs.processes
    cpu = sum(each.cpu for each in found)
    lines = [
        (words, sum(each.lines.get(name, 0.0) for each in found)) for name, words in LINES.items()
    ]
    lines += [
        ("unexplained", sum(each.unexplained for each in found)),
        ("all, as the kernel counts it", cpu),
    ]
    idle = sum(each.idle for each in found)
    rows: list[Row] = [
        (words, seconds, f"{seconds / cpu:.1%}" if cpu else "") for words, seconds in lines
    ]
    rows.append(("idle: cores that were there", idle, ""))
    say(f"the processes of these days: {len(found)}")
    show(None, ("what used them", "core s", "of all"), rows)
    sent = Cost(table="", day="")
    for each in found:
        sent.add(each.sent)
    if sent.requests:
        of_tables = sum(each.requests for each in costs.days)
        say(f"they sent {_requests(sent)}, of no table {sent.requests - of_tables:,}")


def _show_rules(where: Lake) -> None:
    """Print what rules of alerts took when a backtest measured them last; a live feed is not measured."""
    last = json.loads(where.backtest_figures.text() or "{}")
    for each in last.get("tables", ()):
        say(
            f"rules about {each['table']}: {each['rules']:,} took {each['cpu_seconds']:,.1f} core seconds for {each['events']:,} events in the last "
            "backtest; `strandline rules list --slow` shows each that is slow alone"
        )


# ``diff``: what is otherwise than it was, and which repair did it; needs no Spark.


def diff(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="Such as gold.device_daily.",
            autocompletion=screen.tables,
        ),
    ],
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="END",
            help="A version, a time in UTC, the name of a moment, or LATEST; a day ago when absent.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", metavar="END", help="Likewise; the latest version when absent."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="COLUMN",
            help="Count by the values of a column, and sum its numbers; may be given again.",
        ),
    ] = None,
    downstream: Annotated[
        bool, typer.Option("--downstream", help="Also compare the tables that read it.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="The most rows and groups that are shown.")
    ] = 20,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show which rows came, went or changed between two versions of a table, and what did it.

    An end may be a moment (`strandline moments`): its name, LATEST, a time, of which the last one until then is meant, or its number as
    'moment 17'. What each end became is shown. Where none was noted until a time, it is the version that the table had then.
    Only files that one of the two has and the other has not are read. A row that a repair wrote again with the same values is no
    change. The reason of a change is the last repair that moved the key: a backfill with its range, a replay, a promotion,
    retention, a request to forget, a late look-up in a dimension; else the table's own runs.
    With --downstream the tables above are compared as well, each at its own version of the same two moments. Sensitive values are masked.

    \b
    strandline diff gold.device_daily
    strandline diff gold.device_daily --from 12 --to 18 --by device_id
    strandline diff silver.device_telemetry --from 2026-11-26T09:00 --downstream --json
    strandline diff gold.device_daily --from month-end-october --to LATEST
    """
    # Not imported above: it leads to all that a row may have come from.
    from strandline.engine.ask.diff import Compared, differences  # noqa: PLC0415  # as above

    _, where = screen.existing(lake, briefly=True)
    first = since or (clock.now() - timedelta(days=1)).isoformat()
    asked = Compared(since=first, until=until, by=tuple(by or ()), most=limit)
    found = [*differences(catalog.find(table), where, asked, downstream=downstream)]
    if as_json:
        emit([asdict(each) for each in found])
        return
    for each in found:
        _print_difference(each)


def _print_difference(found: "Difference") -> None:
    began = f"version {found.since:,} of {found.since_at}" if found.since >= 0 else "before it was"
    began, ended = f"{began}{_by(found.since_moment)}", _by(found.until_moment)
    say(f"{found.table}, {began} to version {found.until:,} of {found.until_at}{ended}")
    if not found.moved:
        say("no row is otherwise")
        return
    say(f"{found.came:,} rows came, {found.went:,} went, {found.changed:,} changed")
    if found.columns:
        say(f"columns that changed: {named(found.columns)}")
    for each in _moves_of(found.sums):
        say(each)
    causes = [(each.what, each.commits, each.version, each.at, each.rows) for each in found.causes]
    show("what moved them", ("what", "commits", "version", "at", "rows"), causes)
    _print_groups(found)
    shown = [
        (each.what, _in_line(each.key), _in_line(each.was), _in_line(each.now), each.by)
        for each in found.rows
    ]
    if shown:
        show("rows", ("what", "key", "was", "is", "by version"), shown)
    if len(found.rows) < found.moved:
        note(f"{found.moved - len(found.rows):,} more rows; --limit shows more of them")
    if found.masked:
        note(f"masked: {', '.join(found.masked)}")


def _by(moment: "AtMoment | None") -> str:
    """Return in words by which moment a version was found."""
    if moment is None:
        return ""
    name = moment.name or moment.number
    then = "" if moment.then is None else f"; at that time it had version {moment.then:,}"
    return f" (moment {name} of {moment.at}{then})" if name else f" (a moment of {moment.at}{then})"


def _print_groups(found: "Difference") -> None:
    if not found.groups:
        return
    rows = [
        (_in_line(each.of), each.came, each.went, each.changed, "; ".join(_moves_of(each.sums)))
        for each in found.groups
    ]
    show("by value", ("of", "came", "went", "changed", "sums of these rows"), rows)
    if found.more_groups:
        note(f"{found.more_groups:,} more groups; --limit shows more of them")


def _moves_of(sums: Mapping[str, tuple[object, object]]) -> Iterator[str]:
    """Yield a sentence about each sum that is not the same."""
    for name, pair in sums.items():
        was, now = (Decimal(str(each or 0)) for each in pair)
        share = f" ({(now - was) / abs(was):+.1%})" if was else ""
        yield f"{name}: {was.normalize():,f} → {now.normalize():,f}{share}"


def _in_line(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("cost")(cost)
    app.command("diff")(diff)
