"""A table made anew beside itself: the same sources, the code of today, a folder and a checkpoint of its own.

It is made by the table's own stream, catching up: so when it takes the table's place, its checkpoint takes the place
of the old one, and stands at the very offset up to which its rows go.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from jobs.core.errors import DefinitionError, TransientError
from jobs.core.table import Table
from jobs.run.balance import in_force, live_rows
from jobs.run.healed import healed
from jobs.run.holders import could_lock, own
from jobs.run.lake import Lake
from jobs.run.lease import refuse_if_taken
from jobs.run.ledger import Entry, entries
from jobs.run.notes import put
from jobs.run.tail import right_until


@dataclass(frozen=True, slots=True)
class Shadow(Lake):
    """A lake that holds one table anew and sees all the others where they are."""

    live: Lake
    own: Table

    @classmethod
    def of(cls, table: Table, lake: Lake) -> "Shadow":
        """Return the shadow of a table, whether or not it was made."""
        return cls(lake.root / "_rebuild" / table.id, lake, table)

    def table(self, table: Table) -> Path:
        """Return its own folder for its own table, the live one for any other."""
        return Lake.table(self, table) if table.id == self.own.id else self.live.table(table)

    @property
    def is_rebuilding(self) -> bool:
        """Tell that it is."""
        return True

    @property
    def gates(self) -> Path:
        """Return the live folder: people open gates there."""
        return self.live.gates

    @property
    def journal(self) -> Path:
        """Return the file that says how far a promotion is."""
        return self.root / "promotion.json"

    def put_away(self, name: str) -> Path:
        """Return the folder for a checkpoint that is not in use."""
        return self.root / "checkpoints" / name


@dataclass(slots=True, kw_only=True)
class Promotion:
    """What is written down about a table that takes, or took, its own place.

    Args:
        mark: Names it in the commits that it made.
        before: The versions of the table's folders before it, which an undo goes back to.
        done: Whether all of it is done; rows and checkpoint do not belong together before.
        undoing: Whether what is to be done is to take it back.
        undone: Whether it was taken back.
    """

    mark: str
    before: list[int]
    done: bool = False
    undoing: bool = False
    undone: bool = False


def read(shadow: Shadow) -> Promotion | None:
    """Return what is written down; None when nothing is."""
    try:
        return Promotion(**json.loads(shadow.journal.read_text()))
    except FileNotFoundError:
        return None


def write(shadow: Shadow, promotion: Promotion) -> None:
    """Write it down."""
    put(shadow.journal, json.dumps(asdict(promotion)))


def refuse_half_done(table: Table, lake: Lake) -> None:
    """See that no promotion or undo was interrupted, because then rows and checkpoint do not belong together.

    Raises:
        DefinitionError: One was.
    """
    known = read(Shadow.of(table, lake))
    if known is not None and not known.done:
        verb = "undo" if known.undoing else "promote"
        raise DefinitionError(
            f"`strandline {verb} {table.id}` was interrupted",
            hint="type it again, and it is finished.",
            table=table.id,
        )


@contextmanager
def alone(table: Table, lake: Lake) -> Iterator[None]:
    """Be the only one who makes, compares or promotes a table's shadow, from the first step to the last.

    A lock of Python's, which is gone with its process; that no JVM writes the shadow any more, its lease says.

    Raises:
        TransientError: Another process is at it.
    """
    made = Shadow.of(table, lake)
    path = made.root / "alone.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    with path.open("r+") as file:
        if not could_lock(file):
            holder = json.loads(file.read() or "{}")
            who = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
            raise TransientError(
                f"{table.id} is being rebuilt or promoted already: {who}",
                hint="wait until it is done, or stop it; the two would share a folder.",
                table=table.id,
                **holder,
            )
        file.truncate(0)
        file.write(json.dumps(own()))
        file.flush()
        refuse_if_taken(table, made)
        yield


def summed(path: Path, mark: str, until: int | None = None) -> Entry:
    """Return one entry that stands for all of a table's entries, up to a version."""
    found = [each for each in entries(path) if until is None or each[0] <= until]
    told = [entry for _, entry in in_force(found)]
    own = [entry for entry in told if not entry.is_backfill]
    first, last = own[0], own[-1]
    held: Counter[str] = Counter()
    broke: Counter[str] = Counter()
    for entry in told:
        held.update(entry.quarantined)
        broke.update(entry.broke)
    back = healed(told).dropped
    names = {name for entry in own for name in entry.versions}
    begun = first.versions if first.whole else {}
    ends = {n: max(e.versions[n][1] for e in own if n in e.versions) for n in names}
    return Entry(
        table=last.table,
        mode=last.mode,
        stream=last.stream,
        batch=last.batch,
        source=last.source,
        versions={name: (begun.get(name, (0, 0))[0], end) for name, end in ends.items()},
        read=sum(entry.read for entry in told),
        good=sum(entry.good for entry in told),
        duplicates=sum(entry.duplicates for entry in told) + back,
        quarantined={why: n for why, n in held.items() if n},
        dropped_by_watermark=sum(entry.dropped_by_watermark for entry in told) - back,
        written=live_rows(path, until),
        broke=dict(broke),
        failed=tuple(dict.fromkeys(name for entry in told for name in entry.failed)),
        rules=last.rules,
        contract=last.contract,
        newest=max((entry.newest for entry in told if entry.newest), default=None),
        replaced=True,
        whole=first.whole,
        promoted=mark,
        # Of rows that an undo brings back it is not known any more.
        looked={n: right_until(path) if until is None else -1 for e in own for n in e.looked},
        watermark=last.watermark,
        code=last.code,
    )
