"""Whether a table's gate is shut, and why: one small file beside the lake's tables.

A gate shuts in front of a batch that is not believed. The batch is then not published, and since its offsets stand in
the checkpoint, the very same batch comes again when the stream is started again: it passes when the rules or the code
were corrected, or when somebody opened the gate for it and said why. Bronze has everything meanwhile, and whoever reads
the table reads what was believed last.

Or it shuts behind rows that are published already, when a look at all of them finds what counters cannot show; then
the tables above stop before their next batch.

A file and no Delta table, because it is asked at every batch and holds one sentence; what became of it stands in the
ledger (``failed`` and ``opened``), for as long as the rows.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from jobs.core.errors import DataError, DefinitionError
from jobs.core.table import Table
from jobs.run.lake import Lake
from quality.expectations import Finding

STANDING = "standing-open"


class Where(StrEnum):
    """On which side of what it concerns a gate is shut."""

    BEFORE = "before"
    """In front of a batch that is not published."""
    BEHIND = "behind"
    """Behind rows that are published, in front of those who read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shut:
    """A gate that is shut, or was opened for one batch.

    Args:
        table: The table's one name.
        where: On which side.
        stream: Whose batch it is.
        batch: Its number.
        versions: What it reads of each source.
        rows: How many rows are held back.
        at: When it shut.
        findings: What was not as expected.
        samples: For each rule some rows that break it, with nothing sensitive in them.
        opened: Why somebody opened it.
        opened_by: Who.
        opened_at: When.
    """

    table: str
    where: Where
    stream: str
    batch: int
    versions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    rows: int = 0
    at: str = ""
    findings: tuple[Mapping[str, Any], ...] = ()
    samples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    opened: str | None = None
    opened_by: str | None = None
    opened_at: str | None = None

    @property
    def why(self) -> str:
        """Return what was found, in one line."""
        return "; ".join(f"{each['name']}: {each['says']}" for each in self.findings)

    def is_of(self, stream: str, batch: int) -> bool:
        """Tell whether it speaks of a batch."""
        return (self.stream, self.batch) == (stream, batch)


class GateShutError(DataError):
    """A batch is not believed, or rests on rows that are not."""

    shut: Shut | None = None

    @classmethod
    def before(cls, found: Shut) -> "GateShutError":
        """Say that a batch was not published."""
        error = cls(
            f"the gate of {found.table} is shut: batch {found.batch} is not published. {found.why}",
            hint=f"`strandline gate {found.table}` shows the rows; correct the rule or the source and run again, "
            f'or let the batch pass: `strandline gate {found.table} --open "why"`.',
            table=found.table,
            batch=found.batch,
        )
        error.shut = found
        return error

    @classmethod
    def of_rows(cls, found: Shut) -> "GateShutError":
        """Say that rows which are published are not believed."""
        return cls(
            f"the gate behind {found.table} is shut: its rows are not as expected. {found.why}",
            hint="correct the rows (`strandline backfill` or `rebuild`) and check again, or go on all the same: "
            f'`strandline gate {found.table} --open "why"`.',
            table=found.table,
        )

    @classmethod
    def behind(cls, table: Table, found: Shut) -> "GateShutError":
        """Say that a table waits, because what it reads is not believed."""
        return cls(
            f"{table.id} waits: the gate of {found.table} is shut behind rows that it has read. {found.why}",
            hint=f'`strandline gate {found.table}` explains; `strandline gate {found.table} --open "why"` opens it.',
            table=table.id,
            source=found.table,
        )


def findings_told(findings: Sequence[Finding]) -> tuple[Mapping[str, Any], ...]:
    """Return findings as a gate's file keeps them."""
    return tuple(asdict(each) for each in findings)


def read(table: Table, lake: Lake) -> Shut | None:
    """Return what is written about a gate, also when it was opened for a batch that has not come yet."""
    try:
        told = json.loads(lake.gate(table).read_text())
    except FileNotFoundError:
        return None
    return Shut(**{**told, "where": Where(told["where"]), "findings": tuple(told["findings"])})


def shut(table: Table, lake: Lake) -> Shut | None:
    """Return why a gate is shut; None when it is not."""
    found = read(table, lake)
    return None if found is None or found.opened is not None else found


def write(found: Shut, table: Table, lake: Lake) -> None:
    """Write it down; a reader sees the old words or the new ones."""
    file = lake.gate(table)
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(asdict(found), indent=1, default=str))
    draft.replace(file)


def clear(table: Table, lake: Lake) -> None:
    """Take it down, because what it spoke of is settled."""
    lake.gate(table).unlink(missing_ok=True)


def open_(table: Table, lake: Lake, *, because: str, who: str, at: str) -> Shut:
    """Open a gate for the batch that it was shut for.

    Raises:
        DefinitionError: It is not shut, or no reason was given.
    """
    found = shut(table, lake)
    if found is None:
        raise DefinitionError(
            f"the gate of {table.id} is not shut",
            hint="`strandline gate` lists those that are.",
            table=table.id,
        )
    if not because.strip():
        raise DefinitionError(
            f"the gate of {table.id} opens for a reason only",
            hint="say in a sentence why the batch may be believed; the ledger keeps it.",
            table=table.id,
        )
    if found.where is Where.BEHIND:
        clear(table, lake)
        return replace(found, opened=because, opened_by=who, opened_at=at)
    opened = replace(found, opened=because, opened_by=who, opened_at=at)
    write(opened, table, lake)
    return opened


def stand_open(lake: Lake) -> None:
    """Let every batch of a lake pass: what is recomputed to be compared was judged before."""
    (lake.root / "_gates").mkdir(parents=True, exist_ok=True)
    _standing(lake).touch()


def stands_open(lake: Lake) -> bool:
    """Tell whether every batch of a lake passes."""
    return _standing(lake).exists()


def refuse_behind(table: Table, lake: Lake) -> None:
    """See that nothing which a table reads is held to be wrong.

    Raises:
        GateShutError: Something is.
    """
    found = _behind_source(table, lake)
    if found is not None:
        raise GateShutError.behind(table, found)


def stands_behind(table: Table, lake: Lake) -> Shut | None:
    """Return the gate because of which a table itself cannot go on; None when it can."""
    own = shut(table, lake)
    if own is not None and own.where is Where.BEFORE:
        return own
    return _behind_source(table, lake)


def _behind_source(table: Table, lake: Lake) -> Shut | None:
    found = (shut(source, lake) for source in table.needs)
    return next((each for each in found if each and each.where is Where.BEHIND), None)


def believed_below(table: Table, lake: Lake) -> Shut | None:
    """Return the nearest shut gate that a table waits behind, its own or one below; None when there is none."""
    own = shut(table, lake)
    if own is not None:
        return own
    return next((found for s in table.needs if (found := believed_below(s, lake))), None)


def told(table: Table, lake: Lake) -> str:
    """Say in a few words whether a table is believed as far as bronze goes, or up to which version."""
    found = believed_below(table, lake)
    if found is None:
        return "open"
    return "shut" if found.table == table.id else f"waits for {found.table}"


def _standing(lake: Lake) -> Path:
    return lake.root / "_gates" / STANDING
