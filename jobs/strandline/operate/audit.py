"""May the numbers be believed? Published rows are audited, tables verified and compared, days reported; what is found is refused."""

import importlib
from collections.abc import Collection, Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path

from pyspark.sql import SparkSession
from strandline import catalog

from strandline.core.errors import DataError, DefinitionError
from strandline.core.table import Ingested, Table
from strandline.engine.gates import gate_files
from strandline.engine.gates.gate_files import GateShutError, Where
from strandline.engine.lake.completeness import fed
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.compare import Audit, Comparison, audit, compare, expected
from strandline.engine.proof.daily_report import Period, gather, newest_day
from strandline.engine.proof.verify import Certificate
from strandline.engine.repair.closed_range import Span
from strandline.engine.runtime import clock
from strandline.operate import lakes
from strandline.operate.listener import Says
from strandline_infra import installation
from strandline_quality.report.findings import Findings
from strandline_quality.report.page import page


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
    spark: SparkSession, table: Table, lake: Lake, span: Span, says: Says
) -> None:
    """Audit rows that replaced others.

    Raises:
        GateShutError: A critical expectation failed; the gate behind the rows is shut.
    """
    found = audit(spark, table, lake, clock.now, span)
    says(f"{table.id}: {verdict(found)}")
    refuse_critical(table, lake, found)


def refuse_critical(table: Table, lake: Lake, found: Audit) -> None:
    """Refuse rows that an audit found critical faults in, and behind which the gate is shut.

    Raises:
        GateShutError: It is.
    """
    shut = gate_files.shut(table, lake, Where.BEHIND)
    if found.critical and shut is not None:
        raise GateShutError.of_rows(shut)


def published(tables: Sequence[Table], lake: Lake, audits: Sequence[Audit]) -> Path | None:
    """Write the pages of Great Expectations, whose import takes seconds; None where it is not installed."""
    if not installation.is_installed("quality"):
        return None
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


def verdict(found: Audit) -> str:
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
) -> list[Comparison]:
    """Compare silver, quarantine and gold of two lakes row for row.

    Args:
        first: A lake's folder or address.
        second: Another lake's.
        says: Hears which tables are in one of them only.
        without: Columns that are left out.

    Raises:
        DefinitionError: They have no such table in common.
    """
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


def refuse_unlike(found: Sequence[Comparison]) -> None:
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


DAY = timedelta(days=1)


def report_of(
    lake: Lake, *, day: str | None = None, since: str | None = None, until: str | None = None
) -> Findings:
    """Gather the findings of the named day or days of a lake.

    Raises:
        DefinitionError: They are no days, or nothing was written yet.
    """
    tables = lakes.filled(lake)
    return gather(lake, tables, _period(lake, tables, day, since, until))


def refuse_untrusted(found: Findings) -> None:
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


def _period(
    lake: Lake, tables: list[Table], day: str | None, since: str | None, until: str | None
) -> Period:
    now = clock.now()
    if day and (since or until):
        raise DefinitionError(
            "--day names one day, --since and --until several", hint="give one or the other."
        )
    if since or until:
        if not (since and until):
            raise DefinitionError(
                "a range has two ends, and one was given",
                hint="give --since and --until, or --day.",
            )
        first, last = _day("--since", since, now.date()), _day("--until", until, now.date())
        if first >= last:
            raise DefinitionError(
                f"the range is empty: {since} is not before {until}",
                hint="--until is the day after the last.",
            )
        return Period(since=first, until=last, now=now)
    chosen = _day("--day", day, now.date()) if day else newest_day(tables, lake) or now.date()
    return Period(since=chosen, until=chosen + DAY, now=now)


def _day(option: str, text: str, today: date) -> date:
    named = {"today": today, "yesterday": today - DAY}
    try:
        return named[text] if text in named else date.fromisoformat(text)
    except ValueError as error:
        raise DefinitionError(
            f"{option} {text!r} is no day", hint="write it like 2026-11-01, or today, or yesterday."
        ) from error


def write_report(found: Findings, lake: Lake, to: Path | None = None) -> Place:
    """Write the page, to the lake by default; a reader sees the old one or the new one.

    Raises:
        DefinitionError: It cannot be written there.
    """
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
