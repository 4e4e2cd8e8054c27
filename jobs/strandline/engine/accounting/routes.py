"""Where the records of a topic went, to the table that takes their kind, or to none; topics that nothing reads any more; and what records have beside the declaration of their table.

Bronze counts the records of each kind when it reads them, in the files that it wrote; each table counts those that it reads, and
those that it leaves to others, on their way. So the two ends are compared: for each kind the records that bronze had up to where
its table has read, and the rows that the table has read of it.

What no table takes stays in bronze: a table that is added later reads it from the beginning. Kinds that are left on purpose are
declared (``leaves=``), and are then counted without an alarm.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer
from strandline.core.parse import NEW_FIELD, WRONG_TYPE, difference
from strandline.core.routes import NO_KIND, REST, AllBut, takes_kind
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting.table_books import Books, Source
from strandline.engine.kafka.slices import Part, range_ends
from strandline.engine.kafka.topic_log import current, identities_in, stays
from strandline.engine.lake.completeness import fed
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table, last_entry
from strandline.engine.lake.log.ledger_sums import ByKind, Drift, Sums, sums_of
from strandline.engine.lake.place import damage

OTHERS = "all others"
"""The name of the kinds that a table takes which declares ``all_but``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What became of the records of one kind.

    Args:
        kind: The kind; ``REST`` for all that a table takes which declares ``all_but``.
        taker: The table that accounts for it.
        records: The records that bronze has counted.
        taken: Those that the table has read.
        streamed: Of these, those that no import has brought.
        missed: Those that came before the table took the kind, and that it passed.
    """

    kind: str
    taker: str
    records: int
    taken: int = 0
    streamed: int = 0
    missed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """What became of the records of a bronze table.

    Args:
        routes: The kinds that tables take.
        unrouted: The records that no table has, by kind; of the commonest.
        more: Those of further kinds.
        left: The records that are left on purpose, by kind.
        kindless: The records without a kind.
        moved: In sentences, what tables have of kinds that they do not take any more.
        before: The records that were counted while kinds were distinguished in another way, or not at all.
        faults: Where the two counts differ.
    """

    routes: tuple[Route, ...] = ()
    unrouted: Mapping[str, int] = field(default_factory=dict)
    more: int = 0
    left: Mapping[str, int] = field(default_factory=dict)
    kindless: int = 0
    before: int = 0
    moved: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def homeless(self) -> int:
        """Return how many records no table has, of which no declaration says that this is meant."""
        missed = sum(each.missed for each in self.routes)
        return sum(self.unrouted.values()) + missed + self.more + self.kindless


def takers_of(bronze: Table, lake: Lake) -> list[Judged]:
    """Return the tables that account for kinds of a bronze table's records, and are fed."""
    judged = fed((each for each in catalog.tables() if isinstance(each, Judged)), lake)
    return [each for each in judged if each.bronze.id == bronze.id and each.takes]


def routes_of(bronze: Ingested, lake: Lake, counted: ByKind) -> Routes:
    """Return what became of the records of a bronze table.

    Args:
        bronze: The table.
        lake: Its lake.
        counted: What its ledger has counted by kind.
    """
    if not bronze.has_kinds:
        return Routes()
    readers, faults = _readers(bronze, lake, counted)
    if faults:
        return Routes(faults=tuple(faults), kindless=counted.kindless, before=counted.before)
    routes = list[Route]()
    unrouted, left = dict[str, int](), dict[str, int]()
    for kind, records in counted.known.items():
        reader = next((each for each in readers.values() if each.takes(kind)), None)
        if reader is None:
            where = left if takes_kind(bronze.left, kind) else unrouted
            where[kind or OTHERS] = records
            continue
        routes.append(reader.route(kind, records))
    # Kinds that had no name when they came, and that a table takes by name since, are no kinds of others any more.
    surplus = sum(max(0, each.taken - each.records) for each in routes if each.kind != REST)
    routes = [
        replace(each, missed=max(0, each.missed - surplus)) if each.kind == REST else each
        for each in routes
    ]
    for route in routes:
        faults += readers[route.taker].faults(route, bronze)
    more, rest = max(0, counted.more - surplus), any(each.takes(REST) for each in readers.values())
    if isinstance(bronze.left, AllBut) and not rest and more:
        left[OTHERS] = more
    is_known = rest or isinstance(bronze.left, AllBut)
    kindless = counted.kindless
    if isinstance(bronze.left, tuple) and None in bronze.left and kindless:
        left[NO_KIND] = kindless
        kindless = 0
    return Routes(
        routes=tuple(sorted(routes, key=lambda each: each.kind)),
        unrouted=_commonest_first(unrouted),
        more=0 if is_known else more,
        left=_commonest_first(left),
        kindless=kindless,
        before=counted.before,
        moved=tuple(each for reader in readers.values() for each in reader.moved()),
        faults=tuple(faults),
    )


def _readers(
    bronze: Ingested, lake: Lake, counted: ByKind
) -> tuple[dict[str, "_Reader"], list[str]]:
    """Return the tables that take kinds, or which of them cannot be read; that is no damage of bronze."""
    found, faults = dict[str, _Reader](), list[str]()
    for taker in takers_of(bronze, lake):
        try:
            found[taker.id] = _Reader.of(taker, bronze, lake, counted)
        except Exception as error:
            if damage(error, taker) is None:
                raise
            faults.append(f"{taker.id} cannot be read, so what it has of its kinds is not known")
    return found, faults


def _commonest_first(kinds: Mapping[str, int]) -> dict[str, int]:
    found = sorted(kinds.items(), key=lambda each: (-each[1], each[0]))
    return {kind: rows for kind, rows in found if rows}


@dataclass(frozen=True, slots=True)
class _Reader:
    """A table that takes kinds, what it has read, what bronze had counted up to there, and what it has counted by now."""

    table: Judged
    sums: Sums
    at: Source
    now: ByKind

    @classmethod
    def of(cls, table: Judged, bronze: Ingested, lake: Lake, now: ByKind) -> "_Reader":
        if not is_table(lake.table(table)):
            return cls(table, Sums(), Source(), now)
        books = Books(table, lake).follow()
        return cls(table, books.sums, books.sheet.sources.get(bronze.id, Source()), now)

    @property
    def rest(self) -> AllBut | None:
        """Return what it leaves out where it takes all other kinds."""
        takes, _ = self.table.taken
        return takes if isinstance(takes, AllBut) else None

    def takes(self, kind: str) -> bool:
        return self.rest is not None if kind == REST else takes_kind(self.table.taken[0], kind)

    def route(self, kind: str, records: int) -> Route:
        """Compare what bronze had counted of a kind with what the table has read of it."""
        if self.rest and kind != REST:  # it counts all of its kinds together
            return Route(kind=kind, taker=self.table.id, records=records)
        by_kind = self.sums.by_kind
        # What a table of all others reads beside them has a name.
        others = self.sums.read - sum(by_kind.taken.values())
        taken = others if kind == REST else by_kind.taken.get(kind, 0)
        # What came from files an import brings, and no stream has read it up to there.
        streamed = taken - by_kind.imported.get(kind, 0)
        missed = self._expected(kind) - self._of_files(self.at.by_kind, kind) - streamed
        # Bronze counts what is deleted since, and does not know kinds that were distinguished in another way.
        is_known = not self.at.by_kind.before and not self.at.removed
        return Route(
            kind=kind,
            taker=self.table.id,
            records=records,
            taken=taken,
            streamed=streamed,
            missed=max(0, missed) if is_known else 0,
        )

    def faults(self, route: Route, bronze: Ingested) -> Iterator[str]:
        """Yield that it has read more than bronze has counted, those included that had no name there when they came."""
        by_kind, expected = self.at.by_kind, self._expected(route.kind)
        unnamed = by_kind.before + (
            0 if route.kind == REST else by_kind.more + by_kind.taken.get(REST, 0)
        )
        # A promotion sums up what streams and imports have brought.
        unnamed += max(
            0, self._of_files(self.now, route.kind) - self._of_files(self.sums.by_kind, route.kind)
        )
        is_lacking = route.missed and not self._took_others
        if route.streamed > expected + unnamed or is_lacking:
            yield (
                f"{self.table.id} has read {route.streamed:,} records of {_name(route.kind)}, and {bronze.id} has counted "
                f"{expected:,} up to there"
            )

    @property
    def _took_others(self) -> bool:
        """Return whether it has read records while it took other kinds than it does today."""
        return self.sums.rerouted or self.sums.takes != self.table.takes_in_words

    def moved(self) -> Iterator[str]:
        """Yield the kinds that it does not take any more, and of which it has rows."""
        for kind, rows in self.sums.by_kind.taken.items():
            if rows and not any(takes_kind(each, kind) for each in self.table.taken):
                yield (
                    f"{self.table.id} has {rows:,} records of the kind {kind}, which it does not take any more: "
                    f"`strandline rebuild {self.table.id}` leaves them out"
                )

    def _of_files(self, by_kind: ByKind, kind: str) -> int:
        """Return how many records of a kind came from files."""
        if kind == REST and (rest := self.rest):
            return sum(n for each, n in by_kind.imported.items() if takes_kind(rest, each))
        return by_kind.imported.get(kind, 0)

    def _expected(self, kind: str) -> int:
        by_kind, rest = self.at.by_kind, self.rest
        if kind != REST or rest is None:
            return by_kind.known.get(kind, 0)
        named = sum(rows for each, rows in by_kind.known.items() if takes_kind(rest, each))
        return named + by_kind.more


def _name(kind: str) -> str:
    return "all other kinds" if kind == REST else f"the kind {kind}"


def sentences(bronze: Ingested, found: Routes) -> Iterator[str]:
    """Yield what a person should know of records that no table has."""
    if found.unrouted or found.more:
        listed = [f"{kind} {n:,}" for kind, n in found.unrouted.items()]
        listed += [f"further kinds {found.more:,}"] if found.more else []
        yield f"unrouted in {bronze.id}, of kinds that no table takes: {', '.join(listed)}"
    for each in found.routes:
        if each.missed:
            yield (
                f"{each.missed:,} records of {_name(each.kind)} came to {bronze.id} before {each.taker} took it: "
                f"`strandline rebuild {each.taker}` brings them in"
            )
    yield from found.moved
    if found.kindless:
        yield (
            f"without a kind in {bronze.id}: {found.kindless:,} records, which no table takes: "
            f"`strandline quarantine show {bronze.id}` shows them"
        )
    if found.left:
        yield (
            f"left in {bronze.id} on purpose: "
            + ", ".join(f"{kind} {n:,}" for kind, n in found.left.items())
        )
    if found.before:
        yield (
            f"{found.before:,} records of {bronze.id} came before kinds were distinguished as they are today; a table that reads "
            "them asks their bytes"
        )


# What a bronze table is no longer fed from: topics that were retired, or are not declared any more, and clusters that it left.
#
# It is read from the ledger alone: no Spark, no broker (jobs/strandline/engine/repair/retire.py writes it).


UNKNOWN = -1
"""The end of a partition that was not asked for."""
NOT_ASKED = "its end was not asked"
NO_ID = "-"
"""For the id of a topic that the declaration did not name any more when it was retired."""


def said(table: Ingested, lake: Lake) -> list[str]:
    """Return a sentence for each topic and each cluster that a table has left."""
    path = lake.table(table)
    newest = last_entry(path)
    if newest is None:
        return []
    read, declared = range_ends(newest[1].offsets), {topic.name for topic in table.topics}
    now = stays(read)
    # Sums read up to a thousand commits, and `status` asks all tables: where the newest entry names
    # each topic as read, on its first cluster, and each is declared, there is nothing to say.
    if {*now} <= declared & {*identities_in(newest[1].stream)} and not any(now.values()):
        return []
    sums = sums_of(path)
    undecided = sorted({*now} - {*sums.retired} - declared)
    return [
        *(
            f"retired from {table.id}: {topic}, read up to {_at(read, topic)}, by {decided(why)}"
            for topic, why in sorted(sums.retired.items())
        ),
        *(
            f"no longer fed: {topic}, which the declaration of {table.id} does not name any more, read up to "
            f"{_at(read, topic)}; `strandline retire {table.id} --topic {topic}` asks whether it has more, and signs it"
            for topic in undecided
        ),
        *(
            f"moved to another cluster: {name} of {table.id}, read up to offset {at}, "
            + (NOT_ASKED if end == UNKNOWN else f"which ended at {end}")
            for name, (at, end) in sorted(sums.clusters.items())
        ),
    ]


def topics_read(lake: Lake) -> set[str]:
    """Return the topics that tables of a lake have read: none of them may be made anew under its name."""
    return {topic for table in catalog.tables() for topic in read_before(table, lake)}


def read_before(table: Table, lake: Lake) -> set[str]:
    """Return the topics that a table has read, retired ones as well; of a damaged table all that it declares count as read."""
    if not isinstance(table, Ingested):
        return set()
    try:
        newest = last_entry(lake.table(table)) if lake.exists(table) else None
    except Exception as error:
        if damage(error, table) is None:
            raise
        return {topic.name for topic in table.topics}
    if newest is None:
        return set()
    return {*identities_in(newest[1].stream), *stays(range_ends(newest[1].offsets))}


def decided(why: str) -> str:
    """Return who decided something and why, without the id of the topic."""
    return why.partition(" ")[2]


def _at(read: Mapping[Part, int], topic: str) -> str:
    parts = sorted((part, at) for part, at in current(read).items() if part[0] == topic)
    return " and ".join(f"offset {at} of partition {number}" for (_, number), at in parts)


# Tables that a lake has and no module declares: each was deleted from the project, renamed there, or is of another project.
#
# Nothing feeds, maintains or repairs them, their rows are in no answer, and what their columns mean is not known. So they are named
# where a person looks, and a request to forget, which could not find in them whom it means, is refused.


NAMED = 3
"""So many are named in a sentence."""


def undeclared(lake: Lake) -> list[str]:
    """Return their names; three folders are listed, and no log is read."""
    known = {table.id for table in catalog.tables()}
    return [
        f"{layer}.{name}"
        for layer in Layer
        for name in (lake.root / layer).names()
        if f"{layer}.{name}" not in known and is_table(lake.root / layer / name)
    ]


def listed(names: list[str]) -> str:
    """Return the first of some names, and how many more there are: of another project's lake it is all of them."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def remedy(name: str) -> str:
    """Return what to do about one of them."""
    return (
        f"bring its module back; if it is to be read and no longer fed, `strandline retire {name}`, and leave the module where it "
        f"is. `strandline retire {name} --delete` removes it from the lake, for good."
    )


def refuse_undeclared(lake: Lake) -> None:
    """Refuse a request to forget that would pass over a table.

    Raises:
        DefinitionError: The lake has one that no module declares.
    """
    if found := undeclared(lake):
        raise DefinitionError(
            f"the lake has {listed(found)}, which no module declares, so what a request means there is not known",
            hint=remedy(found[0]),
            tables=found,
        )


# What the records of a table have beside its declaration: which fields, since when, in which share, and what is said of it.
#
# It is counted batch by batch, in the entry of each commit (jobs/strandline/core/parse.py), and carried forward with the other sums: no reader
# reads years of entries for it. What today's code of the table has not met is left out: it is declared by now, or comes no more.
#
# Values are in no ledger. An example is the record's place in Kafka, and is looked up in bronze when it is asked for, so that what was
# forgotten or has expired is no example any more.

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


def drift_sentences(tables: Sequence[Table], lake: Lake) -> Iterator[str]:
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
