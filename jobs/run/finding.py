"""One verdict from a closed list, one sentence, and what it rests on.

Closed, because a program acts on it: an alert that knows ``late`` from ``not read yet`` needs no person. What is true
of an event and stands in no verdict is evidence.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum

from jobs.core.table import Table
from jobs.run.lake import Lake
from quality import mask

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Shows what is done, of how many, and how far it is."""


@contextmanager
def silence(what: str, total: int) -> Iterator[Callable[[int], None]]:  # noqa: ARG001  # what nobody is shown
    """Show nothing."""
    yield lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What an answer needs from outside: the lake, the time, and Kafka where it is known.

    Args:
        lake: Where.
        now: The time.
        address: Kafka's, where it is known.
        options: Of its clients.
        search: Whether bronze may be read record by record.
        progress: Shows how far such a search is.
    """

    lake: Lake
    now: datetime
    address: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    search: bool = True
    progress: Progress = silence


class Verdict(StrEnum):
    """Where an event is, or what has become of it."""

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
    IN_TABLE = "in the table"
    REPLACED = "replaced by a backfill"
    UNACCOUNTED = "unaccounted for"
    """The lake contradicts itself; `strandline ledger` says where."""
    UNKNOWN = "unknown"
    """It is in no table, and not everything could be searched for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An answer to why.

    Args:
        table: The table of which it speaks.
        verdict: What is the matter.
        sentence: The same for a person.
        evidence: What was found, in texts, numbers, lists and mappings.
    """

    table: str
    verdict: Verdict
    sentence: str
    evidence: Mapping[str, object] = field(default_factory=dict)

    def also(self, **more: object) -> "Finding":
        """Add evidence."""
        told = {**self.evidence, **{name: plain(value) for name, value in more.items()}}
        return Finding(
            table=self.table, verdict=self.verdict, sentence=self.sentence, evidence=told
        )


def found(table: Table, verdict: Verdict, sentence: str, **evidence: object) -> Finding:
    """Make a finding, its evidence in values that JSON knows."""
    told = {name: plain(value) for name, value in evidence.items()}
    return Finding(table=table.id, verdict=verdict, sentence=sentence, evidence=told)


def own(table: Table, row: Mapping[str, object]) -> dict[str, object]:
    """Return a row's columns as they may be shown: those of a person masked, those of ours left out."""
    return {
        name: mask.mask_value(value) if name in table.secret else value
        for name, value in row.items()
        if not name.startswith("_")
    }


def payload(table: Table, value: object, columns: Collection[str] = ()) -> dict[str, object] | None:
    """Return a payload as it may be shown: its size, and its text, of which nothing that may be of a person is left.

    Args:
        table: Whose it is.
        value: The bytes, if there are any.
        columns: Those of the table; fields of other names may be anything.
    """
    if not isinstance(value, bytes):
        return None
    known = table.shown(columns)
    return {"bytes": len(value), "text": mask.payload(value, table.secret, known)}


def plain(value: object) -> object:
    """Write a value in what JSON knows."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return value.decode(errors="backslashreplace")
        case Mapping():
            return {str(name): plain(each) for name, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(each) for each in value]
        case _:
            return str(value)
