"""What the records of a table have beside its declaration: which fields, since when, in which share, and what is said of it.

It is counted batch by batch, in the entry of each commit (jobs/strandline/core/drift.py), and carried forward with the other sums: no reader
reads years of entries for it. What today's code of the table has not met is left out: it is declared by now, or comes no more.

Values are in no ledger. An example is the record's place in Kafka, and is looked up in bronze when it is asked for, so that what was
forgotten or has expired is no example any more.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from strandline.core.drift import NEW_FIELD, WRONG_TYPE, difference
from strandline.core.table import Judged, Table
from strandline.engine.lake.files.damage import damage
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table, last_entry
from strandline.engine.lake.log.ledger_sums import Drift, sums_of

SELDOM = 0.01
"""A value of another type in fewer records than this share is dirt, which the quarantine shows; in more, the producer has changed."""

SMALLEST = 0.001
"""Smaller shares are not written out."""

FEW = 3
"""So many fields are named in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A field that is not declared, or one whose values are of another type.

    Args:
        path: Where it is in the payload.
        declared: The type that is declared there; empty for a field that is not.
        kinds: What JSON has there, the commonest first: the records that have it.
        since: The arrival of the first such record, as text.
        places: The places of examples in Kafka, one of each kind.
        share: The share of records that have it, among those that were looked at since it came.
    """

    path: str
    declared: str
    kinds: dict[str, int] = field(default_factory=dict)
    since: str
    places: tuple[str, ...]
    share: float

    @property
    def is_new(self) -> bool:
        """Return whether it is not declared."""
        return not self.declared

    @property
    def records(self) -> int:
        """Return how many records have it; one with values of two kinds counts for both."""
        return sum(self.kinds.values())

    def __str__(self) -> str:
        """Return it as it is named in a sentence."""
        kinds = " or ".join(self.kinds)
        if self.is_new:
            return f"{self.path} ({kinds}, {_percent(self.share)})"
        return f"{self.path} ({kinds} for {self.declared}, {_percent(self.share)})"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= SMALLEST else f"below {SMALLEST:.1%}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the records of a table have beside its declaration.

    Args:
        table: The table's one name.
        looked_at: The records that were looked at.
        fields: The fields, those that are not declared first, then by their share.
        more: How often records had something that is not named.
        code: The code of the table that looked last.
        why_not: Why nothing can be seen; empty where it can.
    """

    table: str
    looked_at: int = 0
    fields: tuple[Beside, ...] = ()
    more: int = 0
    code: str = ""
    why_not: str = ""

    def among(self, since: str | None) -> "Seen":
        """Return only what came since a moment, as text."""
        kept = tuple(each for each in self.fields if since is None or each.since >= since)
        return Seen(
            table=self.table,
            looked_at=self.looked_at,
            fields=kept,
            more=self.more,
            code=self.code,
            why_not=self.why_not,
        )


def seen_by(table: Judged, lake: Lake) -> Seen:
    """Return what the records of a table had beside its declaration, from its ledger."""
    path = lake.table(table)
    return seen_in(sums_of(path).drift if is_table(path) else Drift(), table)


def seen_in(drift: Drift, table: Judged) -> Seen:
    """Return the same from the sums of its ledger."""
    if not table.sees_drift:
        formats = (
            "its topics are no JSON of plain records, and nothing else says what is not declared"
        )
        return Seen(table=table.id, why_not=formats)
    if not drift.looked_at:
        return Seen(
            table=table.id,
            why_not="no batch has looked so far: it looks from its next one on, where its function selects *CARRIED",
        )
    found = sorted(_fields(drift), key=lambda each: (not each.is_new, -each.share, each.path))
    return Seen(
        table=table.id,
        looked_at=drift.looked_at,
        fields=tuple(found),
        more=drift.more,
        code=drift.code,
    )


def fields_by_kind(drift: Drift, table: Table) -> Iterator[tuple[str, int]]:
    """Yield how many fields are not declared, and how many have values of another type; nothing where none can be seen."""
    if isinstance(table, Judged) and table.sees_drift:
        found = seen_in(drift, table).fields
        new = sum(each.is_new for each in found)
        yield from ((NEW_FIELD, new), (WRONG_TYPE, len(found) - new))


def _fields(drift: Drift) -> Iterator[Beside]:
    by_field: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for line, noticed in drift.lines.items():
        if noticed.is_met and (each := difference(line)):
            by_field.setdefault((each.path, each.declared), []).append((each.kind, line))
    for (path, declared), kinds in by_field.items():
        lines = [drift.lines[line] for _, line in kinds]
        records = Counter({kind: drift.lines[line].records for kind, line in kinds})
        since = drift.looked_at - min(each.before for each in lines)
        yield Beside(
            path=path,
            declared=declared,
            kinds=dict(records.most_common()),
            since=min(each.since for each in lines),
            places=tuple(each.place for each in sorted(lines, key=lambda each: -each.records)),
            share=min(1.0, records.total() / since) if since else 0.0,
        )


def unsettled(table: Judged, seen: Seen) -> list[Beside]:
    """Return what waits for a decision: a choice that lets a value or a record go on purpose is one."""
    says_new = table.on_new_field in {"say", "evolve", "freeze"}
    says_wrong = table.on_wrong_type in {"freeze", "evolve"}
    return [
        each
        for each in seen.fields
        if (says_new if each.is_new else says_wrong and each.share >= SELDOM)
    ]


def sentence(table: Judged, seen: Seen) -> str:
    """Return in a sentence what waits for a decision; empty where nothing does."""
    found = unsettled(table, seen)
    parts = [
        f"{len(some)} {what}{'s' if len(some) > 1 else ''}: {_listed(some)}"
        for what, some in (
            ("undeclared field", [each for each in found if each.is_new]),
            ("field with values of another type", [each for each in found if not each.is_new]),
        )
        if some
    ]
    if not parts:
        return ""
    return (
        f"beside the declaration of {table.id}, {'; '.join(parts)}: `strandline drift {table.id}`"
    )


def _listed(found: Sequence[Beside]) -> str:
    more = len(found) - FEW
    return ", ".join(map(str, found[:FEW])) + (f" and {more} more" if more > 0 else "")


def sentences(tables: Sequence[Table], lake: Lake) -> Iterator[str]:
    """Yield the sentence of each table whose last batch met something; of a damaged table none is known.

    Sums read up to a thousand commits, and `status` asks all tables: so only where the newest entry names a field.
    """
    for table in tables:
        if not isinstance(table, Judged) or not lake.exists(table):
            continue
        try:
            newest = last_entry(lake.table(table))
            said = newest and newest[1].drift and sentence(table, seen_by(table, lake))
        except Exception as error:
            if damage(error, table) is None:
                raise
            continue
        if said:
            yield said
