"""What was found, as structures that the page, the JSON and the terminal are made from, so that they agree: of a lake's quality, and of rules on history.

Moments are ISO texts, so the structure survives JSON unchanged.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """Whether the numbers of a table may be used, from the best verdict to the worst."""

    SILENT = "nothing written"
    BELIEVED = "believed"
    WARNED = "believed, with warnings"
    STALE = "stale"
    HELD = "held back"
    UNPROVEN = "not what bronze gives"
    UNBALANCED = "unbalanced"

    @property
    def rank(self) -> int:
        """Return its place from the best to the worst."""
        return list(Verdict).index(self)

    @property
    def is_trusted(self) -> bool:
        """Return whether the numbers may be used."""
        return self.rank <= Verdict.WARNED.rank


MEANING = {
    Verdict.BELIEVED: "every row read is accounted for, and nothing was out of the ordinary",
    Verdict.WARNED: "every row is accounted for, but the warnings beside it need a look",
    Verdict.STALE: "rows have waited for longer than they should, so the numbers are not complete",
    Verdict.HELD: "an expectation failed, and the gate is shut until a person decides",
    Verdict.UNPROVEN: "its certificate failed: computed again from bronze, its rows are others",
    Verdict.UNBALANCED: "rows are missing, doubled, or other than they should be",
    Verdict.SILENT: "no batch was committed, and none was due",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The rows read, by outcome: read + made = good + duplicates + quarantined + skipped + dropped + lost."""

    read: int = 0
    good: int = 0
    duplicates: int = 0
    quarantined: int = 0
    skipped: int = 0
    dropped: int = 0
    lost: int = 0
    made: int = 0

    @property
    def judged(self) -> int:
        """Return the rows read without those that are passed over on purpose."""
        return self.read - self.skipped

    def __add__(self, other: "Flow") -> "Flow":
        """Return the sum of both."""
        both = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        return Flow(**both)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A table's balance sheet since its first batch, as ``strandline ledger`` shows it."""

    flow: Flow
    rows: int
    waiting: int
    batches: int
    balanced: bool
    faults: tuple[str, ...]
    healed: int = 0
    keeps_copies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOfRecord:
    """The records of a kind in a topic that has several, since the first batch.

    Args:
        kind: The kind, or what is said of those without a name.
        rows: How many came.
        goes: Where they go.
        homeless: Whether no table has them, and no declaration says that this is meant.
    """

    kind: str
    rows: int
    goes: str
    homeless: bool = False


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
        at: The beginning of the hour.
        flow: The outcome of its rows.
        freshness_s: The longest time from an event to the commit that holds it.
        usual: The bounds of the rows that are usually read in it; None while there is too little history.
    """

    at: str
    flow: Flow
    freshness_s: float | None
    usual: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A rule that rows broke.

    Args:
        rule: The name of the rule.
        rows: The number of rows that broke it.
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
    """The result of a table's last verification, and whether it still holds."""

    standing: str
    at: str | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """What a reader of topics has not read, and for how long Kafka keeps it, as the radar saw it last.

    Args:
        reader: The reader.
        seen_at: When the radar looked.
        unread: How many offsets it has not read.
        goes_at: The earliest moment at which one of them may be gone; None for never, or unknown.
        level: How near the loss is.
        says: All of it in a sentence, of the partition that is nearest.
    """

    reader: str
    seen_at: str
    unread: int
    goes_at: str | None
    level: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far a feature or the score of a model has moved on a day from what its version learnt.

    Args:
        model: The model.
        version: The version that scored the rows.
        of: The name of the feature, or ``score``.
        rows: The rows that it scored on the day.
        psi: The population stability index.
        warns: Whether it is beyond the model's bound.
        learnt: The share of the training's rows in each part.
        shares: The share of the day's.
    """

    model: str
    version: str
    of: str
    rows: int
    psi: float
    warns: bool
    learnt: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFindings:
    """The findings about one table; ``own_day`` is where its judged days begin and end, if they are not those of the report."""

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
    drift: tuple[Drift, ...] = ()
    kinds: tuple[KindOfRecord, ...] = ()
    own_day: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """The rows of a table's closed days that are not what they were when these days were last reported.

    Args:
        table: The table.
        rows: How many; None where too many files were written for a look, or some are gone.
        days: The first day of these rows, and the last; empty where they are not known.
        causes: What moved them, with the rows of each, the most first.
        commits: How many commits they are of; the first of more are not looked at.
        since: The version before these commits.
        until: The version of the last of them.
        command: What shows these rows.
    """

    table: str
    rows: int | None
    days: tuple[str, ...]
    causes: tuple[tuple[str, int | None], ...]
    commits: int
    since: int
    until: int
    command: str

    @property
    def because(self) -> str:
        """Return what moved the rows, in words."""
        return ", ".join(
            what if rows is None else f"{what} ({rows:,})" for what, rows in self.causes
        )

    @property
    def sentence(self) -> str:
        """Return it as a sentence."""
        many = "rows" if self.rows is None else f"{self.rows:,} row{'s' * (self.rows != 1)}"
        when = " to ".join(dict.fromkeys(self.days))
        of = f" of {when}" if when else ""
        return f"{self.table}: {many}{of} not what they were, by {self.because}: {self.command}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """The newest moment at which tables belong together, and which of them have gone on since.

    Args:
        moment: Its number; None where it was not noted.
        at: When the newest commit was made that is part of it.
        beyond: The tables that have newer versions than it.
        behind: The tables that are no part of it.
    """

    moment: int | None
    at: str
    beyond: tuple[str, ...]
    behind: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Return it as a sentence."""
        name = f"moment {self.moment}" if self.moment else "a moment"
        at = self.at.replace("T", " ")
        if not (self.beyond or self.behind):
            return f"The sums of all tables are as of {name} of {at}, so they belong together."
        said = f"The newest moment at which tables belong together is {name} of {at}."
        if self.beyond:
            said += f" Sums of {', '.join(self.beyond)} are of later versions."
        if self.behind:
            said += f" No part of it: {', '.join(self.behind)}."
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The findings about a lake.

    Args:
        lake: The name of its folder.
        made_at: The time of the report.
        since: The beginning of the judged range.
        until: The end of the range, exclusive.
        verdict: The verdict of the worst table.
        sentence: The verdict as a sentence.
        because: The reasons for it, the worst first.
        arrived: The number of records that arrived.
        judged: The judged rows by outcome.
        tables: The tables, in the order in which data flows.
        unread: What readers of topics have not read; none where the radar never looked.
        reported: When the days before were last reported, or when the judged day began, where they never were.
        revisions: What is not what it was then.
        as_of: The moment of which the sums are; None where there is none.
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
    unread: tuple[Unread, ...] = ()
    reported: str | None = None
    revisions: tuple[Revision, ...] = ()
    as_of: AsOf | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the findings as JSON values."""
        return asdict(self)


# What rules would have raised on history, as one structure: the page, the JSON and the terminal are made from it.
#
# Moments and days are ISO texts, so the structure survives JSON unchanged.


class Change(StrEnum):
    """What became of an alert between two versions of a rule."""

    ADDED = "added"
    """Only the new version raises it."""
    GONE = "gone"
    """Only the old version raised it."""
    MOVED = "moved"
    """Both do, on the same event; its id is another one, because the version is part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSample:
    """An alert. Sensitive columns are masked in ``key`` and ``event``, as they are wherever alerts go."""

    alert_id: str
    at: str
    place: str
    key: str
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How many alerts of a rule changed, and some of each kind."""

    old_version: str | None
    counts: Mapping[Change, int]
    samples: Mapping[Change, tuple[AlertSample, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFigures:
    """What one rule would have raised.

    Args:
        days: Alerts of each day of the backtest, in its order.
        entities: How many of whatever the alerts are about: computers, addresses.
        top: Those with the most alerts, and how many.
        compared: The other version's alerts beside these; None where there is none to compare with.
        micros: Microseconds of CPU an event that it takes alone, if that is more than the backtest's limit.
    """

    rule: str
    title: str
    version: str | None
    severity: str
    table: str
    owner: str
    file: str
    alerts: int
    days: tuple[int, ...]
    entity: str
    entities: int
    top: tuple[tuple[str, int], ...]
    samples: tuple[AlertSample, ...]
    compared: Compared | None = None
    micros: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCost:
    """What the rules of one table cost: one Spark job for all of them."""

    table: str
    rules: int
    events: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """What rules would have raised between two moments of event time.

    Args:
        limit: Microseconds of CPU an event beyond which a rule is slow; None where that was not measured.
    """

    lake: str
    made_at: str
    since: str
    until: str
    days: tuple[str, ...]
    against: str | None
    tables: tuple[TableCost, ...]
    rules: tuple[RuleFigures, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    limit: float | None = None

    @property
    def alerts(self) -> int:
        """Return how many alerts there would have been."""
        return sum(rule.alerts for rule in self.rules)

    @property
    def events(self) -> int:
        """Return how many events were looked at."""
        return sum(table.events for table in self.tables)

    @property
    def silent(self) -> int:
        """Return how many rules would have raised nothing."""
        return sum(rule.alerts == 0 for rule in self.rules)

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return asdict(self)
