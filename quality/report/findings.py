"""What is known of a lake's quality, as one structure: the page and the JSON are both made of it, so they cannot differ.

Moments are ISO texts, so that the structure goes through JSON and back without a change.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """What the numbers of a table are worth, from the best to the worst."""

    SILENT = "nothing written"
    BELIEVED = "believed"
    WARNED = "believed, with warnings"
    STALE = "stale"
    HELD = "held back"
    UNBALANCED = "unbalanced"

    @property
    def rank(self) -> int:
        """Return how bad it is."""
        return list(Verdict).index(self)

    @property
    def is_trusted(self) -> bool:
        """Tell whether somebody may use the numbers."""
        return self.rank <= Verdict.WARNED.rank


MEANING = {
    Verdict.BELIEVED: "every row read is accounted for, and nothing was out of the ordinary",
    Verdict.WARNED: "every row is accounted for, but somebody should look at what is said beside it",
    Verdict.STALE: "rows have waited for longer than they should, so the numbers are not complete",
    Verdict.HELD: "an expectation failed, and the gate is shut until somebody decides",
    Verdict.UNBALANCED: "rows are missing, doubled, or other than they should be",
    Verdict.SILENT: "no batch was committed, and none was due",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Where rows went: read = good + duplicates + quarantined + dropped."""

    read: int = 0
    good: int = 0
    duplicates: int = 0
    quarantined: int = 0
    dropped: int = 0

    def __add__(self, other: "Flow") -> "Flow":
        """Return both together."""
        both = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        return Flow(**both)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A table's balance sheet from its beginning on, as ``strandline ledger`` shows it."""

    flow: Flow
    rows: int
    waiting: int
    batches: int
    balanced: bool
    faults: tuple[str, ...]
    healed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One day of one table."""

    day: str
    verdict: Verdict
    because: tuple[str, ...]
    flow: Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """One hour of one table, by the time of its commits.

    Args:
        at: Where it begins.
        flow: Where its rows went.
        freshness_s: The longest time from an event to the commit that holds it.
        usual: The least and the most rows that are usually read in it; None while nobody can know.
    """

    at: str
    flow: Flow
    freshness_s: float | None
    usual: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A rule that rows broke.

    Args:
        rule: Its name.
        rows: How many rows broke it.
        share: Their share of the rows read.
        trend: That share day by day, up to the last day of the report; None where nothing was read.
    """

    rule: str
    rows: int
    share: float
    trend: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why rows were held back; each row under its first reason."""

    reason: str
    rows: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A row of the quarantine as it may be shown."""

    topic: str
    partition: int
    offset: int
    arrived_at: str
    reasons: tuple[str, ...]
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """The rows that the quarantine holds, by how long ago they arrived."""

    rows: int = 0
    oldest: str | None = None
    ages: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A gate that is shut."""

    since: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the last verification of a table found, and what it is worth today."""

    standing: str
    at: str | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFindings:
    """What is known of one table."""

    table: str
    about: str
    owner: str
    judges: bool
    verdict: Verdict
    because: tuple[str, ...]
    sheet: Sheet
    flow: Flow
    newest_at: str | None
    days: tuple[Day, ...]
    hours: tuple[Hour, ...]
    failing: tuple[Failing, ...]
    reasons: tuple[Reason, ...]
    samples: tuple[Sample, ...]
    quarantine: Open | None
    gate: Gate | None
    proof: Proof | None
    rules: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What is known of a lake.

    Args:
        lake: The name of its folder.
        made_at: When this was put together.
        since: The first moment that is judged.
        until: The moment after the last.
        verdict: That of the worst table.
        sentence: The same, as a sentence.
        because: Why it is not better, the worst first.
        arrived: How many records came in.
        judged: Where those went that were judged.
        tables: In the order in which data flows.
    """

    lake: str
    made_at: str
    since: str
    until: str
    verdict: Verdict
    sentence: str
    because: tuple[str, ...]
    arrived: int
    judged: Flow
    tables: tuple[TableFindings, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return asdict(self)
