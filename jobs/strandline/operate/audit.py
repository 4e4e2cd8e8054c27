"""May the numbers be believed? Published rows are audited, tables verified and compared, days reported; what is found is refused.

What needs half of the engine is imported where it is asked for: most questions are answered from logs alone, in less time than that
import takes.
"""

import importlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from strandline import catalog

from strandline.core.errors import DamagedError, DataError, DefinitionError
from strandline.core.static import Static
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting import cost, gate_files
from strandline.engine.accounting.balance_sheet import (
    LIVE,
    UNSOUGHT,
    Balance,
    balance,
    feed_balances,
    held_rows,
)
from strandline.engine.accounting.gate_files import GateShutError, Where
from strandline.engine.accounting.routes import listed, remedy, said, undeclared
from strandline.engine.flow.readers import (
    Danger,
    Level,
    TopicReader,
    bronze_reader,
    keep,
    table_dangers,
    topic_dangers,
    topic_readers,
)
from strandline.engine.kafka.topic_log import WAY
from strandline.engine.lake import static_versions
from strandline.engine.lake.completeness import fed, retired
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.open_table import live_rows
from strandline.engine.lake.place import Place, damage
from strandline.engine.proof.certificate import Certificate, status
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.operate import lakes
from strandline.operate.listener import Says
from strandline_infra import installation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strandline.engine.accounting.history_queries import Past
    from strandline.engine.proof.compare import Audit, Comparison
    from strandline.engine.proof.daily_report import Period
    from strandline.engine.repair.closed_range import Span
    from strandline_quality.findings import Findings


def audited_tables(names: Sequence[str] | None, lake: Lake) -> list[Table]:
    """Return the named tables; all of silver and gold that exist when none is named.

    Raises:
        DefinitionError: A named one is of bronze or does not exist, or none exists at all.
    """
    if names:
        chosen = lakes.named(names)
        for table in chosen:
            _refuse_received(table)
            lake.refuse_missing(table)
        return chosen
    found: list[Table] = [
        each for each in lakes.named(None) if not isinstance(each, Ingested) and lake.exists(each)
    ]
    if not found:
        raise DefinitionError(
            f"no silver or gold table exists in {lake.root} yet",
            hint="fill the lake first: `strandline produce`, then `strandline run`.",
        )
    return found


def _refuse_received(table: Table) -> None:
    if isinstance(table, Ingested):
        raise DefinitionError(
            f"{table.id} is as received; there is nothing to audit",
            hint="name a silver or gold table.",
            table=table.id,
        )


def refuse_unbelieved(
    spark: "SparkSession", table: Table, lake: Lake, span: "Span", says: Says
) -> None:
    """Audit rows that replaced others.

    Raises:
        GateShutError: A critical expectation failed; the gate behind the rows is shut.
    """
    from strandline.engine.proof.compare import audit  # noqa: PLC0415  # see the module's docstring

    found = audit(spark, table, lake, clock.now, span)
    says(f"{table.id}: {verdict(found)}")
    refuse_critical(table, lake, found)


def refuse_critical(table: Table, lake: Lake, found: "Audit") -> None:
    """Refuse rows that an audit found critical faults in, and behind which the gate is shut.

    Raises:
        GateShutError: It is.
    """
    shut = gate_files.shut(table, lake, Where.BEHIND)
    if found.critical and shut is not None:
        raise GateShutError.of_rows(shut)


def published(tables: Sequence[Table], lake: Lake, audits: "Sequence[Audit]") -> Path | None:
    """Write the pages of Great Expectations, whose import takes seconds; None where it is not installed."""
    if not installation.is_installed("quality"):
        return None
    from strandline.engine.proof.compare import expected  # noqa: PLC0415  # as above

    library = importlib.import_module("strandline_quality.suite")
    asked = [
        library.Asked(
            table=table.id,
            expected=expected(table),
            findings=found.findings,
        )
        for table, found in zip(tables, audits, strict=True)
    ]
    page: Path = library.publish(lake.docs.local, asked, clock.now())
    return page


def verdict(found: "Audit") -> str:
    """Return in words what an audit found."""
    failed = [each for each in found.findings if not each.holds]
    if not failed:
        return f"as expected, by {len(found.findings)} expectations"
    return "; ".join(f"{each.name}: {each.says}" for each in failed)


# Which tables are verified or compared, and differences refused, with the ways to look into them.


def refuse_different(certificates: Iterable[Certificate], seed: int) -> None:
    """Refuse certificates with differences.

    Raises:
        DataError: One has some.
    """
    failed = [each for each in certificates if not each.equal]
    if failed:
        different = [each.table for each in failed]
        raise DataError(
            f"{', '.join(different)}: the live rows are not those that bronze implies",
            hint=f"the same cuts and kills again: `strandline verify --all --seed {seed}`. {_way(failed)}",
            tables=different,
        )


def refuse_other_than_computed(certificates: Iterable[Certificate]) -> None:
    """Refuse rows that another engine does not compute.

    Raises:
        DataError: There are some.
    """
    different = [each.table for each in certificates if not each.equal]
    if different:
        raise DataError(
            f"{', '.join(different)}: the live rows are not those that the SELECT gives by another engine",
            hint=f"`strandline verify {different[0]}` says whether Spark's own batch and stream agree; where they do, the fault is "
            "in what both have, or DuckDB reads a word of the SELECT otherwise.",
            tables=different,
        )


def _way(failed: Sequence[Certificate]) -> str:
    """Return where to look: which way depends on whose rows are missing."""
    held = [one.table for one in failed if any(_of_quarantine(line) for line in one.differences)]
    first = failed[0].table
    books = (
        f"`strandline ledger {first}` names rows that were lost or dropped, `strandline why` follows one of those shown "
        f"above, and `strandline preflight {first}` says whether its code has changed since"
    )
    anew = (
        f"`strandline rebuild {first}` makes the rows anew beside the live ones, and shows what would change "
        "(infra/docs/rebuild.md)"
    )
    ways = [books, anew]
    if held:
        ways.append(
            "rows that only the quarantine has are held by rules that have changed since: "
            f"`strandline quarantine replay {held[0]} --dry-run` shows which would come, and when"
        )
    return ". ".join(f"{way[:1].upper()}{way[1:]}" for way in ways) + "."


def _of_quarantine(line: str) -> bool:
    return line.partition(":")[0].startswith("quarantine.")


def all_derived(lake: Lake) -> list[Table]:
    """Return the silver and gold tables that exist in a lake and are fed.

    Raises:
        DefinitionError: None does.
    """
    found: list[Table] = [
        table
        for table in fed(catalog.tables(), lake)
        if not isinstance(table, Ingested) and lake.exists(table)
    ]
    if not found:
        raise DefinitionError(
            f"there is nothing to verify in {lake.root} yet",
            hint="fill the lake first: `strandline produce`, then `strandline run`.",
        )
    return found


def named_derived(names: Sequence[str] | None) -> list[Table]:
    """Return the named silver and gold tables.

    Raises:
        DefinitionError: One is of bronze, or none is named.
    """
    chosen = lakes.named(names) if names else []
    bronze = [table.id for table in chosen if isinstance(table, Ingested)]
    if bronze or not chosen:
        raise DefinitionError(
            f"{', '.join(bronze)}: bronze is the reference for all other tables"
            if bronze
            else "no table was named",
            hint="name silver or gold tables, or give --all.",
        )
    return chosen


def compared(
    first: str, second: str, says: Says, *, without: Collection[str] = ()
) -> "list[Comparison]":
    """Compare silver, quarantine and gold of two lakes row for row.

    Args:
        first: A lake's folder or address.
        second: Another lake's.
        says: Hears which tables are in one of them only.
        without: Columns that are left out.

    Raises:
        DefinitionError: They have no such table in common.
    """
    from strandline.engine.proof.compare import compare  # noqa: PLC0415  # as above

    left, right = Lake(Place.of(first)), Lake(Place.of(second))
    derived = [table for table in catalog.tables() if not isinstance(table, Ingested)]
    shared = [table for table in derived if left.exists(table) and right.exists(table)]
    if not shared:
        raise DefinitionError(
            f"{left.root} and {right.root} have no silver or gold table in common",
            hint="name two lakes in which the same tables were run.",
        )
    for table in derived:
        if left.exists(table) != right.exists(table):
            says(f"{table.id} is in one of the lakes only and is not compared")
    return [result for table in shared for result in compare(table, left, right, without=without)]


def refuse_unlike(found: "Sequence[Comparison]") -> None:
    """Refuse lakes that differ.

    Raises:
        DataError: They do.
    """
    different = [one.table for one in found if not one.equal]
    if different:
        raise DataError(
            f"the lakes differ in {', '.join(different)}",
            hint="were they filled from the same topic, up to the same offset? `strandline ledger`.",
        )


# The report of a day or of several: gathered, written to the lake, and refused where the numbers cannot be trusted.


def report_of(
    lake: Lake,
    *,
    day: str | None = None,
    since: str | None = None,
    until: str | None = None,
    writes: bool = True,
) -> "Findings":
    """Gather the findings of the named day or days of a lake.

    Args:
        lake: The lake.
        day: The day, or ``today`` or ``yesterday``; the newest when nothing is named.
        since: The first of several.
        until: The day after the last.
        writes: Whether the lake's history is brought up to date; else it is read on from where it is.

    Raises:
        DefinitionError: They are no days, or nothing was written yet.
    """
    from strandline.engine.accounting.commit_history import catch_up, read_on  # noqa: PLC0415  # as above
    from strandline.engine.accounting.history_queries import Past  # noqa: PLC0415  # as above
    from strandline.engine.proof.daily_report import gather  # noqa: PLC0415  # as above

    tables = lakes.filled(lake)
    if writes:
        catch_up(lake, tables)
    past = Past(lake) if writes else read_on(lake, tables)
    return gather(lake, tables, _period(lake, tables, day, since, until, past), past=past)


def refuse_untrusted(found: "Findings") -> None:
    """Refuse findings that cannot be trusted.

    Raises:
        DataError: The numbers cannot be trusted.
    """
    if not found.verdict.is_trusted:
        raise DataError(
            found.sentence.rstrip("."),
            hint="the page gives the reason, table by table; `strandline ledger` proves where every row is.",
            verdict=str(found.verdict),
        )


def _period(  # noqa: PLR0913, PLR0917  # of which lake, and the words as they were typed
    lake: Lake,
    tables: list[Table],
    day: str | None,
    since: str | None,
    until: str | None,
    past: "Past | None",
) -> "Period":
    from strandline.engine.proof.daily_report import Period, newest_day  # noqa: PLC0415  # as above

    now = clock.now()
    if (since or until) and not day and not (since and until):
        raise DefinitionError(
            "a range has two ends, and one was given",
            hint="give --since and --until, or --day.",
        )
    named = lakes.days(now.date(), day, since, until)
    if named:
        return Period(since=named[0], until=named[1], now=now)
    chosen = newest_day(tables, lake, past) or now.date()
    return Period(since=chosen, until=chosen + lakes.DAY, now=now)


def costs_of(  # noqa: PLR0913  # which tables of which days, and what is paid
    lake: Lake,
    found: Settings,
    names: Sequence[str] | None = None,
    *,
    day: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> cost.Costs:
    """Return what tables took on the named day or days; without one the day of their newest commit."""
    tables, today = lakes.filled(lake, names), clock.now().date()
    first, last = lakes.days(today, day, since, until) or (None, None)
    if first is None or last is None:
        first = cost.newest_day(lake, tables) or today
        last = first + lakes.DAY
    return cost.costs(lake, tables, first, last, cost.Prices.said_in(found))


def write_report(found: "Findings", lake: Lake, to: Path | None = None) -> Place:
    """Write the page, to the lake by default; a reader sees the old one or the new one.

    Raises:
        DefinitionError: It cannot be written there.
    """
    from strandline_quality.page import page  # noqa: PLC0415  # as above

    return written(page(found), Place.of(to) if to else lake.report(found.since[:10]))


def written(text: str, file: Place) -> Place:
    """Write a page whole, and return its file.

    Raises:
        DefinitionError: It cannot be written there.
    """
    try:
        file.put(text)
    except OSError as error:
        raise DefinitionError(
            f"the page cannot be written to {file}: {error.strerror}",
            hint="name another file with --to.",
            file=str(file),
        ) from error
    return file


def near(page: Place, lake: Lake) -> Place:
    """Return the page as a file of this machine, which a browser opens."""
    if page.is_local:
        return page
    copy = lake.near / page.below(lake.root)
    copy.put_bytes(page.bytes() or b"")
    return copy


# Where every event is: the balance sheets of a lake and their faults, a row for each table, and how long every reader still has.


def sheets_of(
    where: Lake, names: Sequence[str] | None = None, *, audited: bool = False
) -> list[Balance]:
    """Return the balance sheets of the tables that exist.

    Raises:
        DefinitionError: None of them exists.
    """
    live = [name for name in names or () if name.startswith(f"{LIVE}.")]
    others = [name for name in names or () if name not in live]
    sheets = [] if live and not others else lakes.filled(where, others or None)
    return [
        *(balance(table, where, audited=audited) for table in sheets),
        *(
            sheet
            for sheet in feed_balances(where, audited=audited)
            if not names or sheet.table in live
        ),
    ]


def refuse_imbalance(sheets: list[Balance]) -> None:
    """Refuse sheets that do not balance.

    Raises:
        DataError: One does not; each fault is named with its batch.
        DamagedError: All that do balance, and others cannot be read.
    """
    damaged = [sheet.damage for sheet in sheets if sheet.damage is not None]
    if damaged and all(sheet.damage is not None for sheet in sheets if sheet.faults):
        raise DamagedError(
            "\n  ".join(dict.fromkeys(each.message for each in damaged)),
            hint=damaged[0].hint,
            tables=[sheet.table for sheet in sheets if sheet.damage is not None],
        )
    faults = [f"{sheet.table}: {fault}" for sheet in sheets for fault in sheet.faults]
    if faults:
        raise DataError(
            "the ledger does not balance:\n  " + "\n  ".join(faults),
            hint="no other program may write these folders; compare with `strandline run --mode batch` "
            "into another lake and `strandline compare`.",
            faults=faults,
        )


def notices(where: Lake) -> Iterator[str]:
    """Yield a sentence for each table that is fed no more, and for each topic and each cluster that one has left.

    None of a topic of a damaged table.
    """
    for name, ended in retired(where).items():
        yield f"retired: {name}, which is read and no longer fed, by {ended.words}"
    if names := undeclared(where):
        yield f"declared by no module: {listed(names)}, in the lake all the same; {remedy(names[0])}"
    for table in catalog.tables():
        if isinstance(table, Ingested) and where.exists(table):
            try:
                yield from said(table, where)
            except Exception as error:
                if damage(error, table) is None:
                    raise


def lost_words(sheet: Balance) -> str:
    """Return which offsets expired before they were read."""
    count = sum(end - first for ranges in sheet.lost.values() for first, end in ranges)
    listed = ", ".join(
        f"{part} offsets {first} to {end - 1}"
        for part, ranges in sheet.lost.items()
        for first, end in ranges
    )
    return f"{count:,} offsets that expired in Kafka unread ({listed})"


def table_rows(where: Lake) -> tuple[list[dict[str, object]], list[DataError]]:
    """Return a row for each table, and why some cannot be read; those have an empty one."""
    rows, damaged = [], list[DataError]()
    tables, ended = catalog.tables(), retired(where)
    gates = gate_files.summaries(tables, where)
    statics = {static.id: static for table in tables for static in table.static}
    for each in (*tables, *statics.values()):
        try:
            row = (
                _static_row(each, where)
                if isinstance(each, Static)
                else _row(each, where, is_retired=each.id in ended, gate=gates[each.id])
            )
        except Exception as error:
            found = damage(error, each)
            if found is None:
                raise
            damaged.append(found)
            row = _damaged_row(each)
        rows.append(row)
    return rows, damaged


def static_lines(where: Lake, names: Sequence[str] | None = None) -> Iterator[str]:
    """Yield for each table what it is joined with: the version of each static table, and how many rows lie before the first."""
    for table in catalog.tables():
        if not table.static or not where.exists(table) or (names and table.id not in names):
            continue
        newest = last_entry(where.table(table))
        before = sums_of(where.table(table)).before_static
        for each in table.static:
            at = newest[1].static.get(each.id) if newest else None
            rows = before.get(each.id, 0)
            more = (
                f", and {rows:,} rows that it has read lie before the first version" if rows else ""
            )
            yield f"joined to {table.id}: {each.id}, {_version_said(each, where, at)}{more}"


def _version_said(static: Static, where: Lake, version: int | None) -> str:
    if not version:
        return "of which there was no version"
    try:
        found = last_entry(where.table(static), version)
    except DataError as error:
        return f"version {version}, of which nothing more is known: {error.message}"
    if found is None:
        return f"version {version}"
    return f"version {found[0]}, which holds {static_versions.holds_said(found[1].holds_from)}"


def _static_row(static: Static, where: Lake) -> dict[str, object]:
    """Return the row of a static table: its source, and its newest version."""
    newest = static_versions.newest(static, where)
    return {
        **_of_static(static),
        "rows": static_versions.rows_of(static, where, newest[0]) if newest else 0,
        "version": newest[0] if newest else None,
        "mode": newest[1].mode if newest else "never run",
    }


def _of_static(static: Static) -> dict[str, object]:
    """Return the columns of that row in their order, with what the declaration says."""
    none = dict.fromkeys(("rows", "quarantined", "copies", "version", "mode"))
    return {
        "table": static.id,
        "reads": static_versions.source_said(static),
        **none,
        **dict.fromkeys(("watermark", "certificate", "gate")),
    }


def _row(table: Table, where: Lake, *, is_retired: bool, gate: str) -> dict[str, object]:
    newest = last_entry(where.table(table))
    mode = newest[1].mode if newest else "never run"
    return {
        "table": table.id,
        "reads": ", ".join(map(str, (*table.reads, *table.static))),
        "rows": live_rows(where.table(table)),
        "quarantined": held_rows(table, where) if isinstance(table, Judged) else None,
        "copies": _copies(table),
        "version": newest[0] if newest else None,
        "mode": "retired" if is_retired else mode,
        "watermark": newest[1].watermark if newest else None,
        "certificate": None if isinstance(table, Ingested) else status(table, where),
        "gate": gate,
    }


def _copies(table: Table) -> str | None:
    """Return whether a table looks for copies of events; None of one that reads judged rows or judges none."""
    if not isinstance(table, Judged):
        return None
    return UNSOUGHT if table.keeps_copies else "left out"


def _damaged_row(table: Table | Static) -> dict[str, object]:
    """Return the same of a table that cannot be read."""
    if isinstance(table, Static):
        return {**_of_static(table), "mode": "damaged"}
    none = dict.fromkeys(("rows", "quarantined"))
    reads = ", ".join(map(str, (*table.reads, *table.static)))
    last = dict.fromkeys(("watermark", "certificate", "gate"))
    own = {"copies": _copies(table), "version": None, "mode": "damaged"}
    return {"table": table.id, "reads": reads, **none, **own, **last}


# How long every reader of a lake still has, what was seen kept for the report, and what a person must act on now refused.


ALERTS = "bronze.alerts"


def dangers_of(found: Settings, where: Lake, *, keeps: bool = True) -> list[Danger]:
    """Look at all readers of a lake, and keep what was found for its report, unless nothing is to be written.

    Raises:
        DefinitionError: No broker is known.
        TransientError: None answers.
    """
    readers = [*topic_readers(where), *_receivers(where)]
    dangers = table_dangers(where)
    if readers:
        address = lakes.demanded_address(found, where)
        dangers = [
            *topic_dangers(readers, address, found.kafka_options, clock.now()),
            *dangers,
        ]
    if keeps:
        keep(where, dangers, clock.now())
    return dangers


def dangers_to(table: Ingested, found: Settings, where: Lake) -> list[Danger]:
    """Look for how long Kafka keeps what one bronze table has not read; no other reader of the lake is looked at.

    Raises:
        DefinitionError: No broker is known.
        TransientError: None answers.
    """
    reader = bronze_reader(table, where)
    if not reader.positions:
        return []
    address = lakes.demanded_address(found, where)
    return topic_dangers([reader], address, found.kafka_options, clock.now())


def refuse_danger(dangers: Sequence[Danger]) -> None:
    """Refuse what a person must act on now.

    Raises:
        DataError: Something is lost, or will be soon.
    """
    alarming = [each for each in dangers if each.level.is_alarming]
    if not alarming:
        return
    lost = [each for each in alarming if each.level is Level.LOST]
    what = "records are gone that were not read" if lost else "unread records may soon be gone"
    raise DataError(
        f"{what}:\n  " + "\n  ".join(f"{e.reader}, {e.source}: {e.says}" for e in alarming),
        hint=_hint(lost, alarming),
        readers=sorted({each.reader for each in alarming}),
    )


def _hint(lost: Sequence[Danger], alarming: Sequence[Danger]) -> str:
    renamed = [each for each in lost if each.lost is None]
    if renamed:
        return WAY
    if lost:
        return f'`strandline accept-loss {lost[0].reader} --because "…"` records that, and it goes on (infra/runbooks/lost.md).'
    return (
        f"let {alarming[0].reader} read (`strandline status`), or let its topic keep records for longer "
        "(infra/runbooks/expiring.md)."
    )


def _receivers(where: Lake) -> Iterator[TopicReader]:
    """Yield the receivers of notices; they read the topic of alerts, go on where a record is gone, and count it."""
    from strandline.engine.service.condition import stored_offsets  # noqa: PLC0415  # as above

    alerts = next((table for table in catalog.tables() if table.id == ALERTS), None)
    topics = alerts.topics if alerts else ()
    for topic in topics:
        for receiver, offsets in stored_offsets(where):
            positions = {(topic.name, number): at for number, at in offsets.items()}
            yield TopicReader(name=f"notices to {receiver}", positions=positions, stops=False)
