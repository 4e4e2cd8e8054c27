"""A table's rebuild beside the table: the same sources, today's code, a folder and a checkpoint of its own.

The table's own stream builds it by catching up. So its checkpoint is at exactly the offset up to which its rows go, and
a promotion replaces the table's rows and its checkpoint together.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.static import Static
from strandline.core.table import Feed, Table
from strandline.engine.accounting.balance_sheet import in_force
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import refuse_if_taken
from strandline.engine.lake.log.ledger import Entry, entries, is_table, latest_version
from strandline.engine.lake.log.ledger_sums import OF_RECORDS, Sums, name_of, sums_of
from strandline.engine.lake.open_table import live_rows
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import HeldError, hold
from strandline.engine.runtime.processes import own

FOLDER = "_rebuild"


@dataclass(frozen=True, slots=True)
class Shadow(Lake):
    """A lake with the rebuild of one table, in which all other tables are the live ones."""

    live: Lake
    own: Table

    @classmethod
    def of(cls, table: Table, lake: Lake) -> "Shadow":
        """Return the shadow of a table, whether or not it exists."""
        return cls(lake.root / FOLDER / table.id, lake, table)

    def table(self, table: Table | Feed | Static) -> Place:
        """Return the shadow's folder for its own table, the live folder for any other."""
        return Lake.table(self, table) if table.id == self.own.id else self.live.table(table)

    @property
    def is_rebuilding(self) -> bool:
        """Return True: a shadow lake is a rebuild."""
        return True

    @property
    def gates(self) -> Place:
        """Return the live folder: operators open gates there."""
        return self.live.gates

    @property
    def models(self) -> Place:
        """Return the live folder: a rebuild scores as the table does."""
        return self.live.models

    @property
    def formats(self) -> Place:
        """Return the live file: what a rebuild writes is promoted."""
        return self.live.formats

    @property
    def schemas(self) -> Place:
        """Return the live folder: a rebuild reads the live bronze."""
        return self.live.schemas

    @property
    def journal(self) -> Place:
        """Return the file that records the progress of a promotion."""
        return self.root / "promotion.json"

    @property
    def beginning(self) -> Place:
        """Return the file with the versions that the tables below had when the rebuild began."""
        return self.root / "began.json"

    def put_away(self, name: str) -> Place:
        """Return the folder for a checkpoint that is not in use."""
        return self.root / "checkpoints" / name


@dataclass(slots=True, kw_only=True)
class Promotion:
    """The record of a promotion, in which a rebuild replaces its table, or of its undo.

    Args:
        mark: Identifies the promotion in its commits.
        before: The versions of the table's folders before the promotion, which an undo restores.
        done: Whether it is complete; until then rows and checkpoint do not belong together.
        undoing: Whether an undo was begun.
        undone: Whether the undo is complete, or none is possible.
    """

    mark: str
    before: list[int]
    done: bool = False
    undoing: bool = False
    undone: bool = False


def shadows(lake: Lake, tables: Iterable[Table]) -> Iterator[Shadow]:
    """Yield those that a lake has of tables, or the folders of which are left."""
    known = {table.id: table for table in tables}
    for name in (lake.root / FOLDER).names():
        if name in known:
            yield Shadow.of(known[name], lake)


def begin(shadow: Shadow) -> None:
    """Write down the versions of the table and of all that it reads, before the rebuild reads the first of them."""
    paths = [path for each in (shadow.own, *shadow.own.needs) for path in shadow.live.books(each)]
    versions = {name_of(path): latest_version(path) for path in paths if is_table(path)}
    shadow.beginning.put(json.dumps(versions))


def began(shadow: Shadow) -> dict[str, int] | None:
    """Return these versions; None for a rebuild of a program that did not write them down."""
    text = shadow.beginning.text()
    return None if text is None else {name: int(each) for name, each in json.loads(text).items()}


def read(shadow: Shadow) -> Promotion | None:
    """Return the record of the last promotion; None if there was none."""
    text = shadow.journal.text()
    return None if text is None else Promotion(**json.loads(text))


def write(shadow: Shadow, promotion: Promotion) -> None:
    """Write the record of a promotion."""
    shadow.journal.put(json.dumps(asdict(promotion)))


def refuse_half_done(table: Table, lake: Lake) -> None:
    """Refuse a table whose promotion or undo was interrupted: its rows and checkpoint do not belong together.

    Raises:
        DefinitionError: A promotion or undo was interrupted.
    """
    known = read(Shadow.of(table, lake))
    if known is not None and not known.done:
        verb = "undo" if known.undoing else "promote"
        raise DefinitionError(
            f"`strandline {verb} {table.id}` was interrupted",
            hint="run it again to finish it.",
            table=table.id,
        )


@contextmanager
def alone(table: Table, lake: Lake) -> Iterator[None]:
    """Hold the lock under which one process alone builds, compares or promotes a table's shadow.

    The lock is Python's and ends with its process; the shadow's lease shows that no JVM still writes it, and that no other
    machine does where the lake is on an object store.

    Raises:
        TransientError: Another process holds the lock.
    """
    made = Shadow.of(table, lake)
    try:
        with hold(made.near / "alone.lock", json.dumps(own()), waits=False):
            refuse_if_taken(table, made)
            yield
    except HeldError as error:
        holder = json.loads(error.note or "{}")
        who = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
        raise TransientError(
            f"{table.id} is being rebuilt or promoted already: {who}",
            hint="wait until it is done, or stop it; the two would share a folder.",
            table=table.id,
            **holder,
        ) from error


def _between(sums: Sums, dropped: int) -> tuple[int, int] | None:
    """Return the range in which the rows lie that were dropped and not brought in since; None where that of some is unknown."""
    if sum(rows for rows, _ in sums.drops) != dropped:
        return None
    ends = [each for _, ranges in sums.drops for each in ranges]
    return (min(first for first, _ in ends), max(last for _, last in ends)) if ends else None


def _items(last: Entry, sums: Sums, live: int) -> int | None:
    """Return the items of all records: those that are rows and those that are none; as counted where a function keeps state."""
    if last.items is None:
        return None
    if last.items_passed_over is None and not last.table.startswith(OF_RECORDS):
        return sums.items
    return live + sums.held_items + sums.items_passed_over


def summed(path: Place, mark: str, until: int | None = None) -> Entry:
    """Return one entry that sums all of a table's entries, up to a version."""
    numbered = [each for each in entries(path) if until is None or each[0] <= until]
    valid = [entry for _, entry in in_force(numbered)]
    streamed = [entry for entry in valid if not entry.is_backfill]
    first, last = streamed[0], streamed[-1]
    broke: Counter[str] = Counter()
    for entry in valid:
        broke.update(entry.broke)
    sums = sums_of(path, until)
    back, found_again = sums.dropped_and_healed, sums.lost_and_healed
    dropped = sums.dropped - back - sums.brought_back
    names = {name for entry in streamed for name in entry.versions}
    begun = first.versions if first.whole else {}
    ends = {n: max(e.versions[n][1] for e in streamed if n in e.versions) for n in names}
    return Entry(
        table=last.table,
        mode=last.mode,
        stream=last.stream,
        batch=last.batch,
        source=last.source,
        versions={name: (begun.get(name, (0, 0))[0], end) for name, end in ends.items()},
        imported={part: (0, end) for part, end in sums.imported.items()},
        read=sums.read,
        others=sums.others,
        kinds=dict(sums.by_kind.taken),
        routed_by=last.routed_by,
        takes=last.takes,
        skipped=dict(sums.skipped),
        good=sums.good + sums.brought_back,
        listed=last.listed,
        items=_items(last, sums, live_rows(path, until)),
        passed_over=sums.passed_over or None,
        items_passed_over=None if last.items_passed_over is None else sums.items_passed_over,
        counted=sums.counted,
        duplicates=sums.duplicates + back + found_again,
        keeps_copies=last.keeps_copies,
        quarantined=sums.held,
        held_items=sums.held_items,
        dropped_by_watermark=dropped,
        dropped_between=_between(sums, dropped),
        dropped_above=dict(sums.dropped_above),
        lost_by_function=sums.lost_by_function - found_again,
        made_by_function=sums.made_by_function,
        written=live_rows(path, until),
        broke=dict(broke),
        failed=tuple(dict.fromkeys(name for entry in valid for name in entry.failed)),
        rules=last.rules,
        contract=last.contract,
        newest=max((entry.newest for entry in valid if entry.newest), default=None),
        replaced=True,
        whole=first.whole,
        promoted=mark,
        # For the rows that an undo restores, the dimension's version is not known any more.
        looked={n: sums.right_until if until is None else -1 for e in streamed for n in e.looked},
        static=last.static,
        before_static=sums.before_static,
        watermark=last.watermark,
        code=last.code,
    )
