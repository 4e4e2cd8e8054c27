"""Whether a table's gate is shut, and why: small files beside the lake's tables.

A gate shuts in front of a batch that is not believed. The batch is then not published, and since its offsets stand in
the checkpoint, the very same batch comes again when the stream is started again: it passes when the rules or the code
were corrected, or when somebody opened the gate for it and said why. Bronze has everything meanwhile, and whoever reads
the table reads what was believed last. A backfill's range is held back in the same way.

Or it shuts behind rows that are published already, when a look at all of them finds what counters cannot show; then
the tables above stop before their next batch. Each side has a file of its own, because one says nothing of the other.

Files and no Delta table, because they are asked at every batch and hold one sentence. What became of a batch stands in
the ledger (``failed`` and ``opened``) for as long as its rows, and every shutting and opening in a log, of which the newest
20 to 40 MB are kept (jobs/run/logs.py).
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from jobs.core.errors import DataError, DefinitionError
from jobs.core.table import Table
from jobs.run.lake import Lake
from jobs.run.logs import add
from jobs.run.notes import put
from quality.expectations import Finding

READ_AS_IT_WAS = "read_as_it_was:"
"""Begins the name of what is found when a stream would read rows as they were before they were put right."""


class Where(StrEnum):
    """On which side of what it concerns a gate is shut."""

    BEFORE = "before"
    """In front of a batch of the table's own stream."""
    RANGE = "range"
    """In front of a range that is computed again."""
    BEHIND = "behind"
    """Behind rows that are published, in front of those who read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shut:
    """A gate that is shut, or was opened.

    Args:
        table: The table's one name.
        where: On which side.
        stream: Whose batch it is.
        batch: Its number; behind rows, the version that was looked at.
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

    def lets_pass(self, other: "Shut") -> bool:
        """Tell whether its opening covers a batch: the same rows, and nothing found that nobody has seen."""
        return (
            self.opened is not None
            and self.is_of(other.stream, other.batch)
            and {n: list(v) for n, v in self.versions.items()}
            == {n: list(v) for n, v in other.versions.items()}
            and all(
                each["name"] in self._seen
                and int(each.get("failed") or 0) <= self._seen[each["name"]]
                for each in other.findings
            )
        )

    @property
    def _seen(self) -> dict[str, int]:
        """Return how many rows somebody saw to break each."""
        return {str(each["name"]): int(each.get("failed") or 0) for each in self.findings}

    def accepts(self, findings: Collection[Finding]) -> bool:
        """Tell whether somebody who opened it behind rows has seen as much as this."""
        seen = _failures(self.findings)
        return self.opened is not None and all(
            each.error is None and (each.value or each.failed) <= seen.get(each.name, -1)
            for each in findings
        )


class GateShutError(DataError):
    """A batch is not believed, or rests on rows that are not."""

    shut: Shut | None = None

    @classmethod
    def before(cls, found: Shut) -> "GateShutError":
        """Say that a batch or a range was not published."""
        what = f"batch {found.batch}" if found.where is Where.BEFORE else f"the {found.stream}"
        error = cls(
            f"the gate of {found.table} is shut: {what} is not published. {found.why}",
            hint=f"`strandline gate {found.table}` shows the rows; correct the rule or the source and run again, "
            f'or let it pass: `strandline gate {found.table} --open "why"`.',
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
            f"{table.id} waits: the gate of {found.table} is shut behind rows that it reads. {found.why}",
            hint=f'`strandline gate {found.table}` explains; `strandline gate {found.table} --open "why"` opens it.',
            table=table.id,
            source=found.table,
        )


def told_of(findings: Sequence[Finding]) -> tuple[Mapping[str, Any], ...]:
    """Return findings as a gate's file keeps them."""
    return tuple(asdict(each) for each in findings)


def read(table: Table, lake: Lake, where: Where) -> Shut | None:
    """Return what is written about a gate, also when it was opened."""
    try:
        told = json.loads(_file(table, lake, where).read_text())
    except FileNotFoundError:
        return None
    return Shut(**{**told, "where": Where(told["where"]), "findings": tuple(told["findings"])})


def shut(table: Table, lake: Lake, where: Where | None = None) -> Shut | None:
    """Return why a gate is shut, on one side or on any; None when it is not."""
    for each in (where,) if where else Where:
        found = read(table, lake, each)
        if found is not None and found.opened is None:
            return found
    return None


def write(found: Shut, table: Table, lake: Lake) -> None:
    """Write it down, and in the log."""
    put(_file(table, lake, found.where), json.dumps(asdict(found), indent=1, default=str))
    brief = {name: value for name, value in asdict(found).items() if name != "samples"}
    add(lake.gates / "log.jsonl", json.dumps(brief, default=str))


def clear(table: Table, lake: Lake, where: Where) -> None:
    """Take it down, because what it spoke of is settled."""
    _file(table, lake, where).unlink(missing_ok=True)


def open_(table: Table, lake: Lake, *, because: str, who: str, at: str) -> list[Shut]:
    """Open a gate on every side on which it is shut, for what it was shut for.

    Raises:
        DefinitionError: It is not shut, or no reason was given.
    """
    found = [each for where in Where if (each := shut(table, lake, where))]
    if not found:
        raise DefinitionError(
            f"the gate of {table.id} is not shut",
            hint="`strandline gate` lists those that are.",
            table=table.id,
        )
    if not because.strip():
        raise DefinitionError(
            f"the gate of {table.id} opens for a reason only",
            hint="say in a sentence why the batch may be believed; it is kept.",
            table=table.id,
        )
    opened = [replace(each, opened=because, opened_by=who, opened_at=at) for each in found]
    for each in opened:
        write(each, table, lake)
    return opened


def stand_open(lake: Lake, *, stands: bool = True) -> None:
    """Let every batch of a lake pass: what is recomputed to be compared was judged before."""
    if stands:
        _standing(lake).touch()
    else:
        _standing(lake).unlink(missing_ok=True)


def stands_open(lake: Lake) -> bool:
    """Tell whether every batch of a lake passes."""
    return _standing(lake).exists()


def refuse_behind(table: Table, lake: Lake) -> None:
    """See that nothing which a table reads is held to be wrong.

    Raises:
        GateShutError: Something is.
    """
    found = behind_source(table, lake)
    if found is not None:
        raise GateShutError.behind(table, found)


def behind_source(table: Table, lake: Lake) -> Shut | None:
    """Return the gate behind something that a table reads; None when all of it is believed."""
    found = (shut(source, lake, Where.BEHIND) for source in table.needs)
    return next((each for each in found if each and not _is_answered(each, lake)), None)


def _is_answered(found: Shut, lake: Lake) -> bool:
    """Tell whether a gate asks for nothing but the rebuild that is under way."""
    names = [str(each["name"]) for each in found.findings]
    return lake.is_rebuilding and all(name.startswith(READ_AS_IT_WAS) for name in names)


def stops(table: Table, lake: Lake) -> Shut | None:
    """Return the gate because of which a table's own stream cannot go on; None when it can."""
    return shut(table, lake, Where.BEFORE) or behind_source(table, lake)


def believed_below(table: Table, lake: Lake) -> Shut | None:
    """Return the nearest shut gate that a table waits behind, its own or one below; None when there is none."""
    own = shut(table, lake, Where.BEFORE) or shut(table, lake, Where.BEHIND)
    if own is not None:
        return own
    return next((found for s in table.needs if (found := believed_below(s, lake))), None)


def told(table: Table, lake: Lake) -> str:
    """Say in a few words whether a table is believed as far as bronze goes, or for whom it waits."""
    found = believed_below(table, lake)
    if found is None:
        return "open"
    return "shut" if found.table == table.id else f"waits for {found.table}"


def _failures(findings: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return by name how much of each was found."""
    return {
        str(each["name"]): float(each.get("value") or each.get("failed") or 0) for each in findings
    }


def _file(table: Table, lake: Lake, where: Where) -> Path:
    return lake.gates / f"{table.id}.{where}.json"


def _standing(lake: Lake) -> Path:
    return lake.root / "gates-stand-open"
