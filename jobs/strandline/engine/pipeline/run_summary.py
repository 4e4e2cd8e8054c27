"""The figures of a run, for a person or a program, and the run of another program that it is a part of."""

from collections import Counter
from dataclasses import dataclass, field, fields

from strandline.engine.storage.ledger import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The run of another program that this one is a part of."""

    run: str
    job: str
    namespace: str


@dataclass(slots=True, kw_only=True)
class Report:
    """The sum of a run's batches."""

    table: str
    mode: str
    batches: int = 0
    read: int = 0
    good: int = 0
    duplicates: int = 0
    quarantined: Counter[str] = field(default_factory=Counter)
    broke: Counter[str] = field(default_factory=Counter)
    failed: set[str] = field(default_factory=set)
    dropped_by_watermark: int = 0
    lost_by_function: int = 0
    made_by_function: int = 0
    written: int = 0
    seconds: float = 0.0
    books_open: str = ""
    """Why the books could not be closed, which costs readers of the ledger time."""

    def add(self, entry: Entry) -> None:
        """Add the figures of one batch."""
        self.batches += 1
        self.read += entry.read
        self.good += entry.good
        self.duplicates += entry.duplicates
        self.quarantined.update(entry.quarantined)
        self.broke.update(entry.broke)
        self.failed.update(entry.failed)
        self.dropped_by_watermark += entry.dropped_by_watermark
        self.lost_by_function += entry.lost_by_function
        self.made_by_function += entry.made_by_function
        self.written += entry.written
        self.seconds += entry.duration_ms / 1000

    def as_json(self) -> dict[str, object]:
        """Return the figures for a program; ``asdict`` would count the pairs of a Counter (Python 3.11)."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            **values,
            "quarantined": dict(self.quarantined),
            "broke": dict(self.broke),
            "failed": sorted(self.failed),
        }
