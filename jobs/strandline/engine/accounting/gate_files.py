"""The gates of tables, shut or opened, and why: small files beside the lake's tables.

A gate shuts before a batch that is not believed. The batch is then not published. Its offsets are in the checkpoint,
so the same batch is repeated when the stream starts again: it passes when the rules or the code were corrected, or when
an operator opened the gate for it with a reason. Bronze has all records meanwhile, and readers of the table read the
last rows that were believed. The range of a backfill is held back in the same way.

A gate can also shut behind published rows, when an audit of all rows finds what counts cannot show; then the tables
above stop before their next batch. Each side has a file of its own, because they are independent.

They are files and no Delta table, because every batch reads them and each holds one sentence. The outcome of a batch is
in the ledger (``failed`` and ``opened``) for as long as its rows. Every shutting and opening is in a log that keeps its
newest 20 to 40 MB (jobs/strandline/engine/runtime/log_files.py).
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from strandline.core.errors import DataError, DefinitionError
from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import add_line
from strandline_quality.expectations import Finding

READ_AS_IT_WAS = "read_as_it_was:"
"""The prefix of a finding: a stream would read rows as they were before they were corrected."""


class Where(StrEnum):
    """The side on which a gate is shut."""

    BEFORE = "before"
    """Before a batch of the table's own stream."""
    RANGE = "range"
    """Before a range that is computed again."""
    BEHIND = "behind"
    """Behind published rows, before the tables that read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shut:
    """A gate that is shut, or was opened.

    Args:
        table: The table's one name.
        where: The side.
        stream: The stream of the batch.
        batch: Its number; behind rows, the version that was audited.
        versions: The versions of each source that the batch reads.
        rows: How many rows are held back.
        at: When it shut.
        findings: The expectations that failed.
        samples: For each rule some rows that break it, without sensitive values.
        opened: Why it was opened.
        opened_by: By whom.
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
        """Return the findings in one line."""
        return "; ".join(f"{each['name']}: {each['says']}" for each in self.findings)

    def is_of(self, stream: str, batch: int) -> bool:
        """Return whether it concerns a batch."""
        return (self.stream, self.batch) == (stream, batch)

    def lets_pass(self, other: "Shut") -> bool:
        """Return whether its opening covers a batch: the same rows, and no finding that the operator has not seen."""
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
        """Return by finding the number of rows that the operator has seen."""
        return {str(each["name"]): int(each.get("failed") or 0) for each in self.findings}

    def accepts(self, findings: Collection[Finding]) -> bool:
        """Return whether it was opened behind rows after the operator had seen at least these findings."""
        seen = _failures(self.findings)
        return self.opened is not None and all(
            each.error is None and (each.value or each.failed) <= seen.get(each.name, -1)
            for each in findings
        )


class GateShutError(DataError):
    """A batch is not believed, or was computed from rows that are not."""

    shut: Shut | None = None

    @classmethod
    def before(cls, found: Shut) -> "GateShutError":
        """Return the error for a batch or a range that is not published."""
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
        """Return the error for published rows that are not believed."""
        return cls(
            f"the gate behind {found.table} is shut: its rows are not as expected. {found.why}",
            hint="correct the rows (`strandline backfill` or `rebuild`) and check again, or go on all the same: "
            f'`strandline gate {found.table} --open "why"`.',
            table=found.table,
        )

    @classmethod
    def behind(cls, table: Table, found: Shut) -> "GateShutError":
        """Return the error for a table that waits, because its source is not believed."""
        return cls(
            f"{table.id} waits: the gate of {found.table} is shut behind rows that it reads. {found.why}",
            hint=f'`strandline gate {found.table}` explains; `strandline gate {found.table} --open "why"` opens it.',
            table=table.id,
            source=found.table,
        )


def as_json(findings: Sequence[Finding]) -> tuple[Mapping[str, Any], ...]:
    """Return findings as in a gate's file."""
    return tuple(asdict(each) for each in findings)


def read(table: Table, lake: Lake, where: Where) -> Shut | None:
    """Return the file of a gate, also when it was opened; None when there is none."""
    text = _file(table, lake, where).text()
    return None if text is None else _decoded(text)


def every(lake: Lake) -> Iterator[Shut]:
    """Yield each gate of a lake that has a file, shut or opened; the folder is listed once and no table is looked for."""
    for name in lake.gates.names():
        text = (lake.gates / name).text() if name.endswith(".json") else None
        if text is not None:
            yield _decoded(text)


def shut(table: Table, lake: Lake, where: Where | None = None) -> Shut | None:
    """Return a gate that is shut, on one side or on any; None when it is open."""
    for each in (where,) if where else Where:
        found = read(table, lake, each)
        if found is not None and found.opened is None:
            return found
    return None


def write(found: Shut, table: Table, lake: Lake) -> None:
    """Write a gate's file, and a line in the log."""
    _file(table, lake, found.where).put(json.dumps(asdict(found), indent=1, default=str))
    brief = {name: value for name, value in asdict(found).items() if name != "samples"}
    add_line(lake.gates / "log.jsonl", json.dumps(brief, default=str))


def clear(table: Table, lake: Lake, where: Where) -> None:
    """Remove a gate's file, because its findings are settled."""
    _file(table, lake, where).remove()


def open_(table: Table, lake: Lake, *, because: str, who: str, at: str) -> list[Shut]:
    """Open a gate on every side on which it is shut, for the present findings only.

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
            hint="give in a sentence the reason why the batch may be believed; it is kept.",
            table=table.id,
        )
    opened = [replace(each, opened=because, opened_by=who, opened_at=at) for each in found]
    for each in opened:
        write(each, table, lake)
    return opened


def open_all(lake: Lake) -> None:
    """Let every batch of a lake pass: rows that are recomputed for a comparison were judged before."""
    _open_mark(lake).put("")


def close_all(lake: Lake) -> None:
    """Judge every batch of a lake again."""
    _open_mark(lake).remove()


def are_all_open(lake: Lake) -> bool:
    """Return whether every batch of a lake passes."""
    return _open_mark(lake).exists()


def refuse_behind(table: Table, lake: Lake) -> None:
    """Refuse a table that reads rows behind a shut gate.

    Raises:
        GateShutError: A gate is shut behind one of its sources.
    """
    found = behind_source(table, lake)
    if found is not None:
        raise GateShutError.behind(table, found)


def behind_source(table: Table, lake: Lake) -> Shut | None:
    """Return the gate that is shut behind a source of a table; None when all sources are believed."""
    found = (shut(source, lake, Where.BEHIND) for source in table.needs)
    return next((each for each in found if each and not _is_answered(each, lake)), None)


def _is_answered(found: Shut, lake: Lake) -> bool:
    """Return whether the rebuild that is under way settles all findings of a gate."""
    names = [str(each["name"]) for each in found.findings]
    return lake.is_rebuilding and all(name.startswith(READ_AS_IT_WAS) for name in names)


def stops(table: Table, lake: Lake) -> Shut | None:
    """Return the gate that stops a table's own stream; None when it can go on."""
    return shut(table, lake, Where.BEFORE) or behind_source(table, lake)


def nearest_shut(table: Table, lake: Lake) -> Shut | None:
    """Return the nearest shut gate that a table waits for, its own or one below; None when there is none."""
    own = shut(table, lake, Where.BEFORE) or shut(table, lake, Where.BEHIND)
    if own is not None:
        return own
    return next((found for s in table.needs if (found := nearest_shut(s, lake))), None)


def summary(table: Table, lake: Lake) -> str:
    """Return in a few words whether a table's gates are open down to bronze, or which table it waits for."""
    return _summed_up(table.id, nearest_shut(table, lake))


def summaries(tables: Sequence[Table], lake: Lake) -> dict[str, str]:
    """Return the same of all tables by their names, each after those that it reads, from one listing of the gates."""
    known = {(each.table, each.where): each for each in every(lake) if each.opened is None}
    nearest: dict[str, Shut | None] = {}
    for table in tables:
        own = known.get((table.id, Where.BEFORE)) or known.get((table.id, Where.BEHIND))
        below = (nearest.get(source.id) for source in table.needs)
        nearest[table.id] = own or next((each for each in below if each), None)
    return {name: _summed_up(name, found) for name, found in nearest.items()}


def _summed_up(name: str, found: Shut | None) -> str:
    if found is None:
        return "open"
    return "shut" if found.table == name else f"waits for {found.table}"


def _failures(findings: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return by name the value of each finding, or its number of rows."""
    return {
        str(each["name"]): float(each.get("value") or each.get("failed") or 0) for each in findings
    }


def _decoded(text: str) -> Shut:
    values = json.loads(text)
    changed = {"where": Where(values["where"]), "findings": tuple(values["findings"])}
    return Shut(**{**values, **changed})


def _file(table: Table, lake: Lake, where: Where) -> Place:
    return lake.gates / f"{table.id}.{where}.json"


def _open_mark(lake: Lake) -> Place:
    return lake.root / "gates-stand-open"
