"""``verify``, ``check``, ``compare``, ``report``, ``history`` and ``diff``: may the numbers be believed, and why are they others?"""

import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from strandline import catalog

from strandline.cli import screen
from strandline.cli.screen import (
    SINCE,
    UNTIL,
    JsonOption,
    LakeOption,
    TablesArgument,
    emit,
    note,
    say,
    show,
    yes,
)
from strandline.cli.verbs.ledger import named
from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.core.topic import PLACE
from strandline.engine.accounting import commit_history
from strandline.engine.accounting.balance_sheet import UNSOUGHT
from strandline.engine.accounting.history_queries import MOST, Batch, Mark, Past, marks
from strandline.engine.ask.diff import Compared, Difference, differences
from strandline.engine.lake.completeness import refuse_retired
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.compare import Audit, Comparison, as_record, audit
from strandline.engine.proof.verify import Certificate, Trial, refuse_unsettled, verify
from strandline.engine.repair import closed_range
from strandline.engine.runtime import clock
from strandline.operate import lakes, session
from strandline.operate.audit import (
    all_derived,
    audited_tables,
    compared,
    named_derived,
    near,
    published,
    refuse_critical,
    refuse_different,
    refuse_other_than_computed,
    refuse_unlike,
    refuse_untrusted,
    report_of,
    verdict,
    write_report,
)
from strandline_infra import installation


class Instrument(StrEnum):
    """What recomputes tables beside Spark."""

    DUCKDB = "duckdb"


def _add_verify(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("verify")(verify_)


def verify_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE", help="Silver or gold tables.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every silver and gold table of the lake.")
    ] = False,
    splits: Annotated[
        int, typer.Option(min=1, help="Number of micro-batches into which the log is cut.")
    ] = 5,
    kills: Annotated[
        int, typer.Option(min=0, help="How often the stream is killed with kill -9.")
    ] = 2,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the cuts and kills; random, and printed, when absent."),
    ] = None,
    since: Annotated[str | None, typer.Option(help=SINCE)] = None,
    until: Annotated[str | None, typer.Option(help=UNTIL)] = None,
    by: Annotated[
        Instrument | None,
        typer.Option(
            help="Recompute tables in SQL by another engine, from what each reads, without Spark."
        ),
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Recompute tables from bronze, as one batch and as a stream that is killed, and compare row for row.

    Works in a scratch folder of the lake and writes only certificates, which `strandline tables` shows.
    With --by duckdb the SELECT of a table in SQL is computed by DuckDB from the rows of the tables that it reads.
    Exits with 4 when a row differs.

    \b
    strandline verify gold.device_signal_10m
    strandline verify --all --splits 5 --kills 2 --seed 7
    strandline verify gold.ip_holds --since 2026-11-01 --until 2026-11-02
    strandline verify gold.orders_10m --by duckdb
    """
    found, where = screen.existing(lake)
    chosen = all_derived(where) if everything else named_derived(tables)
    for each in chosen:
        refuse_retired(each, where)
    if by is Instrument.DUCKDB:
        _by_another_engine(chosen, where, is_ranged=bool(since or until), as_json=as_json)
        return
    refuse_unsettled(chosen, where)
    span = closed_range.both(since, until, "neither to compare all rows")
    trial = Trial(splits=splits, kills=kills, span=span, **({} if seed is None else {"seed": seed}))
    note(f"seed {trial.seed}; starting Spark …")
    site = session.site(found, where, None, is_brief=True, says=note)
    certificates = verify(chosen, where, trial, site, note=note)
    site.spark.stop()
    if as_json:
        emit([asdict(each) for each in certificates])
    else:
        _print(certificates)
    refuse_different(certificates, trial.seed)


def _by_another_engine(
    tables: Sequence[Table], lake: Lake, *, is_ranged: bool, as_json: bool
) -> None:
    """Recompute tables in SQL by DuckDB, and print what it found."""
    # Not imported above: sqlglot, which writes a SELECT for DuckDB, takes a fifth of a second.
    from strandline.engine.proof.second_engine import recompute  # noqa: PLC0415  # as above

    if is_ranged:
        raise DefinitionError(
            "DuckDB compares all rows, and a range was given",
            hint="leave --since and --until out, or --by.",
        )
    certificates = [recompute(each, lake, clock.now, note) for each in tables]
    if as_json:
        emit([asdict(each) for each in certificates])
    else:
        columns = ("table", "rows", "version", "code", "by", "not compared", "equal")
        rows = [
            (
                each.table,
                each.rows,
                each.versions[each.table],
                each.code,
                each.instrument,
                ", ".join(each.without),
                yes(each.equal),
            )
            for each in certificates
        ]
        show("certificates", columns, rows)
        for line in (line for each in certificates for line in each.differences):
            say(line)
    refuse_other_than_computed(certificates)


def _print(certificates: list[Certificate]) -> None:
    columns = ("table", "rows", "splits", "kills", "seed", "version", "code", "equal")
    rows = [
        (
            each.table,
            each.rows,
            each.splits,
            each.kills,
            each.seed,
            each.versions[each.table],
            each.code,
            yes(each.equal),
        )
        for each in certificates
    ]
    show("certificates", columns, rows)
    for each in certificates:
        for line in each.differences:
            say(line)


# ``check``: audit the published rows.


DOCS = "quality"
CHECKED = ("table", "expectation", "severity", "holds", "found")


def _add_check(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("check")(check_)


def check_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    tables: TablesArgument = None,
    since: Annotated[str | None, typer.Option(help=SINCE)] = None,
    until: Annotated[str | None, typer.Option(help=UNTIL)] = None,
    docs: Annotated[
        bool,
        typer.Option(
            "--docs",
            help="Add the run to Great Expectations' own pages, its Data Docs: the extra quality.",
        ),
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Audit the rows of silver and gold: rules, duplicate keys, references, sums of the ledger.

    A critical finding shuts the gate behind the rows: the tables above stop before their next batch. The exit code
    is then 4. When a later audit finds nothing, the gate opens by itself.

    \b
    strandline check
    strandline check silver.device_telemetry --since 2026-11-01 --until 2026-11-02
    strandline check --docs
    """
    found, where = screen.existing(lake)
    span = closed_range.both(since, until, "neither to audit all rows")
    chosen = audited_tables(tables, where)
    note("starting Spark …")
    site = session.site(found, where, None, is_brief=True, says=note)
    audits = []
    for table in chosen:
        audits.append(audit(site.spark, table, where, site.clock, span))
        note(f"{table.id}: {verdict(audits[-1])}")
    site.spark.stop()
    if docs:
        page = published(chosen, where, audits)
        note(f"Data Docs: {page or f'none without their extra: {installation.command(DOCS)}'}")
    if as_json:
        emit([as_record(each) for each in audits])
    else:
        show(None, CHECKED, [row for each in audits for row in _rows(each)])
    for table, each in zip(chosen, audits, strict=True):
        refuse_critical(table, where, each)


def _rows(found: Audit) -> list[tuple[object, ...]]:
    return [
        (found.table, each.name, each.severity.value, yes(each.holds), each.says)
        for each in found.findings
    ]


# ``compare``: two lakes, row for row, without Spark.


def _add_compare(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("compare")(compare_)


def compare_(
    first: Annotated[str, typer.Argument(metavar="LAKE", help="A lake's folder or address.")],
    second: Annotated[
        str, typer.Argument(metavar="LAKE", help="Another lake's folder or address.")
    ],
    without_places: Annotated[
        bool,
        typer.Option(
            "--without-places",
            help="Leave out partitions and offsets, where one lake was filled from files.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    r"""Compare silver, quarantine and gold of two lakes row for row; exits with 4 when they differ.

    \b
    strandline compare .lake /tmp/second-opinion
    strandline compare .lake ../from-files --without-places
    """
    found = compared(first, second, note, without=PLACE if without_places else ())
    if as_json:
        emit([{**asdict(one), "equal": one.equal} for one in found])
    else:
        _print_comparison(found)
    refuse_unlike(found)


def _print_comparison(found: list[Comparison]) -> None:
    columns = ("table", "rows", "rows there", "only here", "only there", "equal")
    show(
        None,
        columns,
        [
            (
                one.table,
                one.left_rows,
                one.right_rows,
                one.only_left,
                one.only_right,
                yes(one.equal),
            )
            for one in found
        ],
    )
    for one in found:
        for sample in one.samples:
            say(f"{one.table} {sample}")


# ``report`` and ``history``: may the numbers be believed, and what is usual?
#
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
    found = report_of(where, day=day, since=since, until=until)
    file = write_report(found, where, to) if to or not as_json else None
    if as_json:
        emit(found.as_json())
    elif file:
        say(found.sentence)
        for why in found.because:
            say(f"  {why}")
        say(f"the page: {file}")
    if opens and file:
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
    _, where = screen.existing(lake)
    chosen = lakes.filled(where, tables)
    commit_history.catch_up(where, chosen)
    past = Past(where)
    shown = [_table(table, past, last) for table in chosen]
    if as_json:
        emit([_as_json(batch, found) for batches, found in shown for batch in batches])
        return
    for table, (batches, found) in zip(chosen, shown, strict=True):
        show(table.id, USUAL, [_row(table, batch, found) for batch in batches])
        say("")


def _table(table: Table, past: Past, count: int) -> tuple[list[Batch], list[Mark]]:
    known = past.last(table, MOST + count)
    return known[-count:], marks(known[-count:], known[:-count])


def _row(table: Table, batch: Batch, found: Sequence[Mark]) -> tuple[object, ...]:
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


def _as_json(batch: Batch, found: Sequence[Mark]) -> dict[str, object]:
    own = [{**asdict(m), "said": m.said} for m in found if m.version == batch.version]
    return {**asdict(batch), "drift": own}


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
            metavar="VERSION",
            help="A version, or a moment in UTC such as 2026-11-26T09:00; a day ago when absent.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", metavar="VERSION", help="Likewise; the latest when absent."),
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

    Only files that one of the two has and the other has not are read. A row that a repair wrote again with the same values is no
    change. The reason of a change is the last repair that moved the key: a backfill with its range, a replay, a promotion,
    retention, a request to forget, a late look-up in a dimension; else the table's own runs.
    With --downstream the tables above are compared as they were at the moments of the two versions. Sensitive values are masked.

    \b
    strandline diff gold.device_daily
    strandline diff gold.device_daily --from 12 --to 18 --by device_id
    strandline diff silver.device_telemetry --from 2026-11-26T09:00 --downstream --json
    """
    _, where = screen.existing(lake, briefly=True)
    first = since or (clock.now() - timedelta(days=1)).isoformat()
    asked = Compared(since=first, until=until, by=tuple(by or ()), most=limit)
    found = [*differences(catalog.find(table), where, asked, downstream=downstream)]
    if as_json:
        emit([asdict(each) for each in found])
        return
    for each in found:
        _print_difference(each)


def _print_difference(found: Difference) -> None:
    began = f"version {found.since:,} of {found.since_at}" if found.since >= 0 else "before it was"
    say(f"{found.table}, {began} to version {found.until:,} of {found.until_at}")
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


def _print_groups(found: Difference) -> None:
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
    _add_verify(app)
    _add_check(app)
    _add_compare(app)
    _add_report(app)
    app.command("diff")(diff)
