"""A verdict from a closed list, one sentence, and the evidence for it.

The list is closed because programs act on it: an alert that distinguishes ``late`` from ``not read yet`` needs no
person. Facts about an event that no verdict expresses are evidence.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum

from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline_quality import mask

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Show what is being done, the total, and how much is done."""


@contextmanager
def no_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:  # noqa: ARG001  # not shown
    """Show nothing."""
    yield lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The outside world of an answer: the lake, the time, and Kafka if its address is known.

    Args:
        lake: The lake.
        now: The current time.
        address: Kafka's address, if known.
        options: The options of Kafka's clients.
        search: Whether bronze may be read record by record.
        progress: Shows the progress of such a search.
    """

    lake: Lake
    now: datetime
    address: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    search: bool = True
    progress: Progress = no_progress


class Verdict(StrEnum):
    """Where an event is, or what became of it."""

    NEVER_PRODUCED = "never produced"
    EXPIRED = "expired before it was read"
    NO_RECORD = "not a record"
    NOT_READ_YET = "not read yet"
    SHUT_OUT = "waiting behind a shut gate"
    QUARANTINED = "quarantined"
    LATE = "late"
    EARLY = "early"
    DISORDERED = "disordered"
    DUPLICATE = "duplicate"
    DROPPED = "dropped by the watermark"
    NO_MATCH = "no match in the static table"
    NO_PARTNER = "join partner absent"
    OPEN = "window still open"
    LEFT_OUT = "left out by the table's function"
    SKIPPED = "passed over by a rule"
    OTHER_KIND = "of a kind that another table takes"
    UNROUTED = "of a kind that no table takes"
    NO_KIND = "without a kind"
    IN_TABLE = "in the table"
    REPLACED = "replaced by a backfill"
    DELETED = "deleted by retention"
    FORGOTTEN = "forgotten on request"
    UNACCOUNTED = "unaccounted for"
    """The lake contradicts itself; `strandline ledger` shows where."""
    UNKNOWN = "unknown"
    """It is in no table, and not everything could be searched for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An answer of ``why``.

    Args:
        table: The table that the verdict is about.
        verdict: The verdict.
        sentence: The verdict in one sentence, for a person.
        evidence: The facts behind it, as texts, numbers, lists and mappings.
    """

    table: str
    verdict: Verdict
    sentence: str
    evidence: Mapping[str, object] = field(default_factory=dict)

    def also(self, **more: object) -> "Finding":
        """Return the finding with more evidence."""
        evidence = {**self.evidence, **{name: as_json(value) for name, value in more.items()}}
        return Finding(
            table=self.table, verdict=self.verdict, sentence=self.sentence, evidence=evidence
        )


def make_finding(table: Table, verdict: Verdict, sentence: str, **evidence: object) -> Finding:
    """Return a finding whose evidence consists of JSON values."""
    plain = {name: as_json(value) for name, value in evidence.items()}
    return Finding(table=table.id, verdict=verdict, sentence=sentence, evidence=plain)


def shown_row(table: Table, row: Mapping[str, object]) -> dict[str, object]:
    """Return the columns of a row that may be shown: sensitive ones masked, our own left out."""
    return {
        name: mask.mask_value(value) if name in table.secret else value
        for name, value in row.items()
        if not name.startswith("_")
    }


def shown_payload(
    table: Table, value: object, columns: Collection[str] = ()
) -> dict[str, object] | None:
    """Return a payload's size, and its text with all that may be sensitive masked.

    Args:
        table: The table of the payload.
        value: The bytes, if any.
        columns: The table's columns; a field with another name may hold anything and is masked.
    """
    if not isinstance(value, bytes):
        return None
    known = table.shown(columns)
    return {"bytes": len(value), "text": mask.payload(value, table.secret, known)}


def as_json(value: object) -> object:
    """Return a value in types that JSON has."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return value.decode(errors="backslashreplace")
        case Mapping():
            return {str(name): as_json(each) for name, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [as_json(each) for each in value]
        case _:
            return str(value)
