"""Count the records of each kind that come to bronze, by the kind that was written beside each.

The files that were just written are asked, by DuckDB, apart from the streams that will part the records: so bronze counts what it
has, and a table what it reads (jobs/strandline/engine/accounting/routes.py compares the two). To count 50,000 records takes a
few milliseconds, because only one column is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from strandline.core.routes import KIND, KIND_BY, REST, AllBut, declared_now, found_now, kinds_named
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting.routes import takers_of
from strandline.engine.lake.commit.delta_commit import Written
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import added_file
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.log.ledger_sums import MOST_KINDS
from strandline.engine.lake.log.log_actions import file_of
from strandline.engine.lake.read.duckdb_table import Peek, literal, peek_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """The records of each kind in a commit of bronze, as its entry has them."""

    kinds: dict[str, int] = field(default_factory=dict)
    unrouted: dict[str, int] = field(default_factory=dict)
    unrouted_more: int = 0
    kindless: int = 0


def with_kinds(records: DataFrame, table: Ingested) -> DataFrame:
    """Give records the columns of bronze with their kind and its declaration, where the topics have kinds."""
    if not table.has_kinds:
        return records
    by = table.kind_by
    return records.withColumns({KIND: found_now(by), KIND_BY: declared_now(by)})


def kinds_in(table: Ingested, lake: Lake, written: Written) -> Kinds:
    """Count the records of each kind in files that were just written: of kinds that a table takes, and of others."""
    if not table.has_kinds or written.is_empty:
        return Kinds()
    path, takers = lake.table(table), takers_of(table, lake)
    peeked = peek_files([file_of(path, added_file(each)) for each in written.files], "records")
    ((every, has_kind),) = peeked.ask(f"SELECT count(*), count({KIND}) FROM records")  # noqa: S608  # our own names
    known = [*dict.fromkeys([*kinds_taken(takers), *_kept_from_rest(takers)])]
    found = _by_kind(peeked, known)
    commonest = {} if takes_rest(takers) else _by_kind(peeked, known, others=True)
    return shared_out(
        takers,
        {**found, **commonest},
        kindless=int(str(every)) - int(str(has_kind)),
        all_kinds=int(str(has_kind)),
    )


def with_kinds_gone(entry: Entry, rows: DataFrame, table: Table, lake: Lake) -> Entry:
    """Say in the entry of a removal of which kinds the rows are that go, as far as no table takes these.

    What tables take is counted on: they have read it.

    Args:
        entry: The entry.
        rows: The rows of bronze that go.
        table: Their table.
        lake: Its lake.
    """
    if not isinstance(table, Ingested) or not table.has_kinds:
        return entry
    counted = rows.where(F.col(KIND_BY) == declared_now(table.kind_by))
    by_kind = counted.groupBy(KIND).count().collect()
    known = {str(row[KIND]): int(row["count"]) for row in by_kind if row[KIND] is not None}
    kindless = sum(int(row["count"]) for row in by_kind if row[KIND] is None)
    gone = shared_out(
        takers_of(table, lake), known, kindless=kindless, all_kinds=sum(known.values())
    )
    return replace(
        entry,
        unrouted={kind: -n for kind, n in gone.unrouted.items()},
        unrouted_more=-gone.unrouted_more,
        kindless=-gone.kindless,
    )


def shared_out(
    takers: Sequence[Judged], found: dict[str, int], *, kindless: int, all_kinds: int
) -> Kinds:
    """Return how many records came of each kind that a table takes, of others, and without one.

    Args:
        takers: The tables that take kinds of them.
        found: The records by kind: of all that a table names, and of the commonest others.
        kindless: The records without a kind.
        all_kinds: Those with one.
    """
    taken = {kind: found.get(kind, 0) for kind in kinds_taken(takers)}
    others = {kind: rows for kind, rows in found.items() if kind not in taken}
    if takes_rest(takers):
        kept_from_rest = _kept_from_rest(takers)
        others = {kind: rows for kind, rows in others.items() if kind in kept_from_rest}
        taken[REST] = all_kinds - sum(taken.values()) - sum(others.values())
    named = sorted(others, key=lambda kind: (-others[kind], kind))[:MOST_KINDS]
    others = {kind: others[kind] for kind in named}
    more = all_kinds - sum(taken.values()) - sum(others.values())
    return Kinds(kinds=taken, unrouted=others, unrouted_more=more, kindless=kindless)


def kinds_taken(takers: Sequence[Judged]) -> list[str]:
    """Return the kinds that tables name to take."""
    return sorted({kind for each in takers for kind in kinds_named(each.takes)})


def takes_rest(takers: Sequence[Judged]) -> bool:
    """Return whether a table takes all other kinds."""
    return any(isinstance(each.takes, AllBut) for each in takers)


def _kept_from_rest(takers: Sequence[Judged]) -> set[str]:
    """Return the kinds that the table of all others leaves out."""
    rest = [each.takes for each in takers]
    return {kind for each in rest if isinstance(each, AllBut) for kind in each.others}


def _by_kind(peeked: Peek, kinds: Sequence[str], *, others: bool = False) -> dict[str, int]:
    """Count the records of some kinds, or of the commonest others."""
    among = f"IN ({', '.join(map(literal, kinds))})" if kinds else "IS NULL"
    rows = peeked.ask(
        f"""
        SELECT {KIND}, count(*) AS rows FROM records
        WHERE {KIND} IS NOT NULL AND {"NOT" if others else ""} ({KIND} {among})
        GROUP BY {KIND} ORDER BY rows DESC, {KIND} LIMIT {MOST_KINDS if others else len(kinds)}
        """  # noqa: S608  # our own names and literals
    )
    return {str(kind): int(str(count)) for kind, count in rows}
